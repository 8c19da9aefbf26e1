"""Commands in Postgres."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from keel.db import Tx
from rift.boxes.model import State
from rift.commands.model import Command, End, Ended, Handed, Told
from rift.names import OPEN_COMMANDS, TAILS_KEPT

_COMMAND = """
    SELECT c.box, c.n, c.kind, c.input, c.timeout, c.state, c.stop_wanted, c.incarnation, c.exit, c.reason, c.media,
           c.size, c.tail, c.created_at, c.claimed_at, c.ended_at, b.state AS box_state, b.seen_at AS box_seen_at
    FROM commands c JOIN boxes b ON b.id = c.box
"""


async def insert(
    tx: Tx, box: str, n: int, kind: str, input: str, content: str | None, timeout: int, now: datetime, wake: bool,
    trace: str | None = None,
) -> bool:  # fmt: skip
    """Queue a command in a locked box, count it, and wake the box's agent; False when four are open already.

    `trace` is the traceparent of the call.
    """
    row = await tx.row(
        """
        WITH queued AS (
            INSERT INTO commands (box, n, kind, input, content, timeout, state, created_at, trace)
            SELECT %(box)s, %(n)s, %(kind)s, %(input)s, %(content)s, %(timeout)s, 'queued', %(now)s, %(trace)s
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
            "trace": trace,
            "most": OPEN_COMMANDS,
        },
    )
    return row is not None


async def find(tx: Tx, box: str, numbers: Sequence[int]) -> dict[int, Command]:
    """The commands of a box with these numbers, by number."""
    found = await tx.all(
        Command, _COMMAND + "WHERE c.box = %(box)s AND c.n = ANY(%(numbers)s)", {"box": box, "numbers": list(numbers)}
    )
    return {command.n: command for command in found}


async def find_locked(tx: Tx, box: str, n: int) -> Command | None:
    """One command, locked against its claim, its expiry and its end."""
    return await tx.one(
        Command, _COMMAND + "WHERE c.box = %(box)s AND c.n = %(n)s FOR UPDATE OF c", {"box": box, "n": n}
    )


async def want_stop(tx: Tx, box: str, n: int) -> None:
    """Ask the agent that runs it to stop it."""
    await tx.run("UPDATE commands SET stop_wanted = true WHERE box = %(box)s AND n = %(n)s", {"box": box, "n": n})


async def never_run(tx: Tx, box: str, n: int, reason: str, now: datetime) -> None:
    """A command that nobody took: it never ran and never will."""
    await tx.run(
        """
        UPDATE commands SET state = 'unrun', reason = %(reason)s, ended_at = %(now)s, content = NULL
        WHERE box = %(box)s AND n = %(n)s AND state = 'queued'
        """,
        {"box": box, "n": n, "reason": reason, "now": now},
    )


async def expire(tx: Tx, before: datetime, reason: str, now: datetime) -> list[tuple[str, int]]:
    """End the commands that nobody took since `before`. Their boxes and numbers.

    Steps around those that a claim, a stop or a destruction holds, whatever order it took them in.
    """
    rows = await tx.rows(
        """
        WITH due AS (
            SELECT box, n FROM commands WHERE state = 'queued' AND created_at <= %(before)s FOR UPDATE SKIP LOCKED
        )
        UPDATE commands SET state = 'unrun', reason = %(reason)s, ended_at = %(now)s, content = NULL
        FROM due WHERE commands.box = due.box AND commands.n = due.n
        RETURNING commands.box, commands.n
        """,
        {"before": before, "reason": reason, "now": now},
    )
    return [(row["box"], row["n"]) for row in rows]


async def news(
    tx: Tx, box: str, incarnation: int, token_sha256: bytes, told: Told, heard_before: datetime
) -> tuple[State, int, bool] | None:
    """Whether there may be something to tell an agent, looked at without changing anything: state, epoch, and that.

    None when that agent is over. "Something" is an open command or a stop that it was not told, a question of its
    box, or that the agent has not been heard since `heard_before`.
    """
    row = await tx.row(
        """
        SELECT state, epoch,
               seen_at < %(heard)s
               OR EXISTS (SELECT FROM commands WHERE box = b.id AND state IN ('queued', 'claimed')
                          AND (n <> ALL(%(known)s) OR stop_wanted AND n <> ALL(%(stopping)s)))
               OR EXISTS (SELECT FROM asks WHERE box = b.id AND NOT answered) AS something
        FROM boxes b
        WHERE id = %(box)s AND incarnation = %(incarnation)s AND token_sha256 = %(token)s
          AND state IN ('starting', 'running', 'parked')
        """,
        {
            "box": box,
            "incarnation": incarnation,
            "token": token_sha256,
            "known": list(told.known),
            "stopping": list(told.stopping),
            "heard": heard_before,
        },
    )
    return (row["state"], row["epoch"], row["something"]) if row else None


async def claim(
    tx: Tx, box: str, incarnation: int, token_sha256: bytes, not_before: datetime, now: datetime
) -> list[dict[str, Any]]:
    """Give every waiting command of a box to this incarnation of its agent, in one guarded write that also hears it.

    A row for each open command it owns then, with `state` and `epoch` of the box, the version of its repository's
    `secrets`, its task's `owner` (address, and login and id at GitHub where its repository is there), and whether
    anything is `asked` of it; one row with `n` NULL where it owns none; no row when that agent is over.
    """
    return await tx.rows(
        """
        WITH agent AS (
            UPDATE boxes SET seen_at = greatest(seen_at, %(now)s)
            WHERE id = %(box)s AND incarnation = %(incarnation)s AND token_sha256 = %(token)s
              AND state IN ('starting', 'running', 'parked')
            RETURNING id, state, epoch, EXISTS (SELECT FROM asks WHERE box = boxes.id AND NOT answered) AS asked,
                      (SELECT secrets_version FROM repos WHERE repos.id = boxes.repo) AS secrets,
                      (SELECT jsonb_build_object('email', u.email, 'login', g.login, 'id', g.github_id)
                       FROM tasks t JOIN users u ON u.id = t.owner JOIN repos r ON r.id = boxes.repo
                       LEFT JOIN github_users g ON g.user_id = u.id AND r.forge = 'github'
                       WHERE t.id = boxes.task) AS owner
        ), new AS (
            UPDATE commands SET state = 'claimed', incarnation = %(incarnation)s, claimed_at = %(now)s
            FROM agent WHERE box = agent.id AND commands.state = 'queued' AND created_at > %(not_before)s
            RETURNING n, kind, input, content, timeout, stop_wanted, trace
        ), owned AS (
            SELECT n, kind, input, content, timeout, stop_wanted, trace FROM new
            UNION ALL
            SELECT n, kind, input, content, timeout, stop_wanted, trace FROM commands
            WHERE box = %(box)s AND state = 'claimed' AND incarnation = %(incarnation)s
        )
        SELECT agent.state, agent.epoch, agent.asked, agent.secrets, agent.owner, owned.*
        FROM agent LEFT JOIN owned ON true ORDER BY owned.n
        """,
        {
            "box": box,
            "incarnation": incarnation,
            "token": token_sha256,
            "not_before": not_before,
            "now": now,
        },
    )


async def finish(tx: Tx, box: str, incarnation: int, token_sha256: bytes, end: End, now: datetime) -> Ended | bool:
    """The one terminal status of a command, told by the incarnation that owns it; who waits is woken.

    False when that agent is over; True when it was told before, which changes no command. The box was in use until now.
    """
    row = await tx.row(
        """
        WITH agent AS (
            UPDATE boxes SET seen_at = greatest(seen_at, %(now)s), used_at = greatest(used_at, %(now)s)
            WHERE id = %(box)s AND incarnation = %(incarnation)s AND token_sha256 = %(token)s
              AND state IN ('starting', 'running', 'parked')
            RETURNING id, next_command
        ), done AS (
            UPDATE commands SET state = CASE WHEN %(ran)s THEN 'finished' ELSE 'unrun' END,
                                exit = %(exit)s, reason = %(reason)s, media = %(media)s,
                                size = %(size)s, ended_at = %(now)s, content = NULL,
                                tail = CASE WHEN n > agent.next_command - 1 - %(kept)s THEN %(tail)s::bytea END
            FROM agent
            WHERE box = agent.id AND n = %(n)s AND state = 'claimed' AND incarnation = %(incarnation)s
            RETURNING n, kind, created_at, claimed_at, trace
        ), forgotten AS (
            UPDATE commands SET tail = NULL FROM agent, done
            WHERE box = agent.id AND commands.n <= agent.next_command - 1 - %(kept)s AND tail IS NOT NULL
              AND commands.n <> done.n
        )
        SELECT done.*, pg_notify('keel', 'command:' || agent.id || '.' || done.n)
        FROM agent LEFT JOIN done ON true
        """,
        {
            "box": box,
            "incarnation": incarnation,
            "token": token_sha256,
            "n": end.n,
            "ran": end.ran,
            "exit": end.exit,
            "reason": end.reason,
            "media": end.media,
            "size": end.size,
            "tail": end.tail,
            "now": now,
            "kept": TAILS_KEPT,
        },
    )
    if row is None or row["n"] is None:
        return row is not None
    return Ended(row["n"], row["kind"], row["created_at"], row["claimed_at"], row["trace"])


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


async def take_answer(tx: Tx, id: str) -> Handed | None:
    """The answer, if it is there; it is read once."""
    return await tx.one(
        Handed, "DELETE FROM asks WHERE id = %(id)s AND answered RETURNING first, size, data", {"id": id}
    )


async def erase_texts(tx: Tx, task: str, boxes: Sequence[str] | None = None) -> int:
    """Erase the shell texts of a task's commands that have ended, or of those of these boxes; how many."""
    return await tx.run(
        """
        UPDATE commands SET input = '' FROM boxes b
        WHERE b.id = commands.box AND b.task = %(task)s AND kind = 'bash' AND input <> ''
          AND commands.state NOT IN ('queued', 'claimed') AND (%(boxes)s::text[] IS NULL OR b.id = ANY(%(boxes)s))
        """,
        {"task": task, "boxes": list(boxes) if boxes is not None else None},
    )


async def forget(tx: Tx, before: datetime, at_most: int) -> int:
    """Delete the commands of destroyed boxes whose task was closed before an instant; how many."""
    return await tx.run(
        """
        DELETE FROM commands WHERE (box, n) IN (
            SELECT c.box, c.n FROM commands c JOIN boxes b ON b.id = c.box JOIN tasks t ON t.id = b.task
            WHERE b.state = 'destroyed' AND t.status = 'closed' AND t.closed_at < %(before)s
            LIMIT %(most)s FOR UPDATE OF c SKIP LOCKED
        )
        """,
        {"before": before, "most": at_most},
    )


async def forget_asks(tx: Tx, before: datetime) -> None:
    """Questions whose asker is gone."""
    await tx.run("DELETE FROM asks WHERE created_at <= %(before)s", {"before": before})
