"""Commands in Postgres."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from keel.db import Tx
from rift.commands.model import Command
from rift.names import OPEN_COMMANDS, TAILS_KEPT

_COMMAND = """
    SELECT box, n, kind, input, timeout, state, stop_wanted, incarnation, exit, reason, media, size, tail,
           created_at, claimed_at, ended_at
    FROM commands
"""


async def insert(
    tx: Tx, box: str, n: int, kind: str, input: str, content: str | None, timeout: int, now: datetime, wake: bool
) -> bool:
    """Queue a command in a locked box, count it, and wake the box's agent; False when four are open already."""
    row = await tx.row(
        """
        WITH queued AS (
            INSERT INTO commands (box, n, kind, input, content, timeout, state, created_at)
            SELECT %(box)s, %(n)s, %(kind)s, %(input)s, %(content)s, %(timeout)s, 'queued', %(now)s
            WHERE (SELECT count(*) FROM commands WHERE box = %(box)s AND state IN ('queued', 'claimed')) < %(most)s
            RETURNING box
        ), counted AS (
            UPDATE boxes SET next_command = next_command + 1, used_at = greatest(used_at, %(now)s),
                             state = CASE WHEN %(wake)s THEN 'running' ELSE state END,
                             epoch = epoch + CASE WHEN %(wake)s THEN 1 ELSE 0 END
            FROM queued WHERE boxes.id = queued.box
            RETURNING boxes.id
        )
        SELECT id, pg_notify('keel', 'agent:' || id) FROM counted
        """,
        {
            "box": box,
            "n": n,
            "kind": kind,
            "input": input,
            "content": content,
            "timeout": timeout,
            "now": now,
            "wake": wake,
            "most": OPEN_COMMANDS,
        },
    )
    return row is not None


async def find(tx: Tx, box: str, numbers: Sequence[int]) -> dict[int, Command]:
    """The commands of a box with these numbers, by number."""
    found = await tx.all(
        Command, _COMMAND + "WHERE box = %(box)s AND n = ANY(%(numbers)s)", {"box": box, "numbers": list(numbers)}
    )
    return {command.n: command for command in found}


async def find_locked(tx: Tx, box: str, n: int) -> Command | None:
    """One command, locked against its claim, its expiry and its end."""
    return await tx.one(Command, _COMMAND + "WHERE box = %(box)s AND n = %(n)s FOR UPDATE", {"box": box, "n": n})


async def want_stop(tx: Tx, box: str, n: int) -> None:
    """Ask the agent that runs it to stop it."""
    await tx.run("UPDATE commands SET stop_wanted = true WHERE box = %(box)s AND n = %(n)s", {"box": box, "n": n})


async def never_run(tx: Tx, box: str, n: int, reason: str, now: datetime) -> bool:
    """A command that nobody took, or whose stop came before its agent heard of it: it never ran and never will."""
    return bool(
        await tx.run(
            """
            UPDATE commands SET state = 'unrun', reason = %(reason)s, ended_at = %(now)s, content = NULL
            WHERE box = %(box)s AND n = %(n)s AND (state = 'queued' OR state = 'claimed' AND stop_wanted)
            """,
            {"box": box, "n": n, "reason": reason, "now": now},
        )
    )


async def expire(tx: Tx, before: datetime, reason: str, now: datetime) -> list[tuple[str, int]]:
    """End the commands that nobody took since `before`. Their boxes and numbers."""
    rows = await tx.rows(
        """
        UPDATE commands SET state = 'unrun', reason = %(reason)s, ended_at = %(now)s, content = NULL
        WHERE state = 'queued' AND created_at <= %(before)s
        RETURNING box, n
        """,
        {"before": before, "reason": reason, "now": now},
    )
    return [(row["box"], row["n"]) for row in rows]


async def claim(tx: Tx, box: str, incarnation: int, not_before: datetime, now: datetime) -> None:
    """Give every waiting command of a box to this incarnation of its agent, in one guarded write."""
    await tx.run(
        """
        UPDATE commands SET state = 'claimed', incarnation = %(incarnation)s, claimed_at = %(now)s
        WHERE box = %(box)s AND state = 'queued' AND created_at > %(not_before)s
        """,
        {"box": box, "incarnation": incarnation, "not_before": not_before, "now": now},
    )


async def owned(tx: Tx, box: str, incarnation: int) -> list[dict[str, object]]:
    """The open commands that this incarnation owns, with the content of a write."""
    return await tx.rows(
        """
        SELECT n, kind, input, content, timeout, stop_wanted FROM commands
        WHERE box = %(box)s AND state = 'claimed' AND incarnation = %(incarnation)s ORDER BY n
        """,
        {"box": box, "incarnation": incarnation},
    )


async def finish(
    tx: Tx,
    box: str,
    n: int,
    incarnation: int,
    *,
    exit: int | None,
    reason: str | None,
    media: str | None,
    size: int,
    tail: bytes,
    now: datetime,
) -> bool:
    """The one terminal status of a command that ran, told by the incarnation that ran it. False when it had one."""
    done = await tx.run(
        """
        UPDATE commands SET state = 'finished', exit = %(exit)s, reason = %(reason)s, media = %(media)s,
                            size = %(size)s, tail = %(tail)s, ended_at = %(now)s, content = NULL
        WHERE box = %(box)s AND n = %(n)s AND state = 'claimed' AND incarnation = %(incarnation)s
        """,
        {
            "box": box,
            "n": n,
            "incarnation": incarnation,
            "exit": exit,
            "reason": reason,
            "media": media,
            "size": size,
            "tail": tail,
            "now": now,
        },
    )
    if done and n > TAILS_KEPT:
        await tx.run(
            """
            UPDATE commands SET tail = NULL
            WHERE box = %(box)s AND tail IS NOT NULL
              AND n <= (SELECT next_command - 1 FROM boxes WHERE id = %(box)s) - %(kept)s
            """,
            {"box": box, "kept": TAILS_KEPT},
        )
    return bool(done)


async def ask(tx: Tx, id: str, box: str, n: int, from_byte: int, at_most: int, now: datetime) -> None:
    """A question to the box's agent: bytes of a command's output."""
    await tx.run(
        """
        INSERT INTO asks (id, box, n, from_byte, at_most, created_at)
        VALUES (%(id)s, %(box)s, %(n)s, %(from)s, %(most)s, %(now)s)
        """,
        {"id": id, "box": box, "n": n, "from": from_byte, "most": at_most, "now": now},
    )


async def asked(tx: Tx, box: str) -> list[dict[str, object]]:
    """The questions that a box's agent has not answered."""
    return await tx.rows(
        """
        SELECT id, n, from_byte AS "offset", at_most AS "limit" FROM asks
        WHERE box = %(box)s AND NOT answered ORDER BY created_at, id
        """,
        {"box": box},
    )


async def answer(tx: Tx, id: str, box: str, first: int, size: int | None, data: bytes) -> bool:
    """An agent's answer to a question of its own box, once."""
    return bool(
        await tx.run(
            """
            UPDATE asks SET answered = true, first = %(first)s, size = %(size)s, data = %(data)s
            WHERE id = %(id)s AND box = %(box)s AND NOT answered
            """,
            {"id": id, "box": box, "first": first, "size": size, "data": data},
        )
    )


async def take_answer(tx: Tx, id: str) -> dict[str, object] | None:
    """The answer, if it is there; it is read once."""
    return await tx.row("DELETE FROM asks WHERE id = %(id)s AND answered RETURNING first, size, data", {"id": id})


async def forget_asks(tx: Tx, before: datetime) -> None:
    """Questions whose asker is gone."""
    await tx.run("DELETE FROM asks WHERE created_at <= %(before)s", {"before": before})
