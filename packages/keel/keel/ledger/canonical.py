"""The bytes of a row that are hashed: JSON in the form of RFC 8785, so that any language can make them again.

Version 1 is an object of every column of the row. Its members stand in the order of their names, without blanks:

    {"action":"rift_bash","actor":"user_…","arguments":"{\\"vm\\": \\"b-…\\"}","at":"2026-11-30T16:20:00.000000Z",
     "box":"b-…","duration_us":5123,"outcome":"ok","seq":7,"task":"task_…","text_sha256":"…","v":1,"via":"mcp:Claude"}

`arguments` is a string: the text of the column, character by character, as Postgres writes its jsonb (members by
length and then bytes, numbers as they were given). A dump and its restore keep that text. A member that the row
leaves open is null. Numbers are whole; instants are in UTC, to the microsecond.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from json.encoder import encode_basestring
from typing import Any, NamedTuple

VERSION = 1
FIELDS = (
    "action", "actor", "arguments", "at", "box", "duration_us", "outcome", "seq", "task", "text_sha256", "v", "via",
)  # fmt: skip
"""The members, in their order."""


class Row(NamedTuple):
    """A row of the ledger as it is stored."""

    seq: int
    at: datetime
    """Aware."""
    actor: str | None
    via: str | None
    action: str
    task: str | None
    box: str | None
    outcome: str
    duration_us: int
    arguments: str
    """The text of the jsonb."""
    text_sha256: bytes | None


def entry(row: Row) -> bytes:
    """The row's bytes, to be hashed as a leaf."""
    seq, at, actor, via, action, task, box, outcome, duration_us, arguments, text_sha256 = row
    word = encode_basestring  # json's own, in C: quotes, and escapes only what JSON must
    return (
        f'{{"action":{word(action)},"actor":{"null" if actor is None else word(actor)}'
        f',"arguments":{word(arguments)},"at":"{instant(at)}","box":{"null" if box is None else word(box)}'
        f',"duration_us":{duration_us},"outcome":{word(outcome)},"seq":{seq}'
        f',"task":{"null" if task is None else word(task)}'
        f',"text_sha256":{"null" if text_sha256 is None else chr(34) + text_sha256.hex() + chr(34)}'
        f',"v":{VERSION},"via":{"null" if via is None else word(via)}}}'
    ).encode()


def instant(at: datetime) -> str:
    """An instant as `2026-11-30T16:20:00.000000Z`, whatever the time zone of the database's session is."""
    return f"{at.astimezone(UTC).isoformat(timespec='microseconds')[:26]}Z"


def jcs(value: Mapping[str, Any]) -> bytes:
    """An object of texts, whole numbers, nulls and such objects, in the form of RFC 8785 (for names in ASCII)."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
