"""Secrets in Postgres. Takes a transaction, returns values, never commits and never decides."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from keel.db import Tx
from keel.vault_rows import Rows
from rift.secrets.model import Sealed, about

SEALED = Rows("secrets", ("repo", "name"), lambda row: about(row["repo"], row["name"]))
"""The values, for whoever seals them by a newer key."""


async def listed(tx: Tx, repo: str) -> list[dict[str, Any]]:
    """A repository's (id) secrets, by name: name, bytes, set_by (an address), set_at, and the key that sealed it."""
    return await tx.rows(
        f"""
        SELECT s.name, s.bytes, u.email AS set_by, s.set_at, {SEALED.sealed_by} AS key
        FROM secrets s LEFT JOIN users u ON u.id = s.set_by WHERE s.repo = %(repo)s ORDER BY s.name
        """,  # noqa: S608 - a literal of keel's
        {"repo": repo},
    )


async def counted(tx: Tx, repos: Sequence[str]) -> dict[str, int]:
    """How many secrets each of these repositories (ids) has; those without any are not in it."""
    rows = await tx.rows(
        "SELECT repo, count(*) AS n FROM secrets WHERE repo = ANY(%(repos)s) GROUP BY repo", {"repos": list(repos)}
    )
    return {row["repo"]: row["n"] for row in rows}


async def held(tx: Tx, repo: str) -> dict[str, int]:
    """How many bytes each secret of a repository has, by name; nobody changes them until this transaction ends."""
    await tx.run("SELECT FROM repos WHERE id = %(repo)s FOR NO KEY UPDATE", {"repo": repo})
    rows = await tx.rows("SELECT name, bytes FROM secrets WHERE repo = %(repo)s", {"repo": repo})
    return {row["name"]: row["bytes"] for row in rows}


async def put(tx: Tx, repo: str, secret: Sealed, size: int, by: str | None, now: datetime) -> None:
    """Let this be a secret of a repository, in place of an older one of its name."""
    await tx.run(
        """
        INSERT INTO secrets (repo, name, sealed, bytes, set_by, set_at)
        VALUES (%(repo)s, %(name)s, %(sealed)s, %(bytes)s, %(by)s, %(now)s)
        ON CONFLICT (repo, name) DO UPDATE
        SET sealed = excluded.sealed, bytes = excluded.bytes, set_by = excluded.set_by, set_at = excluded.set_at
        """,
        {"repo": repo, "name": secret.name, "sealed": secret.sealed, "bytes": size, "by": by, "now": now},
    )
    await _count(tx, repo)


async def remove(tx: Tx, repo: str, name: str) -> bool:
    """Remove a secret; False where there is none."""
    gone = await tx.run("DELETE FROM secrets WHERE repo = %(repo)s AND name = %(name)s", {"repo": repo, "name": name})
    if gone:
        await _count(tx, repo)
    return bool(gone)


async def _count(tx: Tx, repo: str) -> None:
    await tx.run("UPDATE repos SET secrets_version = secrets_version + 1 WHERE id = %(repo)s", {"repo": repo})


async def of_repo(tx: Tx, repo: str) -> list[Sealed]:
    """A repository's secrets."""
    rows = await tx.rows("SELECT name, sealed FROM secrets WHERE repo = %(repo)s", {"repo": repo})
    return [Sealed(row["name"], bytes(row["sealed"])) for row in rows]


async def of_task(tx: Tx, task: str) -> list[tuple[str, Sealed]]:
    """The secrets of the repositories (ids) of which a task has boxes, those that are gone too."""
    rows = await tx.rows(
        "SELECT repo, name, sealed FROM secrets WHERE repo IN (SELECT repo FROM boxes WHERE task = %(task)s)",
        {"task": task},
    )
    return [(row["repo"], Sealed(row["name"], bytes(row["sealed"]))) for row in rows]


async def of_box(tx: Tx, box: str) -> tuple[str, int, list[Sealed]] | None:
    """The repository (id) of a box, the version of its secrets and these, as of one moment; None without such a box."""
    rows = await tx.rows(
        """
        SELECT r.id AS repo, r.secrets_version AS version, s.name, s.sealed
        FROM boxes b JOIN repos r ON r.id = b.repo LEFT JOIN secrets s ON s.repo = r.id
        WHERE b.id = %(box)s ORDER BY s.name
        """,
        {"box": box},
    )
    if not rows:
        return None
    found = [Sealed(row["name"], bytes(row["sealed"])) for row in rows if row["name"] is not None]
    return rows[0]["repo"], rows[0]["version"], found
