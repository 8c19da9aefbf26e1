"""`onbe audit …`: what was recorded, whether it is as it was, and where old months go."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from onbe.cli.place import DataOption, JsonOption, fail, find, said, with_system

if TYPE_CHECKING:  # imported by the commands that need them, so that `onbe --help` is quick
    from keel.ledger.archive import Done, Plan
    from keel.ledger.faults import Report
    from onbe.deps import Deps

Result = TypeVar("Result")

app = typer.Typer(help="What was recorded, and whether it is as it was.", no_args_is_help=True)

INTACT, UNREADABLE, USAGE, BROKEN = 0, 1, 2, 3
"""The exit codes of `onbe audit verify`."""
SeqArgument = Annotated[
    int, typer.Argument(metavar="SEQ", min=1, max=2**62, help="The record's number, as `onbe audit ls` shows it.")
]
KeyOption = Annotated[str | None, typer.Option("--key", metavar="HEX", help="The public key that it must have.")]


@app.command("ls")
def list_records(
    sponsor: Annotated[str | None, typer.Option("--sponsor", metavar="KEY", help="Only this person's.")] = None,
    agent: Annotated[str | None, typer.Option("--agent", metavar="ID", help="Only this agent's.")] = None,
    task: Annotated[str | None, typer.Option("--task", metavar="ID", help="Only this task's.")] = None,
    decision: Annotated[
        str | None, typer.Option("--decision", metavar="WORD", help="allow, deny, or a reason of a denial.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="WHEN", help="Not before: 2h, 3d, or 2026-11-30T16:20.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="WHEN", help="Before this, spelled as --since.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=200, help="How many at most.")] = 50,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="TEXT", help="Go on with older ones, with the same options.")
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List records.

    The newest first.

    Example: onbe audit ls --sponsor ada --decision deny --since 2h
    """
    from keel.ledger import telling
    from onbe.records import actions, decide
    from onbe.records.model import Wanted

    begin, end = (_typed("--since", telling.moment, since), _typed("--until", telling.moment, until))

    async def act(deps: Deps) -> actions.Page:
        now = deps.clock.now()
        wanted = Wanted(
            sponsor, agent, task, telling.instant(now, begin), telling.instant(now, end), decision, None, limit
        )  # fmt: skip
        return await actions.page(deps, decide.going_on(wanted, cursor))

    try:
        found = with_system(data, act)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if as_json:
        print(json.dumps({"records": [entry.told() for entry in found.entries], "next": found.next}, indent=2))
        return
    for entry in found.entries:
        told = entry.told()
        why = told["reason"] or "ok"
        who = f"{entry.sponsor or '-'} ({entry.agent or '-'})"
        print(
            f"{entry.seq:>6}  {entry.at:%Y-%m-%d %H:%M:%S}Z  {entry.action}  {why}  {who}  {entry.task or ''}".rstrip()
        )
    if not found.entries:
        print("No record fits.")
    elif found.next:
        print(f"older: the same with `--cursor {found.next}`")


@app.command("show")
def show(seq: SeqArgument, data: DataOption = None) -> None:
    """Show one record.

    All of it, and where it is sealed.

    Example: onbe audit show 4711
    """
    from onbe.records import actions

    one = said(with_system(data, lambda deps: actions.show(deps, seq)))
    seal = one.seal and {
        "checkpoint": one.seal.checkpoint, "at": one.seal.at.isoformat(), "position": one.seal.position,
    }  # fmt: skip
    print(json.dumps({**one.entry.told(), "seal": seal}, indent=2))


@app.command("prove")
def prove(
    seq: SeqArgument,
    archive: Annotated[
        Path | None, typer.Option("--archive", metavar="FILE", help="The archive of its month; no database is needed.")
    ] = None,
    data: DataOption = None,
) -> None:
    """Prove one record.

    What is printed shows, without this Onbe, that the record was sealed; `onbe audit check` checks it.

    Example: onbe audit prove 4711 > record-4711.json
    """
    from keel.ledger import archive_file
    from keel.ledger.checkpoint import BadFile
    from onbe.records import actions

    if archive is None:
        made = said(with_system(data, lambda deps: actions.prove(deps, seq)))
    else:
        try:
            found = archive_file.prove(archive, seq)
        except BadFile as error:
            fail(f"{archive} cannot be used: {error}.")
        made = found or fail(f"there is no record {seq} in {archive}")
    print(json.dumps(made.told(), indent=1))


@app.command("check")
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A proof that `onbe audit prove` or the API made.")],
    key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check a proof.

    It needs no Onbe and no network. The exit code is 3 if it does not hold.

    Example: onbe audit check record-4711.json --key 3b6a…
    """
    from keel.ledger import telling
    from keel.ledger.checkpoint import BadFile
    from keel.ledger.proof import parse

    known = _typed("--key", telling.public_key, key)
    try:
        found = parse(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, BadFile) as error:
        fail(f"{file} cannot be checked: {getattr(error, 'strerror', None) or error}.")
    problem = found.problem(known.hex() if known else None)
    if as_json:
        print(json.dumps(telling.proof_told(found, problem), indent=2))
    else:
        print("\n".join(telling.proof_lines(found, problem, known=known is not None)))
    raise typer.Exit(BROKEN if problem else INTACT)


@app.command("verify")
def verify(
    kept: Annotated[
        list[str] | None,
        typer.Option("--kept", metavar="N:ROOT", help="A checkpoint's number and root that you kept elsewhere."),
    ] = None,
    archive: Annotated[
        list[Path] | None, typer.Option("--archive", metavar="FILE", help="The file of an archived month.")
    ] = None,
    key: Annotated[
        list[str] | None, typer.Option("--key", metavar="HEX", help="A public key to trust beside those of this host.")
    ] = None,
    start: Annotated[
        int,
        typer.Option("--from", metavar="N", min=1, max=2**62, help="Begin here and believe the earlier."),
    ] = 1,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check all records.

    Every hash, root, link and signature is made anew. The exit code is 0 if all is as it was sealed, 3 if anything is
    not, 1 if it could not be read.

    Example: onbe audit verify --kept 12:ab34… --archive ledger-2026-10.jsonl.gz
    """
    from keel.ledger import telling
    from onbe.records import actions

    roots = dict(_typed("--kept", telling.kept_root, text) for text in kept or ())
    keys = [_typed("--key", telling.public_key, text) for text in key or ()]
    shown = sys.stderr.isatty()

    async def progress(done: int, total: int) -> None:
        if shown:
            print(f"\r{done:,} of {total:,} records", end="", file=sys.stderr, flush=True)

    async def act(deps: Deps) -> Report:
        return await actions.verify(
            deps, kept=roots, archives=archive or (), keys=keys, since=start, progress=progress
        )  # fmt: skip

    report = _readable(lambda: with_system(data, act))
    if shown:
        print("\r\x1b[K", end="", file=sys.stderr)
    if as_json:
        print(json.dumps(telling.report_told(report), indent=2))
    else:
        print("\n".join(telling.report_lines(report)))
        if report.head:
            one = report.head.checkpoint
            print(f"Keep elsewhere, for --kept: {one.number}:{one.root.hex()}")
    raise typer.Exit(INTACT if report.intact else BROKEN)


@app.command("archive")
def archive_months(
    month: Annotated[
        str | None, typer.Option("--month", metavar="YYYY-MM", help="Which; without it, every month that is over.")
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="DIR", help="The folder of the files; `archives` in the data folder.")
    ] = None,
    drop: Annotated[
        bool, typer.Option("--drop", help="Drop the month's table too, once its file was checked and recorded.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
    data: DataOption = None,
) -> None:
    """Move past months to files.

    Each file is written, read back and checked, and that it was made is recorded and signed, before the month leaves
    the ledger. Cut off anywhere, the next run finishes it. Back the files up: with --drop they are the only copy.

    Example: onbe audit archive --month 2026-10 --to /backup/onbe --drop
    """
    from keel.db import Database
    from keel.ledger import archive as archives
    from onbe.migrations import in_schema
    from onbe.records import actions

    place = find(data)
    folder = (to or place.data / "archives").expanduser().absolute()

    async def act(deps: Deps) -> list[Plan | Done]:
        async with Database(in_schema(place.url("owner"))) as owner:
            months = [month] if month else await archives.due(owner, deps.clock)
            if dry_run:
                delivered = await actions.delivered(deps)
                return [
                    await archives.plan(owner, deps.clock, one, folder, delivered=delivered) for one in months
                ]  # fmt: skip
            return [
                await actions.archive(deps, owner, one, folder, drop=drop, tell=lambda step: None) for one in months
            ]  # fmt: skip

    found = _readable(lambda: with_system(data, act))
    if not found:
        print("No month is over that is still in the ledger.")
    for one in found:
        print(_told(one))


def _told(one: Plan | Done) -> str:
    from keel.ledger.archive import Plan

    if isinstance(one, Plan):
        state = "is archived already; its file is" if one.recorded else "would go to"
        return f"{one.month}: {one.records:,} records, which {state} {one.path}".replace("which is", "which")
    there = "dropped" if one.dropped else "taken out of the ledger; --drop drops its table"
    done = "" if one.changed else " (nothing was to be done)"
    return f"{one.content.month}: {one.content.count:,} records are in {one.path}; the month is {there}{done}"


def _readable(act: Callable[[], Result]) -> Result:
    """What it gives; a key or a month that cannot be used, or a database that is away, is a sentence and exit 1."""
    from keel.db import Busy, OperationalError
    from keel.ledger.archive import ArchiveTrouble
    from keel.ledger.keys import KeyTrouble

    try:
        return act()
    except (ArchiveTrouble, KeyTrouble) as trouble:
        fail(f"{trouble}.")
    except (Busy, OperationalError) as error:
        fail(f"the database cannot be read: {str(error).strip().partition(chr(10))[0]}")


def _typed(option: str, read: Callable[[str], Any], text: str | None) -> Any:
    """What was typed, read; None for nothing. Exits 2 on what it should not be."""
    try:
        return None if text is None else read(text)
    except ValueError as error:
        raise typer.BadParameter(f"{option}: {error}") from None
