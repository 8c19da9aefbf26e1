"""What is done with records: list, show, prove, check, seal, erase. Sources: `rift audit …`, and the jobs beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC

from keel.db import Tx
from keel.ledger import proof
from keel.ledger import store as ledger
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
from rift.audit import Act, SystemAct, audited
from rift.commands import actions as commands
from rift.deps import Deps
from rift.names import BOX_PREFIX, SEAL_SECONDS
from rift.people import actions as people
from rift.people import refusals as people_refusals
from rift.people.model import Caller
from rift.records import refusals, store
from rift.records.decide import audit_link, box_of, decide_erase, may_read, reader_of, route, sources
from rift.records.model import (
    Asked,
    Entry,
    Erasable,
    Erased,
    Place,
    Reader,
    Seal,
    Shown,
    Wanted,
    Whole,
    names,
    text_state,
)
from rift.secrecy import without_secrets
from rift.tasks import refusals as task_refusals
from rift.tasks.model import Handle

ERASED_AT_ONCE = 1000
TOLD_MOST = 40
"""How much is repeated of a text that is no task's id."""
SAME_NAME = 10
"""So many boxes of one name are told."""


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
        if wanted.after is not None and not await ledger.rows_of(tx, [wanted.after]):
            return refusals.no_such_record(wanted.after)
        rows = await ledger.page(
            tx,
            ledger.Filter(
                task=wanted.task, box=wanted.box, actor=actor, action=wanted.action, outcome=wanted.outcome,
                since=wanted.since, until=wanted.until, after=wanted.after, limit=wanted.limit,
            ),
        )  # fmt: skip
        emails = await people.emails(tx, {row.actor for row in rows if row.actor is not None})
    return [_entry(row, emails) for row in rows]


async def show(deps: Deps, seq: int) -> Whole | Refusal:
    """One record with its text and its seal. Source: `rift audit show`."""
    async with deps.db.look() as tx:
        rows = await ledger.rows_of(tx, [seq])
        return await _whole(tx, rows[0]) if rows else refusals.no_such_record(seq)


async def seal(deps: Deps) -> int:
    """Seal what is not sealed yet; how many records. Raises KeyTrouble."""
    return await seal_all(deps.db, folder(deps), deps.clock)


async def prove(deps: Deps, seq: int) -> Proof | Refusal:
    """One record's proof, for anybody to check offline; sealed first if it is not yet. Source: `rift audit proof`."""
    async with deps.db.look() as tx:
        if not await ledger.rows_of(tx, [seq]):
            return refusals.no_such_record(seq)
        sealed = await ledger.position_of(tx, seq) is not None
    if not sealed:
        await seal(deps)
    return await _proof(deps, seq) or refusals.no_such_record(seq)  # it went, or another is sealing at this moment


async def checkpoint(deps: Deps) -> Signed | Refusal:
    """The newest checkpoint, over everything that is there now. Source: `rift audit checkpoint`."""
    await seal(deps)
    async with deps.db.look() as tx:
        return await ledger.newest(tx) or refusals.nothing_sealed()


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
        known = await ledger.keys(tx)
    return Keys(folder(deps).public(), tuple(known.values()))


async def rotate(deps: Deps) -> PublicKey:
    """Replace the key that signs: the old one vouches for the new one and is then gone. Source: `rift audit rotate`."""
    async with audited(deps, SystemAct("rift audit rotate", {}, deps.clock.monotonic())) as (tx, _):
        await ledger.lock(tx, wait=True)  # none signs with the old one from here on
        key = folder(deps).rotate(deps.clock.now()).key
        await ledger.have_key(tx, key)
    return key


async def erase(deps: Deps, task: str) -> Erased:
    """Erase every text of a task: of its records, and of its commands that have ended. Source: `rift audit erase`."""
    async with audited(deps, SystemAct("rift audit erase", {"task": task}, deps.clock.monotonic())) as (tx, row):
        row.task = task
        return Erased(await ledger.erase_texts_of_task(tx, task), await commands.erase_texts(tx, task))


async def forget(deps: Deps) -> int:
    """Erase the texts that are older than they are kept; how many."""
    before = deps.clock.now() - deps.settings.audit.keep_texts
    total = 0
    while True:
        async with deps.db.tx() as tx:
            gone = await ledger.erase_texts(tx, before, ERASED_AT_ONCE)
        total += gone
        if gone < ERASED_AT_ONCE:
            return total


async def page_of(deps: Deps, caller: Caller, asked: Asked, *, person: str | None = None) -> Shown:
    """The records that somebody may read at this moment and that fit. Source: the Audit page.

    `person` is an email address; `asked.box` may be a box's name. Of what is not theirs nothing is told, not even that
    it is there: a task, a box or a person of others is one that has no records.
    """
    async with deps.db.look(caller.user) as tx:
        reader = await _reader(tx, caller)
        if person is not None:
            found = await people.find(tx, person)
            asked = replace(asked, actor=found.id if found else "")
        if asked.box is not None and not asked.box.startswith(BOX_PREFIX):
            same = await store.boxes_named(tx, reader, asked.box, asked.task, SAME_NAME)
            if len(same) > 1:
                return Shown((), dict.fromkeys(same, asked.box), {}, None, which=tuple(same))
            asked = replace(asked, box=same[0] if same else asked.box)
        shown = await _page(tx, reader, asked)
        if asked.task is not None and (may := await _erasable(tx, reader, asked.task)) is not None:
            count = await store.count_texts(tx, asked.task, None if may.whole else may.boxes)
            shown = replace(shown, erasable=count)
    return shown


async def one_of(deps: Deps, caller: Caller, seq: int) -> Whole | None:
    """One record with its text and its seal; None where there is none that they may read. Source: a record's page."""
    async with deps.db.look(caller.user) as tx:
        row = await _readable(tx, caller, seq)
        return await _whole(tx, row) if row is not None else None


async def proof_of(deps: Deps, caller: Caller, seq: int) -> Proof | Refusal | None:
    """The proof of a record that somebody may read; None where there is none. Source: a record's page."""
    async with deps.db.look(caller.user) as tx:
        if await _readable(tx, caller, seq) is None:
            return None
    return await _proof(deps, seq) or refusals.not_sealed(seq, SEAL_SECONDS)


async def erase_of(deps: Deps, act: Act, task: str) -> Erased | Refusal:
    """Erase the texts of a task that somebody may erase. Source: the Audit page."""
    async with audited(deps, act) as (tx, row):
        may = await _erasable(tx, await _reader(tx, act.caller), task)
        if may is None:
            return row.said(refusals.nothing_to_erase(task))
        row.task, row.org = task, may.org
        boxes = None if may.whole else may.boxes
        return Erased(await store.erase_texts(tx, task, boxes), await commands.erase_texts(tx, task, boxes))


async def link(deps: Deps, act: Act, task: str | None, vm: str | None) -> str | Refusal:
    """The address of the Audit page for a task, a box, or all. Source: rift_audit.

    It looks nothing up, and its record names no task: the answer is the same whosever the task is, and whether there
    is one. The page decides what is shown. Of a handle the id alone is used.
    """
    async with audited(deps, act) as (_, row):
        handle = Handle.parse(task) if task is not None else None
        if task is not None and handle is None:
            return row.said(task_refusals.unknown(without_secrets(task)[:TOLD_MOST]))
        id = handle.id if handle is not None else None
        return audit_link(deps.settings.server.address, id, box_of(vm) if vm is not None else None)


async def _reader(tx: Tx, caller: Caller) -> Reader:
    return reader_of(caller, await people.memberships(tx, caller.user))


async def _page(tx: Tx, reader: Reader, asked: Asked) -> Shown:
    by = route(
        asked,
        in_task=asked.task is not None and await store.in_task(tx, reader, asked.task),
        in_box=asked.box is not None and await store.in_box(tx, reader, asked.box),
    )
    where = sources(reader, asked)
    floor = await store.floor(tx, reader, where, asked) if by == "all" and asked.narrowed else None
    wanted = replace(asked, limit=asked.limit + 1)
    rows = await store.page(tx, reader, by, where, wanted, floor)
    if by == "all" and not asked.narrowed and len(rows) < wanted.limit:
        floor = await store.floor(tx, reader, where, asked)
        if floor is not None:  # of what is noted much is archived: not in the ledger any more
            rows = await store.page(tx, reader, by, where, wanted, floor)
    more, rows = len(rows) > asked.limit, rows[: asked.limit]
    tasks, boxes = await store.names(
        tx, reader, {row.task for row in rows if row.task}, {row.box for row in rows if row.box}
    )
    emails = await people.emails(tx, {row.actor for row in rows if row.actor is not None})
    older = Place(rows[-1].at.astimezone(UTC), rows[-1].seq) if more else floor
    return Shown(tuple(_entry(row, emails) for row in rows), boxes, tasks, older, looked=not more and floor is not None)


async def _readable(tx: Tx, caller: Caller, seq: int) -> Row | None:
    reader = await _reader(tx, caller)
    found = await store.find(tx, reader, seq)
    if found is None:
        return None
    row, noted = found
    return row if may_read(reader, row.actor, noted, row.task, row.box) else None


async def _erasable(tx: Tx, reader: Reader, task: str) -> Erasable | None:
    owner, boxes = await store.of_task(tx, task)
    return decide_erase(reader, owner, boxes)


async def _whole(tx: Tx, row: Row) -> Whole:
    emails = await people.emails(tx, {row.actor} if row.actor else set())
    kept = await ledger.text_of(tx, row.seq)
    position = await ledger.position_of(tx, row.seq)
    signed = await ledger.checkpoint_of(tx, position) if position is not None else None
    return Whole(
        entry=_entry(row, emails),
        text_state=text_state(kept is not None, row.text_sha256, text_hash(*kept) if kept else None),
        text=kept[1] if kept else None,
        seal=Seal(signed.checkpoint.number, signed.checkpoint.at, position) if signed and position else None,
    )


async def _proof(deps: Deps, seq: int) -> Proof | None:
    """The proof of a record that is sealed."""
    async with deps.db.look() as tx:
        position = await ledger.position_of(tx, seq)
        signed = await ledger.checkpoint_of(tx, position) if position is not None else None
        if position is None or signed is None:
            return None
        one = signed.checkpoint
        leaves = [leaf for _, _, leaf in await ledger.leaves(tx, one.first, one.last)]
        (row,) = await ledger.rows_of(tx, [seq])
        public = (await ledger.keys(tx))[one.key].public
    return proof.make(entry(row), leaves, position - one.first, signed, public)


def _entry(row: Row, emails: Mapping[str, str]) -> Entry:
    return Entry(
        row.seq, row.at.astimezone(UTC), row.actor, names(emails, row.actor), row.via, row.action, row.task, row.box,
        row.outcome, row.duration_us, row.arguments, row.text_sha256,
    )  # fmt: skip
