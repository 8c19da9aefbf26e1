"""What is done with records: list, sum up, show, prove, seal. Sources: `/audit…`, `onbe audit …`, the jobs beside it.

Reading is no record of its own: each page would make the next one longer. A wrong key is one (`wire/admin`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC

from keel import ledger
from keel.ledger import proof
from keel.ledger import store as sealed
from keel.ledger.canonical import entry
from keel.ledger.checkpoint import Signed
from keel.ledger.keys import KeyFolder
from keel.ledger.proof import Proof
from keel.ledger.seal import seal as seal_all
from keel.refusal import Refusal
from onbe.deps import Deps
from onbe.records import decide, refusals, store
from onbe.records.model import Entry, Seal, Series, Shown, Span, Sum, Wanted

SUMS_MOST = 200


@dataclass(frozen=True, slots=True)
class Page:
    """Some records, and the cursor of the next page; None at the end."""

    entries: list[Entry]
    next: str | None


@dataclass(frozen=True, slots=True)
class Sums:
    """The sums with the most records; whether there are `more`."""

    sums: list[Sum]
    more: bool


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """Some checkpoints in their order, the `after` of the next ones, and the newest of all."""

    found: list[Signed]
    next: int | None
    head: Signed | None


def folder(deps: Deps) -> KeyFolder:
    """Where the keys are that sign checkpoints: outside the database."""
    return KeyFolder(deps.data / "audit")


async def page(deps: Deps, wanted: Wanted) -> Page:
    """Records, the newest first. Source: `GET /audit`."""
    async with deps.db.look() as tx:
        found = await store.page(tx, wanted)
    last = found[-1] if len(found) == wanted.limit else None
    return Page(found, decide.cursor(wanted, (last.at, last.seq)) if last else None)


async def summary(deps: Deps, span: Span) -> Sums:
    """How often was allowed and denied. Source: `GET /audit/summary`."""
    async with deps.db.look() as tx:
        found = await store.sums(tx, span.by, span.since, span.until, SUMS_MOST + 1)
    return Sums(found[:SUMS_MOST], len(found) > SUMS_MOST)


async def checkpoints(deps: Deps, series: Series) -> Checkpoints:
    """Checkpoints in their order. Source: `GET /audit/checkpoints`."""
    async with deps.db.look() as tx:
        found = await sealed.checkpoints(tx, series.after, series.limit)
        head = await sealed.newest(tx)
    return Checkpoints(found, found[-1].checkpoint.number if len(found) == series.limit else None, head)


async def show(deps: Deps, seq: int) -> Shown | Refusal:
    """One record with its seal. Source: `onbe audit show`."""
    async with deps.db.look() as tx:
        found = await store.one(tx, seq)
        if found is None:
            return refusals.record_unknown(seq)
        position = await sealed.position_of(tx, seq)
        signed = await sealed.checkpoint_of(tx, position) if position is not None else None
    if signed is None or position is None:
        return Shown(found, None)
    return Shown(found, Seal(signed.checkpoint.number, signed.checkpoint.at.astimezone(UTC), position))


async def prove(deps: Deps, seq: int) -> Proof | Refusal:
    """One record's proof, for anybody to check offline. Source: `GET /audit/records/{seq}/proof`."""
    async with deps.db.look() as tx:
        rows = await sealed.rows_of(tx, [seq])
        position = await sealed.position_of(tx, seq)
        signed = await sealed.checkpoint_of(tx, position) if position is not None else None
        if not rows:
            return refusals.record_unknown(seq)
        if position is None or signed is None:
            return refusals.record_unsealed(seq, math.ceil(deps.settings.ledger.seal_every.total_seconds()))
        one = signed.checkpoint
        leaves = [leaf for _, _, leaf in await sealed.leaves(tx, one.first, one.last)]
        public = (await sealed.keys(tx))[one.key].public
    return proof.make(entry(rows[0]), leaves, position - one.first, signed, public)


async def seal(deps: Deps) -> int:
    """Seal what is not sealed yet; how many records. Raises KeyTrouble."""
    return await seal_all(deps.db, folder(deps), deps.clock)


async def have_months(deps: Deps) -> None:
    """Have the partitions of this month and the next."""
    async with deps.db.tx() as tx:
        await ledger.have_months(tx, deps.clock.now())
