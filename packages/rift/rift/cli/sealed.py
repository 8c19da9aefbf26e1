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
    from keel.ledger import telling
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
        print(json.dumps(telling.report_told(report), indent=2))
    else:
        print("\n".join(telling.report_lines(report)))
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
    from keel.ledger import telling
    from keel.ledger.checkpoint import BadFile
    from keel.ledger.proof import parse

    try:
        found = parse(_read(file))
    except BadFile as error:
        fail(f"{file} cannot be checked: {error}.")
    problem = found.problem(_key(key).hex() if key else None)
    if as_json:
        print(json.dumps(telling.proof_told(found, problem), indent=2))
    else:
        print("\n".join(telling.proof_lines(found, problem, known=key is not None)))
    raise typer.Exit(0 if problem is None else 1)


def checkpoint(out: OutOption = None, data: DataOption = None) -> None:
    """Take the newest checkpoint.

    Over every record there is. Keep it elsewhere: `rift audit verify --against` it finds a history written anew.

    Example: rift audit checkpoint --out checkpoint.json
    """
    from rift.records import actions

    signed = trouble(lambda: said(with_system(data, actions.checkpoint)))
    _give(signed.told(), out, f"Checkpoint {signed.checkpoint.number}")


def _key(text: str) -> bytes:
    from keel.ledger import telling

    try:
        return telling.public_key(text)
    except ValueError as error:
        raise typer.BadParameter(f"{error}, as `rift audit keys` shows it") from None


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{file} cannot be read: {getattr(error, 'strerror', None) or 'it is not text'}.")


def _checkpoint(file: Path) -> Signed:
    from keel.ledger import telling
    from keel.ledger.checkpoint import BadFile

    try:
        return telling.checkpoint_in(_read(file))
    except BadFile as error:
        fail(f"{file} is no checkpoint of `rift audit checkpoint`: {error}.")


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
