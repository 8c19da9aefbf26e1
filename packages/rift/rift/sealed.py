"""What is sealed in the database, whichever noun's it is: by which keys, and sealed again once there is a newer one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from keel.vault_rows import Rows
from rift.deps import Deps


@dataclass(frozen=True, slots=True)
class Sealed:
    """How many values there are, by the table they stand in and by the id of the key that sealed them."""

    tables: Mapping[str, Counter[bytes]]
    newest: bytes | None
    """The key that seals now; None before anything was sealed."""
    here: frozenset[bytes]
    """The keys that are here."""

    @property
    def keys(self) -> Counter[bytes]:
        """How many values each key sealed."""
        return sum(self.tables.values(), Counter())

    @property
    def stale(self) -> int:
        """How many values an older key sealed."""
        return sum(count for key, count in self.keys.items() if key != self.newest)


async def look(deps: Deps, places: Sequence[Rows]) -> Sealed:
    """What is sealed now. Raises VaultTrouble where the keys cannot be used."""
    async with deps.db.tx() as tx:
        tables = {rows.table: await rows.counted(tx) for rows in places}
    keys = deps.vault.ring.held()
    return Sealed(tables, keys.newest if keys else None, frozenset(keys.by_id if keys else ()))


async def reseal(deps: Deps, places: Sequence[Rows]) -> tuple[int, int]:
    """Seal by the newest key what an older one sealed, a hundred values in a transaction; a first key is made.

    How many were sealed again, how many could not be opened. Whoever is killed leaves each value sealed by the one key
    or by the other. Raises VaultTrouble where the keys cannot be used.
    """
    newest = deps.vault.ring.first().newest
    done = shut = 0
    for rows in places:
        after: Mapping[str, Any] | None = None
        while True:
            async with deps.db.tx() as tx:
                step = await rows.reseal(tx, deps.vault, newest, after)
            done, shut, after = done + step.sealed, shut + step.shut, step.last
            if after is None:
                break
    return done, shut
