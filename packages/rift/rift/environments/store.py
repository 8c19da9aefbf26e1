"""Environments in Postgres, and what their builds said.

Which are needed is told by the view `environment_uses`, from watches, heads, boxes, and whether the repository may
give boxes: the one look at other nouns' rows, and only whether there is one (`boxes_of_commit` is its index).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from keel.db import Json, Tx
from rift.environments.model import Environment, Held, LogPart, Made, Open


async def find(tx: Tx, repo: str, commit: str) -> Environment | None:
    """The environment of a commit."""
    row = await tx.row(
        "SELECT * FROM environments WHERE repo = %(repo)s AND commit = %(commit)s", {"repo": repo, "commit": commit}
    )
    return _environment(row) if row else None


async def of_repo(tx: Tx, repo: str, most: int) -> list[Environment]:
    """A repository's, the last wanted first."""
    rows = await tx.rows(
        "SELECT * FROM environments WHERE repo = %(repo)s ORDER BY wanted_at DESC, id LIMIT %(most)s",
        {"repo": repo, "most": most},
    )
    return [_environment(row) for row in rows]


async def insert(tx: Tx, id: str, repo: str, commit: str, now: datetime) -> bool:
    """Add one that waits; False where there is one of that commit."""
    return bool(
        await tx.run(
            """
            INSERT INTO environments (id, repo, commit, state, wanted_at)
            VALUES (%(id)s, %(repo)s, %(commit)s, 'waiting', %(now)s) ON CONFLICT (repo, commit) DO NOTHING
            """,
            {"id": id, "repo": repo, "commit": commit, "now": now},
        )
    )


async def again(tx: Tx, id: str, now: datetime) -> None:
    """One that failed or was cancelled waits anew."""
    await tx.run(
        """
        UPDATE environments SET state = 'waiting', step = '', tries = 0, failure = NULL, stays = false,
                                wanted_at = %(now)s, began_at = NULL, ended_at = NULL
        WHERE id = %(id)s AND state IN ('failed', 'cancelled')
        """,
        {"id": id, "now": now},
    )


async def lost(tx: Tx, id: str, now: datetime) -> bool:
    """One that was ready waits anew; False where it was not, or does already."""
    return bool(
        await tx.run(
            """
            UPDATE environments SET state = 'waiting', step = '', built = NULL, wanted_at = %(now)s, began_at = NULL,
                                    ended_at = NULL
            WHERE id = %(id)s AND state = 'ready'
            """,
            {"id": id, "now": now},
        )
    )


async def lock(tx: Tx, repo: str) -> None:
    """Until the commit nobody else chooses what is built next: of this repository, and who gets the last place."""
    await tx.run("SELECT pg_advisory_xact_lock(hashtextextended(%(repo)s, 14))", {"repo": repo})
    await tx.run("SELECT pg_advisory_xact_lock(15)")


async def open_of(tx: Tx, repo: str) -> list[Open]:
    """Those of a repository that wait or are built."""
    return await tx.all(
        Open,
        """
        SELECT id, commit, state, step, until, wanted_at, needed FROM environments JOIN environment_uses USING (id)
        WHERE repo = %(repo)s AND state IN ('waiting', 'building')
        """,
        {"repo": repo},
    )


async def repos_open(tx: Tx, now: datetime) -> list[str]:
    """The repositories of which something waits, or is built by nobody any more; who waits longest first."""
    rows = await tx.rows(
        """
        SELECT repo FROM environments
        WHERE state = 'waiting' OR (state = 'building' AND (until IS NULL OR until < %(now)s))
        GROUP BY repo ORDER BY min(wanted_at), repo
        """,
        {"now": now},
    )
    return [row["repo"] for row in rows]


async def building(tx: Tx, now: datetime) -> int:
    """How many are built at this moment, wherever; under `lock`, so that it stays true."""
    row = await tx.row(
        """
        SELECT count(*) AS n FROM environments WHERE state = 'building' AND step = 'build' AND until >= %(now)s
        """,
        {"now": now},
    )
    return int(row["n"]) if row else 0


async def take(tx: Tx, id: str, step: str, now: datetime, until: datetime) -> Environment:
    """Become the one who builds it, whoever did before; what that one said goes."""
    row = await tx.row(
        """
        UPDATE environments SET state = 'building', epoch = epoch + 1, until = %(until)s, step = %(step)s,
                                began_at = coalesce(began_at, %(now)s), tries = tries + 1
        WHERE id = %(id)s AND state IN ('waiting', 'building') RETURNING *
        """,
        {"id": id, "step": step, "now": now, "until": until},
    )
    assert row is not None  # it was open, under the lock
    await tx.run("DELETE FROM environment_logs WHERE environment = %(id)s", {"id": id})
    return _environment(row)


async def keep(tx: Tx, id: str, epoch: int, until: datetime) -> Held | None:
    """Go on being the one; None where somebody else is by now."""
    return await tx.one(
        Held,
        """
        UPDATE environments e SET until = %(until)s WHERE id = %(id)s AND epoch = %(epoch)s AND state = 'building'
        RETURNING (SELECT needed FROM environment_uses u WHERE u.id = e.id) AS needed
        """,
        {"id": id, "epoch": epoch, "until": until},
    )


async def step(tx: Tx, id: str, epoch: int, step: str, lacks: str) -> bool:
    """The next step of one that is built."""
    return bool(
        await tx.run(
            """
            UPDATE environments SET step = %(step)s, lacks = %(lacks)s
            WHERE id = %(id)s AND epoch = %(epoch)s AND state = 'building'
            """,
            {"id": id, "epoch": epoch, "step": step, "lacks": lacks},
        )
    )


async def put_back(tx: Tx, id: str, epoch: int, *, counts: bool) -> bool:
    """It waits again: there is no place (step `gathered`), or it was interrupted, which counts as a try."""
    return bool(
        await tx.run(
            """
            UPDATE environments SET state = 'waiting', until = NULL,
                                    tries = CASE WHEN %(counts)s THEN tries ELSE greatest(0, tries - 1) END
            WHERE id = %(id)s AND epoch = %(epoch)s AND state = 'building'
            """,
            {"id": id, "epoch": epoch, "counts": counts},
        )
    )


async def ready(tx: Tx, id: str, epoch: int, made: Made | None, lacks: str, now: datetime) -> bool:
    """It is built; False where another builds it by now."""
    return bool(
        await tx.run(
            """
            UPDATE environments SET state = 'ready', until = NULL, step = '', tries = 0, built = %(built)s,
                                    lacks = %(lacks)s, ended_at = %(now)s
            WHERE id = %(id)s AND epoch = %(epoch)s AND state = 'building'
            """,
            {"id": id, "epoch": epoch, "built": _stored(made), "lacks": lacks, "now": now},
        )
    )


async def fail(tx: Tx, id: str, epoch: int, failure: str, stays: bool, now: datetime) -> bool:
    """It cannot be built; False where another builds it by now."""
    return bool(
        await tx.run(
            """
            UPDATE environments SET state = 'failed', until = NULL, step = '', failure = %(failure)s,
                                    stays = %(stays)s, ended_at = %(now)s
            WHERE id = %(id)s AND epoch = %(epoch)s AND state = 'building'
            """,
            {"id": id, "epoch": epoch, "failure": failure, "stays": stays, "now": now},
        )
    )


async def cancel(tx: Tx, ids: Sequence[str], now: datetime, epoch: int | None = None) -> None:
    """Nobody waits for these any more; with an epoch, for one that is built by us."""
    await tx.run(
        """
        UPDATE environments SET state = 'cancelled', until = NULL, step = '', tries = 0, ended_at = %(now)s
        WHERE id = ANY(%(ids)s) AND state IN ('waiting', 'building')
          AND (%(epoch)s::bigint IS NULL OR epoch = %(epoch)s)
        """,
        {"ids": list(ids), "now": now, "epoch": epoch},
    )


async def heads_at(tx: Tx, repo: str, commit: str) -> list[str]:
    """The watched refs of a repository whose head is this commit."""
    rows = await tx.rows(
        """
        SELECT w.ref FROM watches w JOIN heads h ON h.repo = w.repo AND h.ref = w.ref
        WHERE w.repo = %(repo)s AND h.commit = %(commit)s ORDER BY w.ref
        """,
        {"repo": repo, "commit": commit},
    )
    return [row["ref"] for row in rows]


async def repos_of_old(tx: Tx) -> list[str]:
    """The repositories that have environments which no watched head and no living box uses."""
    rows = await tx.rows(
        """
        SELECT DISTINCT repo FROM environments JOIN environment_uses USING (id)
        WHERE state NOT IN ('waiting', 'building') AND NOT used
        """
    )
    return [row["repo"] for row in rows]


async def let_go(tx: Tx, repo: str, now: datetime) -> None:
    """What was built of those which no watched head and no living box uses may be collected from here on.

    One that is used again meanwhile is built again.
    """
    await tx.run(
        """
        UPDATE environments SET state = 'cancelled', built = NULL, ended_at = %(now)s
        WHERE repo = %(repo)s AND state = 'ready' AND id IN (SELECT id FROM environment_uses WHERE NOT used)
        """,
        {"repo": repo, "now": now},
    )


async def forget_old(tx: Tx, repo: str) -> int:
    """Delete those of a repository which nothing uses and of which nothing is kept. How many they were."""
    return await tx.run(
        """
        DELETE FROM environments
        WHERE repo = %(repo)s AND state IN ('failed', 'cancelled')
          AND id IN (SELECT id FROM environment_uses WHERE NOT used)
        """,
        {"repo": repo},
    )


async def builds_of(tx: Tx, repo: str) -> list[str]:
    """The builds of a repository whose outcome is used, or may be."""
    rows = await tx.rows(
        """
        SELECT id, epoch FROM environments
        WHERE repo = %(repo)s AND (state = 'building' OR (state = 'ready' AND built IS NOT NULL)) ORDER BY id
        """,
        {"repo": repo},
    )
    return [f"{row['id']}-{row['epoch']}" for row in rows]


async def put_log(tx: Tx, id: str, epoch: int, first: int, data: bytes) -> bool:
    """A further piece of what its build says; False where another builds it by now."""
    return bool(
        await tx.run(
            """
            INSERT INTO environment_logs (environment, epoch, first, data)
            SELECT id, epoch, %(first)s, %(data)s FROM environments
            WHERE id = %(id)s AND epoch = %(epoch)s AND state = 'building'
            """,
            {"id": id, "epoch": epoch, "first": first, "data": data},
        )
    )


async def cut_log(tx: Tx, id: str, epoch: int, start: int, end: int) -> None:
    """Forget the pieces of a log that lie between two offsets, whole ones alone."""
    await tx.run(
        """
        DELETE FROM environment_logs
        WHERE environment = %(id)s AND epoch = %(epoch)s AND first >= %(start)s AND first + length(data) <= %(end)s
        """,
        {"id": id, "epoch": epoch, "start": start, "end": end},
    )


async def log(tx: Tx, id: str, offset: int, most: int) -> LogPart | None:
    """What its newest build said from an offset on: whole pieces, of about `most` bytes together, without a gap."""
    head = await tx.row(
        """
        SELECT e.epoch, e.state = 'building' AS running, coalesce(max(l.first + length(l.data)), 0) AS size
        FROM environments e LEFT JOIN environment_logs l ON l.environment = e.id AND l.epoch = e.epoch
        WHERE e.id = %(id)s GROUP BY e.id
        """,
        {"id": id},
    )
    if head is None:
        return None
    rows = await tx.rows(
        """
        SELECT first, data FROM environment_logs
        WHERE environment = %(id)s AND epoch = %(epoch)s AND first + length(data) > %(offset)s
        ORDER BY first LIMIT 64
        """,
        {"id": id, "epoch": head["epoch"], "offset": offset},
    )
    data, first = b"", max(offset, rows[0]["first"]) if rows else head["size"]
    for row in rows:
        if row["first"] > first + len(data) or len(data) >= most:
            break
        data += row["data"][first + len(data) - row["first"] :]
    return LogPart(head["epoch"], first, data, int(head["size"]), head["running"])


def _environment(row: dict[str, Any]) -> Environment:
    built = row.pop("built")
    made = None
    if built is not None:
        env = tuple((name, value) for name, value in built["env"])
        made = Made(built["store"], tuple(built["paths"]), env, built["setup"])
    return Environment(**row, made=made)


def _stored(made: Made | None) -> Json | None:
    if made is None:
        return None
    env = [list(pair) for pair in made.env]
    return Json({"store": made.store, "paths": list(made.paths), "env": env, "setup": made.setup})
