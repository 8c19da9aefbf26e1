"""Boxes in Postgres, and the open commands of a box, which end when it does."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from keel.db import Tx
from rift.boxes.model import Box, BoxFor, OpenCommand, PersonsUse, Room, Standing, Warm

_BOX = """
    SELECT b.*, r.owner AS repo_owner, r.name AS repo_name, r.org, r.network, r.secrets_version
    FROM boxes b JOIN repos r ON r.id = b.repo
"""


async def of_task(tx: Tx, task: str) -> list[Box]:
    """Every box the task ever had, the oldest first, unlocked."""
    return await tx.all(
        Box,
        _BOX + "WHERE b.task = %(task)s ORDER BY b.created_at, b.id",
        {"task": task},
    )


async def of_tasks(tx: Tx, tasks: Sequence[str]) -> list[Box]:
    """The boxes of several tasks that are not destroyed."""
    return await tx.all(
        Box,
        _BOX + "WHERE b.task = ANY(%(tasks)s) AND b.state <> 'destroyed' ORDER BY b.created_at, b.id",
        {"tasks": list(tasks)},
    )


async def find(tx: Tx, id: str) -> Box | None:
    """A box, unlocked."""
    return await tx.one(
        Box,
        _BOX + "WHERE b.id = %(id)s",
        {"id": id},
    )


async def find_locked(tx: Tx, id: str) -> Box | None:
    """A box, locked against every other call that changes it. The task's row is locked before it."""
    return await tx.one(
        Box,
        _BOX + "WHERE b.id = %(id)s FOR NO KEY UPDATE OF b",
        {"id": id},
    )


async def find_for(tx: Tx, id: str, task: str, user: str) -> BoxFor | None:
    """A box of a task by its id, locked, and whether the person is in its organization at this moment."""
    row = await tx.row(
        """
        SELECT b.*, r.owner AS repo_owner, r.name AS repo_name, r.org, r.network, r.secrets_version, m.role
        FROM boxes b JOIN repos r ON r.id = b.repo
        LEFT JOIN members m ON m.org = r.org AND m.user_id = %(user)s
        WHERE b.id = %(id)s AND b.task = %(task)s FOR NO KEY UPDATE OF b
        """,
        {"id": id, "task": task, "user": user},
    )
    if row is None:
        return None
    role = row.pop("role")
    return BoxFor(Box(**row), role is not None)


_WARM = """
    SELECT id FROM boxes
    WHERE repo = %(repo)s AND ref = %(ref)s AND commit = %(commit)s AND task IS NULL
      AND state IN ('running', 'starting')
      AND created_at >= coalesce((SELECT boxes_since FROM repos WHERE id = %(repo)s), '-infinity')
    ORDER BY state, created_at LIMIT 1 FOR NO KEY UPDATE
"""


async def claim_warm(tx: Tx, repo: str, ref: str, commit: str, task: str, now: datetime) -> str | None:
    """Give a warm box at the head to a task: a running one before a starting one, each to one claim. Its id.

    Steps around boxes that another claim is taking. Where all are locked at this moment (an agent is being heard),
    it waits for one rather than answer that there is none.
    """
    head = {"repo": repo, "ref": ref, "commit": commit}
    found = await tx.row(_WARM + " SKIP LOCKED", head) or await tx.row(_WARM, head)
    if found is not None:
        await tx.run(
            "UPDATE boxes SET task = %(task)s, used_at = %(now)s WHERE id = %(id)s",
            {"task": task, "now": now, "id": found["id"]},
        )
    return found["id"] if found else None


async def lock_room(tx: Tx) -> None:
    """Until the commit nobody else takes or makes a box: what is counted then is true, and one gets the last room."""
    await tx.run("SELECT pg_advisory_xact_lock(11)")


async def room(tx: Tx, org: str, person: str | None) -> Room:
    """How many boxes there are, counted under `lock_room`."""
    counted = await tx.one(
        Room,
        """
        SELECT count(*) FILTER (WHERE t.owner = %(person)s) AS person,
               count(*) FILTER (WHERE r.org = %(org)s) AS organization, count(*) AS host
        FROM boxes b JOIN repos r ON r.id = b.repo LEFT JOIN tasks t ON t.id = b.task
        WHERE b.state <> 'destroyed' AND b.state <> 'destroying'
        """,
        {"org": org, "person": person},
    )
    assert counted is not None  # a count is always a row
    return counted


async def warm(tx: Tx) -> list[Warm]:
    """Every box that nobody has claimed and that runs, or will."""
    rows = await tx.rows(
        """
        SELECT b.id, r.org, b.repo, b.ref, b.state, b.created_at FROM boxes b JOIN repos r ON r.id = b.repo
        WHERE b.task IS NULL AND b.state IN ('starting', 'running')
        """
    )
    return [Warm(row["id"], row["org"], (row["repo"], row["ref"]), row["state"], row["created_at"]) for row in rows]


async def of_person(tx: Tx, person: str) -> list[Box]:
    """A person's boxes that count against them."""
    return await tx.all(
        Box,
        _BOX
        + """
        JOIN tasks t ON t.id = b.task
        WHERE t.owner = %(person)s AND b.state <> 'destroyed' AND b.state <> 'destroying'
        ORDER BY b.created_at, b.id
        """,
        {"person": person},
    )


_USE = """
    WITH page AS (
        SELECT id, email, admin, created_at, disabled_at FROM users u
        WHERE (%(only)s::text IS NULL OR id = %(only)s)
          AND position(lower(%(part)s) IN lower(email)) > 0
          AND (%(after)s::text IS NULL OR (created_at, id) > (SELECT created_at, id FROM users WHERE id = %(after)s))
        ORDER BY created_at, id LIMIT %(most)s
    )
    SELECT page.*, greatest(s.seen_at, t.used_at) AS seen_at, coalesce(t.good, 0) AS tokens,
           coalesce(s.good, 0) AS sessions, coalesce(k.open, 0) AS tasks, coalesce(b.living, 0) AS boxes
    FROM page
    LEFT JOIN (
        SELECT user_id, max(seen_at) AS seen_at,
               count(*) FILTER (WHERE ended_at IS NULL AND expires_at > %(now)s AND seen_at > %(quiet)s) AS good
        FROM sessions WHERE user_id IN (SELECT id FROM page) GROUP BY user_id
    ) s ON s.user_id = page.id
    LEFT JOIN (
        SELECT user_id, max(used_at) AS used_at, count(*) FILTER (WHERE revoked_at IS NULL) AS good
        FROM tokens WHERE user_id IN (SELECT id FROM page) GROUP BY user_id
    ) t ON t.user_id = page.id
    LEFT JOIN (
        SELECT owner, count(*) AS open FROM tasks WHERE status = 'open' AND owner IN (SELECT id FROM page)
        GROUP BY owner
    ) k ON k.owner = page.id
    LEFT JOIN (
        SELECT held.owner, count(*) AS living FROM boxes JOIN tasks held ON held.id = boxes.task
        WHERE boxes.state <> 'destroyed' AND boxes.state <> 'destroying' AND held.owner IN (SELECT id FROM page)
        GROUP BY held.owner
    ) b ON b.owner = page.id
    ORDER BY page.created_at, page.id
"""


async def use_of_people(
    tx: Tx, now: datetime, quiet: datetime, most: int, *, after: str | None = None, part: str = "",
    only: str | None = None,
) -> list[PersonsUse]:  # fmt: skip
    """People, those who joined first first, with what each uses, in one statement however many they are.

    `after`: the id of the last one seen; `part`: what their address has in it, in any case; `only`: one id. A session
    last seen before `quiet` is over.
    """
    return await tx.all(
        PersonsUse,
        _USE,
        {"now": now, "quiet": quiet, "most": most, "after": after, "part": part, "only": only},
    )


async def numbers(tx: Tx, repo: str, ref: str) -> set[int]:
    """The numbers of the living boxes of a repository and ref; until the commit nobody else takes one."""
    await tx.run("SELECT pg_advisory_xact_lock(hashtextextended(%(key)s, 7))", {"key": f"{repo} {ref}"})
    rows = await tx.rows(
        "SELECT number FROM boxes WHERE repo = %(repo)s AND ref = %(ref)s AND state <> 'destroyed'",
        {"repo": repo, "ref": ref},
    )
    return {row["number"] for row in rows}


async def insert(
    tx: Tx, id: str, name: str, number: int, repo: str, ref: str, commit: str, task: str | None, now: datetime
) -> None:
    """Add a box that is starting."""
    await tx.run(
        """
        INSERT INTO boxes (id, name, number, repo, ref, commit, task, state, used_at, created_at)
        VALUES (%(id)s, %(name)s, %(number)s, %(repo)s, %(ref)s, %(commit)s, %(task)s, 'starting', %(now)s, %(now)s)
        """,
        {
            "id": id,
            "name": name,
            "number": number,
            "repo": repo,
            "ref": ref,
            "commit": commit,
            "task": task,
            "now": now,
        },
    )


async def waiting(tx: Tx, repo: str, commit: str) -> list[str]:
    """The boxes of a commit that are starting, by id."""
    rows = await tx.rows(
        "SELECT id FROM boxes WHERE repo = %(repo)s AND commit = %(commit)s AND state = 'starting' ORDER BY created_at",
        {"repo": repo, "commit": commit},
    )
    return [row["id"] for row in rows]


async def begin(tx: Tx, id: str, token_sha256: bytes, tries: int, now: datetime) -> None:
    """A new incarnation: the next number, a token of its own, a new epoch; one more of its `tries`, all told.

    A box that starts is in use from now on.
    """
    await tx.run(
        """
        UPDATE boxes SET incarnation = incarnation + 1, tries = %(tries)s, epoch = epoch + 1,
                         token_sha256 = %(token)s, began_at = %(now)s, seen_at = %(now)s,
                         checkout = coalesce(checkout, (SELECT name FROM repos WHERE repos.id = boxes.repo)),
                         used_at = CASE state WHEN 'starting' THEN greatest(used_at, %(now)s) ELSE used_at END
        WHERE id = %(id)s
        """,
        {"id": id, "token": token_sha256, "tries": tries, "now": now},
    )


async def came_up(tx: Tx, id: str, incarnation: int, now: datetime) -> None:
    """The agent of this incarnation says that its jail runs."""
    await tx.run(
        """
        UPDATE boxes SET state = 'running', used_at = greatest(used_at, %(now)s), seen_at = %(now)s
        WHERE id = %(id)s AND incarnation = %(incarnation)s AND state = 'starting'
        """,
        {"id": id, "incarnation": incarnation, "now": now},
    )


async def try_afresh(tx: Tx) -> None:
    """What kept a box from staying up may be gone with the host's last life: its tries are counted anew."""
    await tx.run("UPDATE boxes SET tries = 0 WHERE state IN ('starting', 'running', 'parked') AND tries > 0")


async def tried(tx: Tx, id: str, tries: int) -> None:
    """How many of its tries a box has had."""
    await tx.run("UPDATE boxes SET tries = %(tries)s WHERE id = %(id)s", {"id": id, "tries": tries})


async def ended(tx: Tx, id: str, incarnation: int) -> bool:
    """This incarnation of the box's agent is over, and the box has none; False when that is known already."""
    return bool(
        await tx.run(
            """
            UPDATE boxes SET token_sha256 = NULL
            WHERE id = %(id)s AND incarnation = %(incarnation)s AND state IN ('starting', 'running', 'parked')
              AND token_sha256 IS NOT NULL
            """,
            {"id": id, "incarnation": incarnation},
        )
    )


async def fail(tx: Tx, id: str, incarnation: int, failure: str) -> bool:
    """It could not start, or cannot go on; guarded by the incarnation that says so."""
    return bool(
        await tx.run(
            """
            UPDATE boxes SET state = 'failed', failure = %(failure)s, token_sha256 = NULL
            WHERE id = %(id)s AND incarnation = %(incarnation)s AND state IN ('starting', 'running', 'parked')
            """,
            {"id": id, "incarnation": incarnation, "failure": failure},
        )
    )


async def note(tx: Tx, id: str, lacks: str) -> None:
    """What its checkout lacks."""
    await tx.run("UPDATE boxes SET lacks = %(lacks)s WHERE id = %(id)s", {"id": id, "lacks": lacks})


async def power(tx: Tx, id: str, state: str, now: datetime) -> None:
    """Park or resume: the new state and the next epoch."""
    await tx.run(
        "UPDATE boxes SET state = %(state)s, epoch = epoch + 1, used_at = greatest(used_at, %(now)s) WHERE id = %(id)s",
        {"id": id, "state": state, "now": now},
    )


async def used(tx: Tx, id: str, now: datetime) -> None:
    """A call on the box: its parking clock starts again."""
    await tx.run("UPDATE boxes SET used_at = %(now)s WHERE id = %(id)s AND used_at < %(now)s", {"id": id, "now": now})


async def start_destroying(tx: Tx, id: str) -> bool:
    """Mark it for destruction; its agent's token is worth nothing from here on. Whether it was not marked yet."""
    return bool(
        await tx.run(
            """
            UPDATE boxes SET state = 'destroying', token_sha256 = NULL
            WHERE id = %(id)s AND state NOT IN ('destroying', 'destroyed')
            """,
            {"id": id},
        )
    )


async def destroyed(tx: Tx, id: str, now: datetime) -> None:
    """Nothing of it is left."""
    await tx.run(
        "UPDATE boxes SET state = 'destroyed', ended_at = %(now)s WHERE id = %(id)s AND state = 'destroying'",
        {"id": id, "now": now},
    )


async def open_commands(tx: Tx, boxes: Sequence[str]) -> list[OpenCommand]:
    """The commands of some boxes that have not ended, in the order they came."""
    return await tx.all(
        OpenCommand,
        """
        SELECT box, n, kind, left(input, 200) AS input, state = 'claimed' AS claimed, created_at
        FROM commands WHERE box = ANY(%(boxes)s) AND state IN ('queued', 'claimed') ORDER BY box, n
        """,
        {"boxes": list(boxes)},
    )


async def end_commands(tx: Tx, box: str, reason: str, now: datetime) -> None:
    """The box ends: what runs in it has finished without an exit code, what waits never runs."""
    await tx.run(
        """
        UPDATE commands SET ended_at = %(now)s, reason = %(reason)s, content = NULL,
                            state = CASE state WHEN 'claimed' THEN 'finished' ELSE 'unrun' END
        WHERE box = %(box)s AND state IN ('queued', 'claimed')
        """,
        {"box": box, "reason": reason, "now": now},
    )


async def lose_commands(tx: Tx, box: str, reason: str, now: datetime) -> None:
    """A new incarnation: what the old one ran is lost, its slots are free. What nobody took still waits."""
    await tx.run(
        """
        UPDATE commands SET ended_at = %(now)s, reason = %(reason)s, content = NULL, state = 'lost'
        WHERE box = %(box)s AND state = 'claimed'
        """,
        {"box": box, "reason": reason, "now": now},
    )


async def standings(tx: Tx) -> list[Standing]:
    """What upkeep goes by, of every box of which something may be left."""
    return await tx.all(
        Standing,
        """
        SELECT b.id, b.state, b.seen_at, b.used_at, b.token_sha256 IS NULL AS over, b.task IS NOT NULL AS claimed,
               coalesce(t.status = 'closed', false) AS closed, m.role IS NOT NULL AS member
        FROM boxes b JOIN repos r ON r.id = b.repo LEFT JOIN tasks t ON t.id = b.task
                     LEFT JOIN members m ON m.org = r.org AND m.user_id = t.owner
        WHERE b.state <> 'destroyed'
        """,
    )


async def all_ids(tx: Tx) -> set[str]:
    """The ids of every box that should have something on a host."""
    return {row["id"] for row in await tx.rows("SELECT id FROM boxes WHERE state <> 'destroyed'")}


async def all_repos(tx: Tx) -> list[str]:
    """The ids of all repositories, of which boxes may have commits pinned."""
    return [row["id"] for row in await tx.rows("SELECT id FROM repos ORDER BY id")]
