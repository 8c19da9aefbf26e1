"""What is done with records: list, show, prove, check, seal, erase. Sources: `rift audit …`, and the jobs beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC

from keel.ledger import proof, store
from keel.ledger.append import text_hash
from keel.ledger.canonical import Row, entry
from keel.ledger.checkpoint import Signed
from keel.ledger.faults import Report
from keel.ledger.keys import KeyFolder, PublicKey, key_id
from keel.ledger.proof import Proof
from keel.ledger.seal import seal as seal_all
from keel.ledger.verify import Progress
from keel.ledger.verify import verify as verify_all
from keel.refusal import Refusal
from rift.audit import SystemAct, audited
from rift.commands import actions as commands
from rift.deps import Deps
from rift.people import actions as people
from rift.people import refusals as people_refusals
from rift.records import refusals
from rift.records.model import Entry, Erased, Seal, Wanted, Whole, names, text_state

ERASED_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys that sign checkpoints: those of this host, and all that the database knows, the oldest first."""

    here: Mapping[str, PublicKey]
    known: Sequence[PublicKey]


def folder(deps: Deps) -> KeyFolder:
    """Where the keys are: outside the database."""
    return KeyFolder(deps.data / "audit")


async def page(deps: Deps, wanted: Wanted) -> list[Entry] | Refusal:
    """Records, the newest first. Source: `rift audit ls`."""
    async with deps.db.look() as tx:
        actor = None
        if wanted.user is not None:
            person = await people.find(tx, wanted.user)
            if person is None:
                return people_refusals.no_such_user(wanted.user)
            actor = person.id
        if wanted.after is not None and not await store.rows_of(tx, [wanted.after]):
            return refusals.no_such_record(wanted.after)
        rows = await store.page(
            tx,
            store.Filter(
                task=wanted.task, box=wanted.box, actor=actor, action=wanted.action, outcome=wanted.outcome,
                since=wanted.since, until=wanted.until, after=wanted.after, limit=wanted.limit,
            ),
        )  # fmt: skip
        emails = await people.emails(tx, {row.actor for row in rows if row.actor is not None})
    return [_entry(row, emails) for row in rows]


async def show(deps: Deps, seq: int) -> Whole | Refusal:
    """One record with its text and its seal. Source: `rift audit show`."""
    async with deps.db.look() as tx:
        rows = await store.rows_of(tx, [seq])
        if not rows:
            return refusals.no_such_record(seq)
        row = rows[0]
        emails = await people.emails(tx, {row.actor} if row.actor else set())
        kept = await store.text_of(tx, seq)
        position = await store.position_of(tx, seq)
        signed = await store.checkpoint_of(tx, position) if position is not None else None
    return Whole(
        entry=_entry(row, emails),
        text_state=text_state(kept is not None, row.text_sha256, text_hash(*kept) if kept else None),
        text=kept[1] if kept else None,
        seal=Seal(signed.checkpoint.number, signed.checkpoint.at, position) if signed and position else None,
    )


async def seal(deps: Deps) -> int:
    """Seal what is not sealed yet; how many records. Raises KeyTrouble."""
    return await seal_all(deps.db, folder(deps), deps.clock)


async def prove(deps: Deps, seq: int) -> Proof | Refusal:
    """One record's proof, for anybody to check offline; sealed first if it is not yet. Source: `rift audit proof`."""
    async with deps.db.look() as tx:
        if not await store.rows_of(tx, [seq]):
            return refusals.no_such_record(seq)
        sealed = await store.position_of(tx, seq) is not None
    if not sealed:
        await seal(deps)
    async with deps.db.look() as tx:
        position = await store.position_of(tx, seq)
        signed = await store.checkpoint_of(tx, position) if position is not None else None
        if position is None or signed is None:  # it went, or another one is sealing it at this moment
            return refusals.no_such_record(seq)
        one = signed.checkpoint
        leaves = [leaf for _, _, leaf in await store.leaves(tx, one.first, one.last)]
        (row,) = await store.rows_of(tx, [seq])
        public = (await store.keys(tx))[one.key].public
    return proof.make(entry(row), leaves, position - one.first, signed, public)


async def checkpoint(deps: Deps) -> Signed | Refusal:
    """The newest checkpoint, over everything that is there now. Source: `rift audit checkpoint`."""
    await seal(deps)
    async with deps.db.look() as tx:
        return await store.newest(tx) or refusals.nothing_sealed()


async def verify(
    deps: Deps, *, since: int = 1, against: Signed | None = None, keys: Sequence[bytes] = (), progress: Progress
) -> Report:
    """Check the ledger. `keys` are public keys to trust beside those of this host. Source: `rift audit verify`."""
    here = folder(deps)
    trusted = dict(here.public())
    for public in keys:
        id = key_id(public)
        trusted[id] = PublicKey(id, public, deps.clock.now(), None, None)
    return await verify_all(
        deps.db, trusted, deps.clock.now(), seen=here.seen(), against=against, since=since, progress=progress
    )


async def keys(deps: Deps) -> Keys:
    """The public keys. Source: `rift audit keys`."""
    async with deps.db.look() as tx:
        known = await store.keys(tx)
    return Keys(folder(deps).public(), tuple(known.values()))


async def rotate(deps: Deps) -> PublicKey:
    """Replace the key that signs: the old one vouches for the new one and is then gone. Source: `rift audit rotate`."""
    async with audited(deps, SystemAct("rift audit rotate", {}, deps.clock.monotonic())) as (tx, _):
        await store.lock(tx, wait=True)  # none signs with the old one from here on
        key = folder(deps).rotate(deps.clock.now()).key
        await store.have_key(tx, key)
    return key


async def erase(deps: Deps, task: str) -> Erased:
    """Erase every text of a task: of its records, and of its commands that have ended. Source: `rift audit erase`."""
    async with audited(deps, SystemAct("rift audit erase", {"task": task}, deps.clock.monotonic())) as (tx, row):
        row.task = task
        return Erased(await store.erase_texts_of_task(tx, task), await commands.erase_texts(tx, task))


async def forget(deps: Deps) -> int:
    """Erase the texts that are older than they are kept; how many."""
    before = deps.clock.now() - deps.settings.audit.keep_texts
    total = 0
    while True:
        async with deps.db.tx() as tx:
            gone = await store.erase_texts(tx, before, ERASED_AT_ONCE)
        total += gone
        if gone < ERASED_AT_ONCE:
            return total


def _entry(row: Row, emails: Mapping[str, str]) -> Entry:
    return Entry(
        row.seq, row.at.astimezone(UTC), row.actor, names(emails, row.actor), row.via, row.action, row.task, row.box,
        row.outcome, row.duration_us, row.arguments, row.text_sha256,
    )  # fmt: skip
