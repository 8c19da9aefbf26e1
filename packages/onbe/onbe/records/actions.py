"""What is done with records: list, sum up, show, prove, seal. Sources: `/audit…`, `onbe audit …`, the jobs beside it.

Reading is no record of its own: each page would make the next one longer. A wrong key is one (`wire/admin`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, timedelta
from pathlib import Path

from keel import ledger
from keel.db import Database, Tx
from keel.ledger import archive_store, proof
from keel.ledger import store as sealed
from keel.ledger.archive import Done, Tell
from keel.ledger.archive import archive as archive_month
from keel.ledger.canonical import entry
from keel.ledger.checkpoint import Signed
from keel.ledger.faults import Report
from keel.ledger.keys import KeyFolder, PublicKey, key_id
from keel.ledger.manifest import positions
from keel.ledger.proof import Proof
from keel.ledger.seal import seal as seal_all
from keel.ledger.verify import Progress
from keel.ledger.verify import verify as verify_all
from keel.refusal import Refusal
from onbe.deps import Deps
from onbe.drivers.sink.protocol import NotTaken, Sink
from onbe.records import decide, refusals, store
from onbe.records.model import Entry, Seal, Series, Shown, Span, Sum, Wanted

SUMS_MOST = 200
HELD = timedelta(minutes=2)
"""How long one replica hands on alone without a word: longer than a delivery may take."""


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


def keys_of(deps: Deps) -> KeyFolder:
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
            return await _gone(tx, seq)
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
            return await _gone(tx, seq)
        if position is None or signed is None:
            return refusals.record_unsealed(seq, math.ceil(deps.settings.ledger.seal_every.total_seconds()))
        one = signed.checkpoint
        leaves = [leaf for _, _, leaf in await sealed.leaves(tx, one.first, one.last)]
        public = (await sealed.keys(tx))[one.key].public
    return proof.make(entry(rows[0]), leaves, position - one.first, signed, public)


async def _gone(tx: Tx, seq: int) -> Refusal:
    """Why there is no row of a number: it went to an archive, or there never was one."""
    position = await sealed.position_of(tx, seq)
    for made in await archive_store.manifests(tx):
        if position is not None and position in positions(made.content.positions):
            return refusals.record_archived(seq, made.content.month)
    return refusals.record_unknown(seq)


async def seal(deps: Deps) -> int:
    """Seal what is not sealed yet; how many records. Raises KeyTrouble."""
    return await seal_all(deps.db, keys_of(deps), deps.clock)


async def have_months(deps: Deps) -> None:
    """Have the partitions of this month and the next."""
    async with deps.db.tx() as tx:
        await ledger.have_months(tx, deps.clock.now())


async def deliver(deps: Deps, sink: Sink) -> int:
    """Hand on what is sealed and the sink has not got, in order; how many records. Raises NotTaken.

    Any number of replicas may call it: one of them does. A delivery of which nobody knows whether it was taken comes
    again, so the sink may get a record twice, and gets none later than one behind it. Never inside a transaction.
    """
    holder, total = deps.ids.hex(), 0
    async with deps.db.look() as tx:
        claimed = await store.claim(tx, holder, deps.clock.now(), deps.clock.now() + HELD)
    if claimed is None:
        return 0
    position, failures = claimed.position, claimed.failures
    while True:
        async with deps.db.look() as tx:
            head = await sealed.newest(tx)
            due = decide.batch(position, head.checkpoint.last if head else 0, failures)
            found = await store.sealed(tx, *due) if due else []
            if not found:
                await store.let_go(tx, holder)
                return total
        lines = [one.line() for one in found]
        count = decide.fitting(lines)
        try:
            await sink.deliver(lines[:count])
        except NotTaken:
            async with deps.db.look() as tx:
                await store.not_taken(tx, holder, deps.clock.now() + decide.pause(failures + 1))
            raise
        before, position, failures = position, found[count - 1].position, 0
        async with deps.db.look() as tx:
            if not await store.taken(tx, holder, before, position, deps.clock.now() + HELD):
                return total
        total += count


async def archive(deps: Deps, owner: Database, month: str, folder: Path, *, drop: bool, tell: Tell) -> Done:
    """Archive a past month. `owner` is the database under the role that owns it. Source: `onbe audit archive`.

    Raises ArchiveTrouble and KeyTrouble.
    """
    return await archive_month(
        owner, keys_of(deps), deps.clock, month, folder, drop=drop, delivered=await delivered(deps), tell=tell
    )


async def delivered(deps: Deps) -> int | None:
    """The position up to which the sink has the records; None where no sink is named."""
    if deps.settings.ledger.sink is None:
        return None
    async with deps.db.look() as tx:
        return await store.delivered(tx)


async def verify(
    deps: Deps,
    *,
    kept: Mapping[int, bytes] | None = None,
    archives: Sequence[Path] = (),
    keys: Sequence[bytes] = (),
    since: int = 1,
    progress: Progress | None = None,
) -> Report:
    """Check the ledger. `kept` are roots by checkpoint. Source: `onbe audit verify`. Raises KeyTrouble."""
    here = keys_of(deps)
    trusted = dict(here.public())
    for public in keys:
        trusted[key_id(public)] = PublicKey(key_id(public), public, deps.clock.now(), None, None)
    return await verify_all(
        deps.db, trusted, deps.clock.now(), seen=here.seen(), kept=kept or {}, since=since, archives=archives,
        progress=progress,
    )  # fmt: skip
