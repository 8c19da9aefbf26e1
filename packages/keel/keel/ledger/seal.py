"""Sealing: the rows that nobody has sealed yet become leaves of a tree, and its root a signed checkpoint.

A row is sealed once its transaction has committed, whatever its seq is: a row of a long transaction comes into a later
checkpoint than rows with higher seqs, and holds none of them up. That each is sealed once is a unique index's doing.
Which rows stand where is kept with the leaves, so neither a dump nor a restore changes anything of it.

`settled` is the seq up to which no row can appear any more. It bounds the search for unsealed rows, and, as it is
signed, shows a row that was put in behind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime

import structlog

from keel.clock import Clock
from keel.db import Database, Tx
from keel.ledger import store
from keel.ledger.canonical import entry
from keel.ledger.checkpoint import Checkpoint, Signed
from keel.ledger.keys import KeyFolder, Signer
from keel.ledger.merkle import leaf_hash, root
from keel.ledger.store import Writers

log = structlog.get_logger()

ROWS_MOST = 1000
"""The most rows of one checkpoint: some milliseconds of hashing at a time, and proofs of at most ten hashes."""


async def seal(db: Database, keys: KeyFolder, clock: Clock, *, rows_most: int = ROWS_MOST) -> int:
    """Seal every row that is there; how many were. Nothing to seal makes no checkpoint.

    Any number of workers may call it: one of them seals, the others find nothing to do. Raises KeyTrouble.
    """
    total = 0
    whole = await _still_there(db, keys)
    while True:
        async with db.tx() as tx:
            made = await seal_once(tx, keys.signer, clock.now(), rows_most)
        if made is None:
            return total
        if whole:
            await asyncio.to_thread(keys.note, made.number, made.hash)
        total += made.size
        if made.size < rows_most:
            return total


async def _still_there(db: Database, keys: KeyFolder) -> bool:
    """Whether the database has the checkpoint that this host remembers.

    Where it has not, sealing goes on and what is remembered stays, so that the check tells of it until a person has
    looked: the chain's end was cut off, or an older backup was restored.
    """
    seen = await asyncio.to_thread(keys.seen)
    if seen is None:
        return True
    number, hash = seen
    async with db.look() as tx:
        found = await store.checkpoint(tx, number)
    if found and found.checkpoint.hash == hash:
        return True
    log.error("ledger.not_the_one_remembered", checkpoint=number)
    return False


async def seal_once(
    tx: Tx, signer: Callable[[datetime], Signer], now: datetime, rows_most: int = ROWS_MOST
) -> Checkpoint | None:
    """Make one checkpoint; None when there is nothing to seal, or another one is at it."""
    if not await store.lock(tx):
        return None
    last, before = await store.newest(tx), await store.pending(tx)
    previous = last.checkpoint if last else None
    settled = previous.settled if previous else 0
    seen = await store.writers(tx)  # before the rows: what it lets go of, they must show
    rows = await store.unsealed(tx, settled, rows_most)
    if not rows:
        return None
    upto, pending = settle(settled, before, seen)
    hashes = [leaf_hash(entry(row)) for row in rows]
    by = signer(now)  # under the lock, so that none signs with a key that another one has replaced
    first = previous.last + 1 if previous else 1
    checkpoint = Checkpoint(
        number=previous.number + 1 if previous else 1,
        at=now,
        first=first,
        last=first + len(rows) - 1,
        root=root(hashes),
        previous=previous.hash if previous else None,
        settled=upto if len(rows) < rows_most else max(settled, min(upto, rows[-1].seq)),
        key=by.key.id,
    )
    await store.have_key(tx, by.key)
    await store.insert_leaves(tx, first, [row.seq for row in rows], hashes)
    await store.insert_checkpoint(tx, Signed(checkpoint, by.sign(checkpoint.body)), pending)
    return checkpoint


def settle(settled: int, before: Writers | None, now: Writers) -> tuple[int, Writers | None]:
    """Up to which seq no row can appear any more, and whose end is waited for to say more.

    `before` are those that were waited for; `now` is who writes now, looked at before the rows were read.
    """
    if not now.holders:
        return max(settled, now.upto), None
    if before is None:
        return settled, now
    left = before.holders & now.holders
    return (settled, Writers(before.upto, left)) if left else (max(settled, before.upto), now)
