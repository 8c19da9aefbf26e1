"""Archiving a month: its records go to a file, that is checked, what it holds is signed and recorded, and the month's
partition leaves the ledger.

The order is such that it may be cut off anywhere, and a second run finishes it:

written    the file is whole, on disk, was read back and checked, and only then has its name
recorded   in one transaction: the record `ledger.archived`, the signed manifest, and the end of the partition
dropped    only where it was asked for, and only while the file is there as it was recorded

The leaves stay in the ledger: the tree's roots are checked as before, and an archived record is told from a deleted
one by the manifest that covers it. Kept texts are no part of an archive: they can be erased, and an archive cannot.
This is the owner's to do, never the running system's.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from keel.clock import Clock
from keel.db import Database, OperationalError, Tx
from keel.ledger import archive_store, store
from keel.ledger.append import Record, append
from keel.ledger.archive_file import Checked, Writer, check, name_of, sha256_of
from keel.ledger.archive_store import Extent
from keel.ledger.canonical import Row
from keel.ledger.checkpoint import BadFile, Signed
from keel.ledger.keys import KeyFolder, PublicKey, Signer
from keel.ledger.manifest import ACTION, VIA, Content, Manifest, bounds, month_of, positions

Result = TypeVar("Result")

PATIENCE = "3s"
"""How long a lock of the ledger is waited for: a decision that wants to be recorded waits behind it."""
TRIES = 5
CHECKPOINTS_AT_ONCE = 20

Tell = Callable[[str], None]
"""Told of each step: `written`, `recording` (which is not committed yet), `recorded`, `dropped`."""


class ArchiveTrouble(Exception):
    """A month cannot be archived. The text is a sentence that says why, and what mends it."""


@dataclass(frozen=True, slots=True)
class Done:
    """What is there after a run: the file, what it holds, and whether this run did anything."""

    path: Path
    content: Content
    dropped: bool
    changed: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run would do with a month."""

    month: str
    path: Path
    records: int
    bytes: int | None
    """The file's size, where it is there already."""
    recorded: bool


async def plan(db: Database, clock: Clock, month: str, folder: Path, *, delivered: int | None = None) -> Plan:
    """What archiving would do. Raises ArchiveTrouble where it would be refused."""
    path = folder / name_of(month)
    size = path.stat().st_size if path.exists() else None
    async with db.look() as tx:
        made = await _manifest(tx, month)
        if made is not None:
            return Plan(month, path, made.content.count, size, recorded=True)
        extent = await _may(tx, clock, month, delivered)
    return Plan(month, path, extent.count, size, recorded=False)


async def due(db: Database, clock: Clock) -> list[str]:
    """The months that are over and still part of the ledger, the oldest first."""
    async with db.look() as tx:
        return [month for month in await archive_store.months(tx) if month < month_of(clock.now())]


async def archive(
    db: Database,
    keys: KeyFolder,
    clock: Clock,
    month: str,
    folder: Path,
    *,
    drop: bool = False,
    delivered: int | None = None,
    tell: Tell = lambda step: None,
) -> Done:
    """Archive a whole past month into a folder; finish what was begun.

    `db` is the owner's. `delivered` is the position up to which a sink has the records; None where there is no sink.
    Raises ArchiveTrouble and KeyTrouble.
    """
    path = folder / name_of(month)
    async with db.look() as tx:
        made = await _manifest(tx, month)
        if made is None:
            await _may(tx, clock, month, delivered)
        state = await archive_store.state(tx, month)
    changed = False
    if made is None:
        signer = await asyncio.to_thread(keys.signer, clock.now())
        checked = await _write(db, signer, keys.public(), month, path)
        tell("written")
        made = await _record(db, keys, clock, checked, tell)
        tell("recorded")
        changed, state = True, "detached"
    elif state == "attached":  # somebody put it back
        await _detach(db, month)
        changed, state = True, "detached"
    if drop and state == "detached":
        await asyncio.to_thread(_still_there, path, made)
        async with db.tx() as tx:
            await archive_store.drop(tx, month)
        tell("dropped")
        changed, state = True, "absent"
    return Done(path, made.content, state == "absent", changed)


async def _manifest(tx: Tx, month: str) -> Manifest | None:
    return next((one for one in await archive_store.manifests(tx) if one.content.month == month), None)


async def _may(tx: Tx, clock: Clock, month: str, delivered: int | None) -> Extent:
    """What there is of the month, if it may be archived. Raises ArchiveTrouble."""
    try:
        _, until = bounds(month)
    except ValueError as error:
        raise ArchiveTrouble(f"{error}") from None
    if clock.now() < until:
        raise ArchiveTrouble(f"{month} is not over")
    state = await archive_store.state(tx, month)
    extent = await archive_store.extent(tx, month)
    if extent.rest:
        raise ArchiveTrouble(
            f"{extent.rest} records of {month} stand in ledger_rest, among those of every time: it is not archived"
        )
    if state == "detached":
        raise ArchiveTrouble(
            f"{archive_store.partition(month)} was taken out of the ledger by somebody, and is not archived: attach it"
        )
    if state == "absent" or not extent.count:
        raise ArchiveTrouble(f"there are no records of {month}")
    if extent.unsealed:
        raise ArchiveTrouble(f"{extent.unsealed} records of {month} are not sealed yet; a server seals them")
    if extent.texts:
        raise ArchiveTrouble(
            f"{extent.texts} texts of {month} are still kept, and only with their records can be erased by task; "
            "archive it once they are gone"
        )
    if delivered is not None and extent.last is not None and delivered < extent.last:
        raise ArchiveTrouble(f"the sink has not got all of {month} yet; archive it once it has")
    return extent


async def _write(db: Database, signer: Signer, public: Mapping[str, PublicKey], month: str, path: Path) -> Checked:
    """Have the month's file there, whole and checked. Raises ArchiveTrouble."""
    fresh = path.with_name(f"{path.name}.new")
    try:
        there = await asyncio.to_thread(_place, path)
        async with db.look() as tx:
            stored = list((await store.keys(tx)).values())
            with await asyncio.to_thread(Writer, month, None if there else fresh, stored) as writer:
                await _copy(tx, month, writer)
                await asyncio.to_thread(writer.end, signer)
                # Read back while the writer still holds it: of two that write the same month, one gives up.
                checked = await asyncio.to_thread(check, path if there else fresh, public)
                if checked.problems and not there:
                    raise ArchiveTrouble(
                        f"what was written of {month} does not hold, so the ledger is not intact: {checked.problems[0]}"
                    )
                if checked.problems:
                    raise ArchiveTrouble(f"{path} is there and does not hold: {checked.problems[0]}; move it away")
                if checked.content != writer.content():
                    raise ArchiveTrouble(
                        f"{path} is there and holds other records than the ledger has of {month}; move it away"
                    )
                if not there:
                    await asyncio.to_thread(_named, fresh, path)
    except BlockingIOError:
        raise ArchiveTrouble(f"another run archives {month} at this moment") from None
    except BadFile as error:
        raise ArchiveTrouble(f"{path} cannot be used: {error}; move it away") from None
    except OSError as error:
        raise ArchiveTrouble(f"{error.filename or path} cannot be written: {error.strerror}") from None
    return checked


async def _copy(tx: Tx, month: str, writer: Writer) -> None:
    """Give a month's records with all that seals them to a writer, some checkpoints at a time."""
    extent = await archive_store.extent(tx, month)
    if extent.first is None or extent.last is None:
        return
    gone = [positions(one.content.positions) for one in await archive_store.manifests(tx)]
    start = await store.checkpoint_of(tx, extent.first)
    after = start.checkpoint.number - 1 if start else 0
    while True:
        batch = await store.checkpoints(tx, after, CHECKPOINTS_AT_ONCE)
        some = [one for one in batch if one.checkpoint.first <= extent.last]
        if not some:
            return
        after = some[-1].checkpoint.number
        first, last = some[0].checkpoint.first, some[-1].checkpoint.last
        leaves = await store.leaves(tx, first, last)
        rows = await archive_store.rows(tx, month, first, last)
        for position, seq in await archive_store.missing(tx, first, last):
            if not any(position in where for where in gone):
                raise ArchiveTrouble(f"record {seq} is missing: the ledger is not intact, and so not archived")
        await asyncio.to_thread(_add, writer, some, leaves, rows)
        if writer.differs is not None:
            raise ArchiveTrouble(f"record {writer.differs} is not what its leaf says: the ledger is not intact")


def _add(
    writer: Writer, some: Sequence[Signed], leaves: Sequence[tuple[int, int, bytes]], rows: Mapping[int, Row]
) -> None:
    """Those of the checkpoints that seal a record of the month."""
    at = 0
    for signed in some:
        begin = at
        while at < len(leaves) and leaves[at][0] <= signed.checkpoint.last:
            at += 1
        if any(position in rows for position, _, _ in leaves[begin:at]):
            writer.add(signed, leaves[begin:at], rows)


def _place(path: Path) -> bool:
    """Have the folder there; whether the file is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.exists()


def _named(fresh: Path, path: Path) -> None:
    """Give the file its name, for good."""
    fresh.replace(path)
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


async def _record(db: Database, keys: KeyFolder, clock: Clock, checked: Checked, tell: Tell) -> Manifest:
    """Write down that the month is archived, sign it, and take the partition out: all of it or nothing."""
    month = checked.content.month

    async def act(tx: Tx) -> Manifest:
        await archive_store.alone(tx, PATIENCE)  # while a check goes through the ledger, no row leaves it
        await archive_store.hold(tx, month)  # from here on nothing comes into that month
        if await archive_store.count(tx, month) != checked.content.count:
            raise ArchiveTrouble(
                f"a record of {month} came in while it was archived; move the file away and run it again"
            )
        await store.lock(tx, wait=True)  # so that none signs with a key that another one has replaced
        now = clock.now()
        signer = keys.signer(now)
        await store.have_key(tx, signer.key)
        made = Manifest(checked.content, now, checked.sha256, 0, signer.key.id)
        await append(tx, Record(now, None, VIA, ACTION, None, None, "ok", 0.0, made.facts))
        made = replace(made, record=await archive_store.last_seq(tx))
        made = replace(made, signature=signer.sign(made.body))
        await archive_store.insert_manifest(tx, made)
        await archive_store.detach(tx, month)
        tell("recording")
        return made

    return await _patiently(db, act)


async def _detach(db: Database, month: str) -> None:
    async def act(tx: Tx) -> None:
        await archive_store.alone(tx, PATIENCE)
        await archive_store.hold(tx, month)
        await archive_store.detach(tx, month)

    await _patiently(db, act)


async def _patiently(db: Database, act: Callable[[Tx], Awaitable[Result]]) -> Result:
    """Run it in a transaction, again where a lock was not to be had in time: nobody is kept waiting behind it."""
    for _ in range(TRIES):
        try:
            async with db.tx() as tx:
                return await act(tx)
        except OperationalError as error:
            if not archive_store.is_of_locks(error):
                raise
    raise ArchiveTrouble("the ledger is read or written without a pause, as by a dump or a check; run it again")


def _still_there(path: Path, made: Manifest) -> None:
    """Whether the file is there as it was recorded. Raises ArchiveTrouble."""
    try:
        if sha256_of(path) != made.file_sha256:
            raise ArchiveTrouble(f"{path} is not the file that was recorded; nothing is dropped")
    except OSError as error:
        raise ArchiveTrouble(
            f"{path} cannot be read ({error.strerror}); --to names the folder where it is, and nothing is dropped"
        ) from None
