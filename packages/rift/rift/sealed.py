"""What is sealed in the database, whichever noun's it is: by which keys, and sealed again once there is a newer one.

Source: docs/operations.md, Keys and secrets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from keel.vault_folder import FolderKeys
from keel.vault_rows import Rows
from rift.audit import SystemAct, audited
from rift.deps import Deps

RESTS = timedelta(minutes=10)
"""A key that was replaced so recently may still be sealing in a transaction that began before."""


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
    def shut(self) -> int:
        """How many values were sealed by a key that is not here."""
        return sum(count for key, count in self.keys.items() if key not in self.here)


@dataclass(frozen=True, slots=True)
class Resealed:
    """How many values were sealed again, and how many could not be opened."""

    done: int
    shut: int


async def look(deps: Deps, places: Sequence[Rows]) -> Sealed:
    """What is sealed now. Raises VaultTrouble where the keys cannot be used."""
    async with deps.db.tx() as tx:
        tables = {rows.table: await rows.counted(tx) for rows in places}
    keys = deps.vault.ring.held()
    return Sealed(tables, keys.newest if keys else None, frozenset(keys.by_id if keys else ()))


async def reseal(deps: Deps, places: Sequence[Rows]) -> Resealed:
    """Seal by the newest key what an older one sealed, a hundred values in a transaction; a first key is made.

    Whoever is killed leaves each value sealed by the one key or by the other. Raises VaultTrouble where the keys cannot
    be used.
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
    return Resealed(done, shut)


async def rotate(deps: Deps, folder: FolderKeys, places: Sequence[Rows]) -> tuple[str, Resealed]:
    """A new key, and everything sealed by it: its id. Source: `rift vault rotate`. Raises VaultTrouble.

    Servers that run see it at once. What is killed half-way is finished by upkeep, within a minute.
    """
    made = folder.rotate()
    async with audited(deps, SystemAct("rift vault rotate", {"key": made.id.hex()}, deps.clock.monotonic())):
        pass
    return made.id.hex(), await reseal(deps, places)


async def prune(deps: Deps, folder: FolderKeys, places: Sequence[Rows]) -> tuple[list[str], list[str]]:
    """Take away the older keys that sealed nothing which is there: their ids, and those of the keys that stay for now.

    A key stays while a value is sealed by it, and for `RESTS` after it was replaced. Source: `rift vault prune`. Raises
    VaultTrouble.
    """
    kept, used = folder.listed(), (await look(deps, places)).keys
    rested = bool(kept) and deps.clock.now() - kept[-1].made_at >= RESTS
    gone = [key.id for key in kept[:-1] if rested and not used[key.id]]
    told = {"keys": [id.hex() for id in gone]}
    async with audited(deps, SystemAct("rift vault prune", told, deps.clock.monotonic())):
        pass
    for id in gone:
        folder.take_away(id)
    stay = [key.id.hex() for key in kept[:-1] if key.id not in gone]
    return [id.hex() for id in gone], stay
