"""The ledger: one append-only row for every decision, written in the transaction that decided.

The runtime role may insert and read, never change; a trigger says the same to every role. Rows carry the id of their
transaction, so that sealing can stay below the oldest one that is still open. Free text (a command) stands in a
side table that can be erased; the row holds its salted SHA-256.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

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


async def append(tx: Tx, record: Record) -> None:
    """Write one record, and its text beside it."""
    hashed = hashlib.sha256((record.salt + record.text).encode()).digest() if record.text is not None else None
    await tx.run(
        """
        WITH row AS (
            INSERT INTO ledger (at, actor, via, action, task, box, outcome, duration_ms, arguments, text_sha256)
            VALUES (%(at)s, %(actor)s, %(via)s, %(action)s, %(task)s, %(box)s, %(outcome)s, %(duration)s, %(arguments)s,
                    %(hashed)s)
            RETURNING seq, at
        )
        INSERT INTO ledger_texts (seq, at, salt, text)
        SELECT seq, at, %(salt)s, %(text)s FROM row WHERE %(text)s::text IS NOT NULL
        """,
        {
            "at": record.at,
            "actor": record.actor,
            "via": record.via,
            "action": record.action,
            "task": record.task,
            "box": record.box,
            "outcome": record.outcome,
            "duration": round(record.duration_ms, 3),
            "arguments": Json(dict(record.arguments)),
            "hashed": hashed,
            "salt": record.salt,
            "text": record.text,
        },
    )
