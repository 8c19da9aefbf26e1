"""Sealed values in tables: how many each key sealed, and sealing those of older keys again.

A noun's store says which of its columns are sealed, and what each value is about; nobody else reads them.

    SEALED = Rows("github_users", ("user_id",), lambda row: f"github user {row['user_id']}")
"""

# The names of tables and columns are literals of ours (their types say so): nothing in a statement is anybody's text.
# ruff: noqa: S608

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, LiteralString

from keel.db import Tx
from keel.vault import KEY_AT, KEY_ID_BYTES, Vault, VaultTrouble

AT_ONCE = 100
"""How many values one transaction seals again."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one transaction did. `last` is the key of the last row it saw, None when that was the last there is."""

    last: Mapping[str, Any] | None
    sealed: int
    shut: int
    """How many it could not open."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The sealed values of a table: the columns of its primary key, and what a value is about, by these."""

    table: LiteralString
    key: tuple[LiteralString, ...]
    about: Callable[[Mapping[str, Any]], str]
    column: LiteralString = "sealed"

    async def counted(self, tx: Tx) -> Counter[bytes]:
        """How many values each key sealed, by its id."""
        found = await tx.rows(
            f"SELECT {self.sealed_by} AS id, count(*) AS n FROM {self.table} WHERE {self.column} IS NOT NULL GROUP BY 1"
        )
        return Counter({bytes(row["id"]): row["n"] for row in found})

    async def reseal(self, tx: Tx, vault: Vault, newest: bytes, after: Mapping[str, Any] | None = None) -> Step:
        """Seal the next values of older keys by the newest one: those whose rows come after `after`.

        A row that somebody is changing is left to another round.
        """
        columns, values = ", ".join(self.key), ", ".join(f"%({name})s" for name in self.key)
        beyond = f"AND ({columns}) > ({values})" if after else ""
        found = await tx.rows(
            f"""
            SELECT {columns}, {self.column} AS sealed FROM {self.table}
            WHERE {self.column} IS NOT NULL AND {self.sealed_by} <> %(newest)s {beyond}
            ORDER BY {columns} LIMIT {AT_ONCE} FOR UPDATE SKIP LOCKED
            """,
            {"newest": newest, **dict(after or {})},
        )
        done = shut = 0
        for row in found:
            key = {name: row[name] for name in self.key}
            about = self.about(key)
            try:
                fresh = vault.seal(vault.open(bytes(row["sealed"]), about), about)
            except VaultTrouble:
                shut += 1
                continue
            done += await tx.run(
                f"UPDATE {self.table} SET {self.column} = %(fresh)s WHERE ({columns}) = ({values})",
                {"fresh": fresh, **key},
            )
        last = {name: found[-1][name] for name in self.key} if len(found) == AT_ONCE else None
        return Step(last, done, shut)

    @property
    def sealed_by(self) -> LiteralString:
        """What tells in a statement which key sealed a value: its id."""
        return f"substring({self.column} FROM {KEY_AT + 1} FOR {KEY_ID_BYTES})"
