"""The words of `rift audit` that speak of seals: verify, proof, check, checkpoint."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from rift.cli.place import DataOption, JsonOption, fail, said, with_system

if TYPE_CHECKING:  # imported by the commands that need them, so that `rift --help` is quick
    from keel.ledger.checkpoint import Signed
    from keel.ledger.faults import Report
    from rift.deps import Deps

Result = TypeVar("Result")

MOST = 2**62
"""No number of a record or a checkpoint comes near it, and the database can still hold it."""
SeqArgument = Annotated[
    int, typer.Argument(metavar="SEQ", min=1, max=MOST, help="The record's number, as `rift audit ls` shows it.")
]
OutOption = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="Where to write it; without it, to the terminal.")
]


def verify(
    start: Annotated[
        int,
        typer.Option("--from", metavar="N", min=1, max=MOST, help="Begin at this checkpoint and believe the earlier."),
    ] = 1,
    against: Annotated[
        Path | None, typer.Option("--against", metavar="FILE", help="A checkpoint that was kept elsewhere.")
    ] = None,
    key: Annotated[
        list[str] | None, typer.Option("--key", metavar="HEX", help="A public key to trust beside those of this host.")
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check all records.

    Every hash, root, link and signature is made anew. The exit code is 1 if anything is not as it was sealed.

    Example: rift audit verify --against checkpoint.json
    """
    from rift.records import actions

    kept, trusted = _checkpoint(against) if against else None, [_key(text) for text in key or ()]
    shown = sys.stderr.isatty()

    async def progress(done: int, total: int) -> None:
        if shown:
            print(f"\r{done:,} of {total:,} records", end="", file=sys.stderr, flush=True)

    async def act(deps: Deps) -> Report:
        return await actions.verify(deps, since=start, against=kept, keys=trusted, progress=progress)

    report = trouble(lambda: with_system(data, act))
    if shown:
        print("\r\x1b[K", end="", file=sys.stderr)
    if as_json:
        print(json.dumps(_report(report), indent=2))
    else:
        for problem in report.problems:
            print(f"{problem.kind}: {problem.sentence}")
        if report.more:
            print(f"and {report.more} more")
        print(_verdict(report))
    raise typer.Exit(0 if report.intact else 1)


def proof(seq: SeqArgument, out: OutOption = None, data: DataOption = None) -> None:
    """Prove one record.

    A small file that shows, without this Rift, that the record was sealed; `rift audit check` checks it.

    Example: rift audit proof 4711 --out record-4711.json
    """
    from rift.records import actions

    made = trouble(lambda: said(with_system(data, lambda deps: actions.prove(deps, seq))))
    _give(made.told(), out, f"The proof of record {seq}")


def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A proof that `rift audit proof` made.")],
    key: Annotated[
        str | None, typer.Option("--key", metavar="HEX", help="The public key that it must be signed with.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check a proof.

    It needs no Rift and no network. The exit code is 1 if it does not hold.

    Example: rift audit check record-4711.json --key 3b6a…
    """
    from keel.ledger.checkpoint import BadFile
    from keel.ledger.proof import parse

    try:
        found = parse(_read(file))
    except BadFile as error:
        fail(f"{file} cannot be checked: {error}.")
    problem = found.problem(_key(key).hex() if key else None)
    if as_json:
        record = json.loads(found.entry) if problem is None else None
        print(json.dumps({"holds": problem is None, "problem": problem, "record": record}, indent=2))
    elif problem is None:
        one = found.signed.checkpoint
        print(found.entry.decode())
        print(f"This record was sealed in checkpoint {one.number} of {one.at:%Y-%m-%d %H:%M:%S} UTC.")
        print(
            f"Signed with the key {found.public.hex()}"
            + ("." if key else "; --key checks that it is the one you know.")
        )
    else:
        print(f"It does not hold: {problem}.")
    raise typer.Exit(0 if problem is None else 1)


def checkpoint(out: OutOption = None, data: DataOption = None) -> None:
    """Take the newest checkpoint.

    Over every record there is. Keep it elsewhere: `rift audit verify --against` it finds a history written anew.

    Example: rift audit checkpoint --out checkpoint.json
    """
    from rift.records import actions

    signed = trouble(lambda: said(with_system(data, actions.checkpoint)))
    _give(signed.told(), out, f"Checkpoint {signed.checkpoint.number}")


def _report(report: Report) -> dict[str, Any]:
    head = report.head
    return {
        "intact": report.intact, "checkpoints": report.checkpoints, "records": report.records, "texts": report.texts,
        "unsealed": report.unsealed, "head": head.told() if head else None,
        "problems": [
            {"kind": one.kind, "sentence": one.sentence, "checkpoint": one.checkpoint, "seq": one.seq}
            for one in report.problems
        ],
        "more_problems": report.more,
    }  # fmt: skip


def _verdict(report: Report) -> str:
    checked = f"{report.records:,} records in {report.checkpoints:,} checkpoints, {report.texts:,} texts"
    rest = f"; {report.unsealed:,} newer ones are not sealed yet" if report.unsealed else ""
    return f"{'Intact' if report.intact else 'NOT INTACT'}: {checked} checked{rest}."


def _key(text: str) -> bytes:
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise typer.BadParameter("a public key is 64 hexadecimal digits, as `rift audit keys` shows it")
    return key


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{file} cannot be read: {getattr(error, 'strerror', None) or 'it is not text'}.")


def _checkpoint(file: Path) -> Signed:
    from keel.ledger.checkpoint import BadFile, read

    try:
        return read(json.loads(_read(file)))
    except (BadFile, ValueError, RecursionError) as error:
        told = error if isinstance(error, BadFile) else "it is not JSON"
        fail(f"{file} is no checkpoint of `rift audit checkpoint`: {told}.")


def _give(told: dict[str, Any], out: Path | None, what: str) -> None:
    text = json.dumps(told, indent=1)
    if out is None:
        print(text)
        return
    try:
        out.write_text(text + "\n", "utf-8")
    except OSError as error:
        fail(f"{out} cannot be written: {error.strerror}.")
    print(f"{what} is in {out}.")


def trouble(act: Callable[[], Result]) -> Result:
    """What it gives; a key that cannot be used is a sentence."""
    from keel.ledger.keys import KeyTrouble

    try:
        return act()
    except KeyTrouble as trouble:
        fail(f"{trouble}.")
