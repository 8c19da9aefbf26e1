"""The part of a check that is about archived months: which manifests are believed, and the files that were given."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from keel.db import Tx
from keel.ledger import archive_store, store
from keel.ledger.archive_file import check
from keel.ledger.canonical import entry
from keel.ledger.checkpoint import BadFile
from keel.ledger.faults import Report
from keel.ledger.keys import PublicKey, signed_by
from keel.ledger.manifest import Manifest, Positions, positions
from keel.ledger.merkle import Growing, leaf_hash


@dataclass(slots=True)
class _Month:
    """A manifest that is signed by a key of the ledger, and the leaves that the ledger has where it says."""

    manifest: Manifest
    positions: Positions
    tree: Growing = field(default_factory=Growing)


class Archived:
    """The archived months that are believed, and what the check comes across of them."""

    def __init__(self, months: list[_Month]) -> None:
        self._months = months
        runs = sorted(
            ((first, last, month) for month in months for first, last in month.positions), key=lambda run: run[:2]
        )
        self._firsts = [first for first, _, _ in runs]
        self._runs = runs

    def take(self, position: int, leaf: bytes) -> bool:
        """Note a leaf on the way; whether its record was archived."""
        run = bisect_right(self._firsts, position) - 1
        if run < 0 or position > self._runs[run][1]:
            return False
        self._runs[run][2].tree.add(leaf)
        return True

    async def end(self, tx: Tx, report: Report, signers: Sequence[tuple[int, str]]) -> None:
        """After the last checkpoint: whether each month was there as its manifest says, and signed in its time.

        `signers` are the keys in the order in which they began to sign, with the number of their first checkpoint.
        """
        from_start = not signers or signers[0][0] == 1
        for month in self._months:
            one = month.manifest.content
            whole = month.tree.size == one.count
            if not whole and from_start:  # a check that begins later has not come by all of it
                report.bad("archive", f"the archive of {one.month} is of {one.count} records, not {month.tree.size}")
            elif whole and month.tree.root() != one.root:
                report.bad("archive", f"the archive of {one.month} is not of the records that were sealed")
            if await _too_late(tx, month.manifest, signers):
                report.bad(
                    "key", f"the archive of {one.month} is signed with {month.manifest.key}, which had been replaced"
                )

    async def compare(self, report: Report, files: Sequence[Path], keys: Mapping[str, PublicKey]) -> None:
        """Check the files that were given, each by itself and against its manifest."""
        seen = 0
        known = {month.manifest.content.month: month.manifest for month in self._months}
        for path in files:
            try:
                checked = await asyncio.to_thread(check, path, keys)
            except BadFile as error:
                report.bad("archive", f"{path} cannot be used: {error}")
                continue
            for problem in checked.problems:
                report.bad("archive", f"{path}: {problem}")
            manifest = known.get(checked.content.month)
            if manifest is None:
                report.bad("archive", f"{path}: the ledger knows of no archive of {checked.content.month}")
            elif checked.content != manifest.content or checked.sha256 != manifest.file_sha256:
                report.bad("archive", f"{path} is not the archive of {checked.content.month} that was recorded")
            elif not checked.problems:
                seen += known.pop(checked.content.month).content.count
        report.unseen = max(0, report.archived - seen)


async def believed(tx: Tx, report: Report, keys: Mapping[str, PublicKey]) -> Archived:
    """The manifests of archives that are signed and on the record. Any other one is told, and covers nothing."""
    good = []
    for one in await archive_store.manifests(tx):
        where = _signed(report, one, keys)
        if where is None:
            continue
        if await _on_record(tx, one):
            good.append(_Month(one, where))
        else:
            report.bad("archive", f"that {one.content.month} was archived is not on the record as it was")
    return Archived(good)


def _signed(report: Report, one: Manifest, keys: Mapping[str, PublicKey]) -> Positions | None:
    key = keys.get(one.key)
    if key is None:
        report.bad("archive", f"the archive of {one.content.month} is signed with {one.key}, which nobody vouches for")
    elif not signed_by(key.public, one.signature, one.body):
        report.bad("archive", f"the signature under the archive of {one.content.month} is wrong")
    else:
        try:
            return positions(one.content.positions)
        except BadFile as error:
            report.bad("archive", f"the archive of {one.content.month} cannot be read: {error}")
    return None


async def _on_record(tx: Tx, one: Manifest) -> bool:
    """Whether the record of an archive is the one that it should be: by its leaf, as it may be archived by now itself,
    or by its row, while it is not sealed.
    """
    should = leaf_hash(entry(one.row))
    position = await store.position_of(tx, one.record)
    if position is not None:
        return [leaf for _, _, leaf in await store.leaves(tx, position, position)] == [should]
    return [leaf_hash(entry(row)) for row in await store.rows_of(tx, [one.record])] == [should]


async def _too_late(tx: Tx, one: Manifest, signers: Sequence[tuple[int, str]]) -> bool:
    """Whether a key signed a manifest after its last checkpoint: whoever stole a replaced key would."""
    position = await store.position_of(tx, one.record)
    sealed = await store.checkpoint_of(tx, position) if position is not None else None
    before = sealed.checkpoint.number if sealed else None
    began = [key for number, key in signers if before is None or number < before]
    return one.key in began[:-1]
