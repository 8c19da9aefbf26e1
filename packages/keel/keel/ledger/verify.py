"""Checking the whole ledger: every leaf, root, chain and signature made anew from the rows, and what is wrong named."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from keel.db import Database, Tx
from keel.ledger import archive_store, store
from keel.ledger.archived import Archived, believed
from keel.ledger.canonical import Row
from keel.ledger.checkpoint import Checkpoint, Signed
from keel.ledger.faults import Leaf, Report, check_tree
from keel.ledger.keys import PublicKey, closure, signed_by

Progress = Callable[[int, int], Awaitable[None]]
"""Told how many records are checked, and of how many."""

SEALED_WITHIN = timedelta(minutes=10)
"""A row that is older and has no leaf should have one: nobody seals."""
ROWS_AT_ONCE = 5000


async def verify(
    db: Database,
    trusted: Mapping[str, PublicKey],
    now: datetime,
    *,
    seen: tuple[int, bytes] | None = None,
    against: Signed | None = None,
    kept: Mapping[int, bytes] | None = None,
    since: int = 1,
    archives: Sequence[Path] = (),
    progress: Progress | None = None,
) -> Report:
    """Check the ledger from a checkpoint on, up to the one that is the last at the beginning.

    `trusted` are keys known from outside the database; a key that one of them endorses is trusted too. `seen` is number
    and hash of a checkpoint that must be there, `against` is one that somebody kept, `kept` the roots of some,
    by their numbers.
    `archives` are files of archived months.
    """
    report = Report()
    async with db.look() as tx, _in_peace(tx):
        report.head = await store.newest(tx)
        if since > 1 and await store.checkpoint(tx, since - 1) is None:
            report.bad("missing", f"there is no checkpoint {since - 1} to begin after", since - 1)
            return report
        keys = closure(await store.keys(tx), trusted)
        archived = await believed(tx, report, keys)
        chain = _Chain(report, keys, await _before(tx, since), archived)
        await _must_have(tx, report, seen, against, chain.keys)
        for number, root in (kept or {}).items():
            await _must_be(tx, report, number, root)
        end = report.head.checkpoint if report.head else None
        coming = _Runs(tx, chain.number, end.number if end else 0)
        run = await coming.next()
        while run:
            # One run is hashed in a thread while Postgres looks up the next.
            _, run = await asyncio.gather(asyncio.to_thread(_check, chain, run), coming.next())
            if progress and end:
                await progress(chain.last, end.last)
        await archived.end(tx, report, chain.signers)
        await archived.compare(report, archives, keys)
        await _rest(tx, report, now)
    return report


@asynccontextmanager
async def _in_peace(tx: Tx) -> AsyncIterator[None]:
    """No month leaves the ledger while it is checked."""
    await archive_store.share(tx)
    try:
        yield
    finally:
        await archive_store.unshare(tx)


@dataclass(slots=True)
class _Chain:
    """How far the chain is checked: the number, hash and last position of the checkpoint before."""

    report: Report
    keys: Mapping[str, PublicKey]
    before: Checkpoint | None
    archived: Archived
    key: str | None = None
    replaced: set[str] = field(default_factory=set)
    signers: list[tuple[int, str]] = field(default_factory=list)
    """Each key that began to sign, with the number of its first checkpoint."""

    @property
    def number(self) -> int:
        return self.before.number if self.before else 0

    @property
    def last(self) -> int:
        return self.before.last if self.before else 0

    def take(self, signed: Signed) -> None:
        """Check a checkpoint's place in the chain, and who signed it."""
        one, bad = signed.checkpoint, self.report.bad
        number = one.number
        if number != self.number + 1:
            bad("missing", f"checkpoint {self.number + 1} is missing", self.number + 1)
        elif one.previous != (self.before.hash if self.before else None):
            bad("chain", f"checkpoint {number} does not name the checkpoint before it as it is", number)
        if one.first != self.last + 1 and number == self.number + 1:
            bad("chain", f"checkpoint {number} begins at position {one.first}, not at {self.last + 1}", number)
        if self.before and one.settled < self.before.settled:
            bad("chain", f"checkpoint {number} takes back what the one before it settled", number)
        key = self.keys.get(one.key)
        if key is None:
            bad("key", f"checkpoint {number} is signed with the key {one.key}, which nobody vouches for", number)
        elif not signed_by(key.public, signed.signature, one.body):
            bad("signature", f"the signature under checkpoint {number} is wrong", number)
        if one.key != self.key:
            if one.key in self.replaced:
                bad("key", f"checkpoint {number} is signed with the key {one.key}, which had been replaced", number)
            if self.key:
                self.replaced.add(self.key)
            self.key = one.key
            self.signers.append((number, one.key))
        self.before = one
        self.report.checkpoints += 1


async def _before(tx: Tx, since: int) -> Checkpoint | None:
    before = await store.checkpoint(tx, since - 1) if since > 1 else None
    return before.checkpoint if before else None


async def _must_have(
    tx: Tx, report: Report, seen: tuple[int, bytes] | None, against: Signed | None, keys: Mapping[str, PublicKey]
) -> None:
    """Whether the checkpoints are there that this host made and that somebody kept."""
    head = report.head.checkpoint.number if report.head else 0
    wanted = []
    if seen:
        wanted.append((*seen, "this host has made"))
    if against:
        kept, key = against.checkpoint, keys.get(against.checkpoint.key)
        if key is None or not signed_by(key.public, against.signature, kept.body):
            report.bad(
                "signature", f"the checkpoint {kept.number} that was given is not signed with a key of this ledger"
            )
        wanted.append((kept.number, kept.hash, "was given"))
    for number, hash, who in wanted:
        found = await store.checkpoint(tx, number)
        if found is None and number > head:
            report.bad(
                "cut",
                f"the chain ends at checkpoint {head}, and {who} checkpoint {number}: "
                "its end was cut off, or an older backup restored",
                number,
            )
        elif found is None or found.checkpoint.hash != hash:
            report.bad("chain", f"checkpoint {number} is not the one that {who}: the chain was written anew", number)


async def _must_be(tx: Tx, report: Report, number: int, root: bytes) -> None:
    """Whether a checkpoint is there with the root that somebody kept."""
    found = await store.checkpoint(tx, number)
    if found is None:
        report.bad("cut", f"there is no checkpoint {number}, whose root was given: the chain's end was cut off", number)
    elif found.checkpoint.root != root:
        report.bad("chain", f"checkpoint {number} has another root than was given: it was written anew", number)


@dataclass(frozen=True, slots=True)
class _Run:
    """Some checkpoints, with their leaves and rows."""

    checkpoints: tuple[Signed, ...]
    leaves: tuple[tuple[int, int, bytes], ...]
    rows: tuple[Row, ...]
    texts: tuple[tuple[int, bytes], ...]


class _Runs:
    """The ledger from a checkpoint to another, some thousand rows at a time."""

    def __init__(self, tx: Tx, after: int, until: int) -> None:
        self._tx = tx
        self._after, self._until = after, until
        self._waiting: list[Signed] = []

    async def next(self) -> _Run | None:
        """The next run; None at the end."""
        if not self._waiting:
            batch = await store.checkpoints(self._tx, self._after, 50)
            self._waiting = [one for one in batch if one.checkpoint.number <= self._until]
            if not self._waiting:
                return None
            self._after = self._waiting[-1].checkpoint.number
        some: list[Signed] = []
        count = 0
        while self._waiting and (not some or count + self._waiting[0].checkpoint.size <= ROWS_AT_ONCE):
            some.append(self._waiting.pop(0))
            count += some[-1].checkpoint.size
        leaves = await store.leaves(self._tx, some[0].checkpoint.first, some[-1].checkpoint.last)
        seqs = sorted(seq for _, seq, _ in leaves)
        rows = await store.rows_of(self._tx, seqs)
        texts = await store.text_hashes(self._tx, seqs)
        return _Run(tuple(some), tuple(leaves), tuple(rows), tuple(texts))


def _check(chain: _Chain, run: _Run) -> None:
    """Check a run of checkpoints with all their rows."""
    rows: dict[int, tuple[Row, ...]] = {}
    for row in run.rows:
        rows[row.seq] = (*rows[row.seq], row) if row.seq in rows else (row,)
    texts = dict(run.texts)
    chain.report.texts += len(texts)
    leaves = [
        Leaf(position, seq, leaf, rows.get(seq, ()), texts.get(seq), chain.archived.take(position, leaf))
        for position, seq, leaf in run.leaves
    ]
    at = 0
    for signed in run.checkpoints:
        chain.take(signed)
        begin = at
        while at < len(leaves) and leaves[at].position <= signed.checkpoint.last:
            at += 1
        check_tree(chain.report, signed.checkpoint, leaves[begin:at])


async def _rest(tx: Tx, report: Report, now: datetime) -> None:
    """What no checkpoint speaks of: rows that are still to be sealed, that should be, or that were put in."""
    newest = await store.newest(tx)  # it may have grown meanwhile
    end, settled = (newest.checkpoint.last, newest.checkpoint.settled) if newest else (0, 0)
    if (until := await store.sealed_until(tx)) > end:
        report.bad("cut", f"positions {end + 1} to {until} have leaves and no checkpoint: the chain's end was cut off")
    for seq, at in await store.strays(tx, 10_000):
        if seq <= settled:
            report.bad("added", f"record {seq} was put in after everything up to {settled} was sealed", seq=seq)
        elif now - at > SEALED_WITHIN:
            report.bad("unsealed", f"record {seq} should have been sealed long ago: does a worker run?", seq=seq)
        else:
            report.unsealed += 1
