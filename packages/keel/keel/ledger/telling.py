"""How a check, a proof and a checkpoint are told on a command line, and how what is typed there is read. Pure."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from keel.ledger.checkpoint import BadFile, Signed, read
from keel.ledger.faults import Report
from keel.ledger.proof import Proof

MOST = 2**62
"""No number of a record or a checkpoint comes near it, and the database can still hold it."""
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def report_told(report: Report) -> dict[str, Any]:
    """A check's outcome for programs."""
    head = report.head
    return {
        "intact": report.intact, "checkpoints": report.checkpoints, "records": report.records, "texts": report.texts,
        "archived": report.archived, "unseen": report.unseen, "unsealed": report.unsealed,
        "head": head.told() if head else None,
        "problems": [
            {"kind": one.kind, "sentence": one.sentence, "checkpoint": one.checkpoint, "seq": one.seq}
            for one in report.problems
        ],
        "more_problems": report.more,
    }  # fmt: skip


def report_lines(report: Report) -> list[str]:
    """A check's outcome for a person: every problem, and the verdict last."""
    lines = [f"{problem.kind}: {problem.sentence}" for problem in report.problems]
    if report.more:
        lines.append(f"and {report.more} more")
    checked = f"{report.records:,} records in {report.checkpoints:,} checkpoints, {report.texts:,} texts"
    archived = (
        f"; {report.archived:,} of them are archived, {report.unseen:,} in files that were not given"
        if report.archived
        else ""
    )
    rest = f"; {report.unsealed:,} newer ones are not sealed yet" if report.unsealed else ""
    return [*lines, f"{'Intact' if report.intact else 'NOT INTACT'}: {checked} checked{archived}{rest}."]


def proof_told(found: Proof, problem: str | None) -> dict[str, Any]:
    """What a check of a proof found, for programs."""
    return {
        "holds": problem is None,
        "problem": problem,
        "record": json.loads(found.entry) if problem is None else None,
    }


def proof_lines(found: Proof, problem: str | None, *, known: bool) -> list[str]:
    """The same for a person. `known` is whether the key was one that the reader gave."""
    if problem is not None:
        return [f"It does not hold: {problem}."]
    one = found.signed.checkpoint
    return [
        found.entry.decode(),
        f"This record was sealed in checkpoint {one.number} of {one.at:%Y-%m-%d %H:%M:%S} UTC.",
        f"Signed with the key {found.public.hex()}" + ("." if known else "; --key checks that it is the one you know."),
    ]


def public_key(text: str) -> bytes:
    """A public key as it is typed. Raises ValueError with what it should be."""
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise ValueError("a public key is 64 hexadecimal digits")
    return key


def kept_root(text: str) -> tuple[int, bytes]:
    """Number and root of a checkpoint that somebody kept, `12:ab34…`. Raises ValueError with what it should be."""
    number, _, root = text.partition(":")
    try:
        found = bytes.fromhex(root)
    except ValueError:
        found = b""
    if not (number.isascii() and number.isdigit() and 0 < int(number[:20]) < MOST and len(found) == 32):
        raise ValueError("a checkpoint that was kept is its number, a colon and the 64 hexadecimal digits of its root")
    return int(number), found


def checkpoint_in(text: str) -> Signed:
    """A checkpoint from the text of a file. Raises BadFile."""
    try:
        return read(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise error if isinstance(error, BadFile) else BadFile("it is not JSON") from None


def moment(text: str) -> datetime | timedelta:
    """An instant, or how long ago. Raises ValueError with what it should be."""
    try:
        if text[-1:] in UNITS and text[:-1].isdecimal():
            return timedelta(**{UNITS[text[-1]]: int(text[:-1])})
        at = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise ValueError("90s, 15m, 2h, 3d, 1w, or an instant such as 2026-11-30T16:20") from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def instant(now: datetime, when: datetime | timedelta | None) -> datetime | None:
    """The instant that was meant."""
    if not isinstance(when, timedelta):
        return when
    try:
        return now - when
    except OverflowError:  # before the calendar: from the beginning
        return datetime.min.replace(tzinfo=UTC)
