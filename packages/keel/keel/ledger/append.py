"""One append-only row for every decision, written in the transaction that decided.

The runtime role may insert and read, never change; a trigger says the same to every role. Free text (a command) stands
in a side table that can be erased; the row holds its salted SHA-256.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from keel.db import Json, Tx


@dataclass(frozen=True, slots=True)
class Record:
    """One row: when, who, through which token, what, on what, how it ended, how long the decision took."""

    at: datetime
    actor: str | None
    via: str | None
    action: str
    task: str | None
    box: str | None
    outcome: str
    """`ok`, a refusal's code, or `error`."""
    duration_ms: float
    """From the receipt of the call to its decision; what it waited for afterwards is not in it."""
    arguments: Mapping[str, object]
    """Scrubbed: no file content, no secret, no handle."""
    text: str | None = None
    salt: str = ""


_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
"""What a text of Postgres cannot hold: NUL, and halves of surrogate pairs."""


def storable(value: object) -> object:
    """A JSON value as Postgres can hold it: what it cannot is U+FFFD. A call with such bytes is recorded too."""
    match value:
        case str():
            return _UNSTORABLE.sub("\ufffd", value)
        case Mapping():
            return {str(storable(str(key))): storable(one) for key, one in value.items()}
        case list() | tuple():
            return [storable(one) for one in value]
        case _:
            return value


def text_hash(salt: str, text: str) -> bytes:
    """The salted SHA-256 of a row's text. The salt goes with the text, so that nobody can guess an erased one."""
    return hashlib.sha256((salt + text).encode()).digest()


async def have_months(tx: Tx, now: datetime) -> None:
    """Have the partitions of this month and the next."""
    for ahead in ("0 months", "1 month"):
        await tx.run("SELECT ledger_month(%(now)s + %(ahead)s::interval)", {"now": now, "ahead": ahead})


async def append(tx: Tx, record: Record) -> None:
    """Write one record, and its text beside it."""
    await tx.send(_APPEND, _params(record))


async def append_all(tx: Tx, records: Sequence[Record]) -> None:
    """Write many records, in their order, without waiting for each."""
    await tx.many(_APPEND, [_params(record) for record in records])


async def let_read(tx: Tx, record: Record, reader: str) -> None:
    """Note that `reader` may read the record that this transaction appended last.

    For a product that keeps this, in `ledger_readers`; to note it twice changes nothing.
    """
    await tx.send(
        """
        INSERT INTO ledger_readers (reader, at, seq) VALUES (%(reader)s, %(at)s, currval('ledger_seq'))
        ON CONFLICT DO NOTHING
        """,
        {"reader": reader, "at": record.at},
    )


_APPEND: Final = """
    WITH row AS (
        INSERT INTO ledger (at, actor, via, action, task, box, outcome, duration_us, arguments, text_sha256)
        VALUES (%(at)s, %(actor)s, %(via)s, %(action)s, %(task)s, %(box)s, %(outcome)s, %(duration)s, %(arguments)s,
                %(hashed)s)
        RETURNING seq, at
    )
    INSERT INTO ledger_texts (seq, at, salt, text)
    SELECT seq, at, %(salt)s, %(text)s FROM row WHERE %(text)s::text IS NOT NULL
"""


def _params(record: Record) -> dict[str, object]:
    text = None if record.text is None else _UNSTORABLE.sub("\ufffd", record.text)
    return {
        "at": record.at,
        "actor": record.actor,
        "via": record.via,
        "action": record.action,
        "task": record.task,
        "box": record.box,
        "outcome": record.outcome,
        "duration": round(record.duration_ms * 1000),
        "arguments": Json(storable(record.arguments)),
        "hashed": None if text is None else text_hash(record.salt, text),
        "salt": record.salt,
        "text": text,
    }
