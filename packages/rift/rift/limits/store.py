"""Repositories' own limits in Postgres. Takes a transaction, returns values, never commits and never decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from keel.db import Tx
from rift.names import LIMITS

_OWN = "SELECT memory, processes, disk, cpu_shares, open_files FROM limits WHERE repo = %(repo)s"


async def own(tx: Tx, repo: str) -> dict[str, int]:
    """The limits that a repository (its id) has for its own, by name."""
    row = await tx.row(_OWN, {"repo": repo})
    return {name: value for name, value in (row or {}).items() if value is not None}


async def own_of(tx: Tx, repos: Sequence[str]) -> dict[str, dict[str, int]]:
    """The same of several repositories, by repository; those without limits of their own are not in it."""
    rows = await tx.rows(
        "SELECT repo, memory, processes, disk, cpu_shares, open_files FROM limits WHERE repo = ANY(%(repos)s)",
        {"repos": list(repos)},
    )
    return {row["repo"]: {name: row[name] for name in LIMITS if row[name] is not None} for row in rows}


async def own_held(tx: Tx, repo: str) -> dict[str, int]:
    """The same, held against other changes until this transaction ends."""
    await tx.run("INSERT INTO limits (repo) VALUES (%(repo)s) ON CONFLICT DO NOTHING", {"repo": repo})
    row = await tx.row(_OWN + " FOR UPDATE", {"repo": repo})
    return {name: value for name, value in (row or {}).items() if value is not None}


async def put(tx: Tx, repo: str, own: Mapping[str, int]) -> None:
    """Let these be a repository's own limits, which it has a row for, and no others."""
    await tx.run(
        """
        UPDATE limits SET memory = %(memory)s, processes = %(processes)s, disk = %(disk)s,
                          cpu_shares = %(cpu_shares)s, open_files = %(open_files)s
        WHERE repo = %(repo)s
        """,
        {"repo": repo, **{name: own.get(name) for name in LIMITS}},
    )
