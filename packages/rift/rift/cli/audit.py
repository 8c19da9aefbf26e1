"""`rift audit …`: what was recorded, and whether it is as it was."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rift.cli import sealed
from rift.cli.place import DataOption, JsonOption, find, said, with_system
from rift.cli.sealed import MOST, SeqArgument

if TYPE_CHECKING:  # imported by the commands that need them, so that `rift --help` is quick
    from datetime import datetime, timedelta

    from rift.deps import Deps
    from rift.records.model import Entry, Whole

app = typer.Typer(help="What was recorded, and whether it is as it was.", no_args_is_help=True)
for word in (sealed.verify, sealed.proof, sealed.check, sealed.checkpoint):
    app.command()(word)

TaskOption = Annotated[str | None, typer.Option("--task", metavar="ID", help="Only this task's.")]


@app.command("ls")
def list_records(
    task: TaskOption = None,
    box: Annotated[str | None, typer.Option("--box", metavar="ID", help="Only this box's.")] = None,
    user: Annotated[str | None, typer.Option("--user", metavar="EMAIL", help="Only this person's.")] = None,
    tool: Annotated[
        str | None, typer.Option("--tool", metavar="NAME", help="Only of this tool or command, such as rift_bash.")
    ] = None,
    outcome: Annotated[
        str | None, typer.Option("--outcome", metavar="CODE", help="ok, error, a refusal's code, or refused for any.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="WHEN", help="Not before: 2h, 3d, or 2026-11-30T16:20.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="WHEN", help="Before this, spelled as --since.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=1000, help="How many at most.")] = 50,
    after: Annotated[
        int | None,
        typer.Option("--after", metavar="SEQ", min=1, max=MOST, help="Go on after it, with older ones."),
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List records.

    The newest first. The last line says how to see older ones.

    Example: rift audit ls --task task_t3fbd463 --outcome refused --since 2h
    """
    from keel.ledger import telling
    from rift.records import actions
    from rift.records.model import Wanted

    moments = _when("--since", since), _when("--until", until)

    async def act(deps: Deps) -> Any:
        now = deps.clock.now()
        begin, end = (telling.instant(now, one) for one in moments)
        return await actions.page(deps, Wanted(task, box, user, tool, outcome, begin, end, after, limit))

    found: list[Entry] = said(with_system(data, act))
    if as_json:
        print(json.dumps([entry.told() for entry in found], indent=2))
        return
    place = find(data)
    if not found:
        narrowed = any((task, box, user, tool, outcome, since, until, after))
        every = place.spelled("audit ls")
        print(f"No record fits. `{every}` lists all there are." if narrowed else
              "Nothing was recorded yet: the first call is the first record.")  # fmt: skip
        return
    for entry in found:
        print(_line(entry))
    if len(found) == limit:
        print(f"older: `{place.spelled(f'audit ls --after {found[-1].seq}')}`, with the same options")


@app.command("show")
def show(seq: SeqArgument, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Show one record.

    With its text, if it is kept, and where it is sealed.

    Example: rift audit show 4711
    """
    from rift.records import actions

    one = said(with_system(data, lambda deps: actions.show(deps, seq)))
    if as_json:
        seal = one.seal and {
            "checkpoint": one.seal.checkpoint, "at": one.seal.at.isoformat(), "position": one.seal.position,
        }  # fmt: skip
        print(json.dumps({**one.entry.told(), "text": one.text, "text_state": one.text_state, "seal": seal}, indent=2))
        return
    for line in _lines(one):
        print(line)


@app.command("keys")
def list_keys(data: DataOption = None, as_json: JsonOption = False) -> None:
    """List the keys.

    The public keys that checkpoints are signed with, the newest last.

    Example: rift audit keys --json
    """
    from rift.records import actions

    found = sealed.trouble(lambda: with_system(data, actions.keys))
    rows = [{**key.told(), "here": key.id in found.here} for key in found.known]
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    if not rows:
        print("No key yet: the first sealing makes one.")
    for row in rows:
        by = f", endorsed by {row['previous']}" if row["endorsement"] else ""
        print(
            f"{row['id']}  {row['public']}  since {row['at'][:19]}Z{by}{'' if row['here'] else '  (not of this host)'}"
        )


@app.command("rotate")
def rotate(data: DataOption = None) -> None:
    """Replace the key.

    The old key vouches for the new one and is then deleted; what it signed stays good.

    Example: rift audit rotate
    """
    from rift.records import actions

    key = sealed.trouble(lambda: with_system(data, actions.rotate))
    print(f"Checkpoints are signed with the key {key.id} from now on: {key.public.hex()}")


@app.command("erase")
def erase(
    task: Annotated[str, typer.Option("--task", metavar="ID", help="Whose texts.")], data: DataOption = None
) -> None:
    """Erase texts.

    The text of every command of a task, and no record: each keeps its text's hash. Erasing is a record too.

    Example: rift audit erase --task task_t3fbd463
    """
    from rift.records import actions

    gone = with_system(data, lambda deps: actions.erase(deps, task))
    print(f"Erased of {task}: the texts of {gone.records} records and of {gone.commands} ended commands.")


def _line(entry: Entry) -> str:
    who = entry.who or entry.via or ""
    via = f" ({entry.via})" if entry.who else ""
    where = " ".join(filter(None, (entry.task, entry.box)))
    at = entry.at.strftime("%Y-%m-%d %H:%M:%S")
    return f"{entry.seq:>6}  {at}Z  {entry.action}  {entry.outcome}  {who}{via}  {where}".rstrip()


def _lines(one: Whole) -> list[str]:
    entry = one.entry
    texts = {
        "none": [],
        "kept": ["text       matches its hash:", *(f"  {line}" for line in (one.text or "").splitlines())],
        "erased": ["text       was erased; its hash is kept"],
        "changed": [
            "text       IS NOT THE ONE IT WAS MADE WITH:",
            *(f"  {line}" for line in (one.text or "").splitlines()),
        ],
    }
    from rift.names import SEAL_SECONDS

    seal = (
        f"checkpoint {one.seal.checkpoint} of {one.seal.at:%Y-%m-%d %H:%M:%S}Z, position {one.seal.position}"
        if one.seal
        else f"not yet; a worker seals every {SEAL_SECONDS} s"
    )
    return [
        f"record     {entry.seq}",
        f"at         {entry.at:%Y-%m-%d %H:%M:%S.%f}Z",
        f"who        {entry.who or 'nobody with a token'}{f' ({entry.actor})' if entry.actor else ''}",
        f"via        {entry.via or '-'}",
        f"action     {entry.action}",
        f"task       {entry.task or '-'}",
        f"box        {entry.box or '-'}",
        f"outcome    {entry.outcome}",
        f"duration   {entry.duration_us / 1000:g} ms",
        f"arguments  {entry.arguments}",
        *texts[one.text_state],
        f"sealed     {seal}",
    ]


def _when(option: str, text: str | None) -> datetime | timedelta | None:
    """An instant, or how long ago. Exits 2 on what is neither."""
    from keel.ledger import telling

    try:
        return None if text is None else telling.moment(text)
    except ValueError as error:
        raise typer.BadParameter(f"{option} takes {error}") from None
