"""What is to be done with environments, from plain values."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rift.environments.model import LOG_HEAD, LOG_TAIL, Environment, Next, Open
from rift.names import HEAD_RESTS


def decide_want(found: Environment, asked_at: datetime | None, now: datetime) -> bool:
    """Whether one that there is already is to be built again. `asked_at`: when somebody last called rift_watch.

    A failure that comes again is not tried before somebody asks; one that may have been the hour's is, after a rest.
    """
    if found.state == "cancelled":
        return True
    if found.state != "failed" or found.ended_at is None:
        return False
    if asked_at is not None and asked_at > found.ended_at:
        return True
    return not found.stays and now - found.ended_at >= HEAD_RESTS


def decide_next(open: Sequence[Open], now: datetime) -> Next:
    """The newest that somebody waits for, one at a time for each repository; those of nobody are cancelled.

    One that is built goes on until its builder notices by itself that nobody waits, or is gone.
    """
    busy = any(one.state == "building" and one.until is not None and one.until >= now for one in open)
    loose = [one for one in open if one.state == "waiting" or one.until is None or one.until < now]
    cancel = tuple(one.id for one in loose if not one.needed)
    needed = [one for one in loose if one.needed]
    newest = max(needed, key=lambda one: (one.wanted_at, one.id), default=None)
    return Next(None if busy else newest, cancel)


def decide_kept(size: int) -> tuple[int, int] | None:
    """What goes of a log of so many bytes: from where, and up to where; None where all of it is kept."""
    return (LOG_HEAD, size - LOG_TAIL) if size > LOG_HEAD + LOG_TAIL else None


def cut(text: str, most: int) -> str:
    """A text of at most about `most` bytes: of a longer one the middle is left out, and that is said."""
    data = text.encode()
    if len(data) <= most:
        return text
    half = most // 2
    left_out = f"\n[… {len(data) - 2 * half} bytes left out …]\n"
    return data[:half].decode("utf-8", "ignore") + left_out + data[-half:].decode("utf-8", "ignore")
