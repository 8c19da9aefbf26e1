"""What is wrong with a ledger, and how the rows of one checkpoint are compared with its root. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from keel.ledger.canonical import Row, entry
from keel.ledger.checkpoint import Checkpoint, Signed
from keel.ledger.merkle import leaf_hash, root

Kind = Literal[
    "changed",
    "missing",
    "added",
    "reordered",
    "text",
    "leaf",
    "unsealed",
    "chain",
    "signature",
    "key",
    "cut",
    "archive",
]
TOLD_MOST = 100
"""The most problems that are told one by one."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: a sentence that names the record or the checkpoint."""

    kind: Kind
    sentence: str
    checkpoint: int | None = None
    seq: int | None = None


@dataclass(slots=True)
class Report:
    """What a check found. `problems` are in the order of the ledger; there may be `more` that are not told."""

    checkpoints: int = 0
    records: int = 0
    texts: int = 0
    unsealed: int = 0
    archived: int = 0
    """How many of the records stand in archives alone: their hashes are checked, they themselves where a file is given.
    """
    unseen: int = 0
    """How many of those are in files that were not given."""
    head: Signed | None = None
    problems: list[Problem] = field(default_factory=list)
    more: int = 0

    @property
    def intact(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def bad(self, kind: Kind, sentence: str, checkpoint: int | None = None, seq: int | None = None) -> None:
        """Note a problem."""
        if len(self.problems) < TOLD_MOST:
            self.problems.append(Problem(kind, sentence, checkpoint, seq))
        else:
            self.more += 1


class Leaf(NamedTuple):
    """A leaf as it is stored, and the rows that are there under its seq: one, when nothing is wrong."""

    position: int
    seq: int
    stored: bytes
    rows: tuple[Row, ...]
    text: bytes | None = None
    """The salted hash of the text that is kept, made anew."""
    archived: bool = False
    """Whether a signed manifest says that the row went to a file."""


def check_tree(report: Report, one: Checkpoint, leaves: Sequence[Leaf]) -> None:
    """Compare the rows of one checkpoint with its root, and say which are not what was sealed."""
    report.records += len(leaves)
    report.archived += sum(leaf.archived and not leaf.rows for leaf in leaves)
    made = [leaf_hash(entry(leaf.rows[0])) if leaf.rows else leaf.stored if leaf.archived else b"" for leaf in leaves]
    for leaf in leaves:
        if len(leaf.rows) > 1:
            report.bad("added", f"there are {len(leaf.rows)} records {leaf.seq}; one was sealed", one.number, leaf.seq)
        if leaf.text is not None and leaf.rows and leaf.text != leaf.rows[0].text_sha256:
            report.bad("text", f"the text of record {leaf.seq} is not the one it was made with", one.number, leaf.seq)
    whole = [leaf.position for leaf in leaves] == list(range(one.first, one.last + 1))
    differ = [(leaf, hash) for leaf, hash in zip(leaves, made, strict=True) if leaf.stored != hash]
    if whole and root(made) == one.root:
        for leaf, _ in differ:
            report.bad("leaf", f"record {leaf.seq} is as it was sealed, its leaf is not", one.number, leaf.seq)
        return
    if whole and root([leaf.stored for leaf in leaves]) == one.root:  # the leaves say which record it is
        for leaf, hash in differ:
            if hash:
                report.bad("changed", f"record {leaf.seq} was changed after it was sealed", one.number, leaf.seq)
            else:
                report.bad("missing", f"record {leaf.seq} was removed after it was sealed", one.number, leaf.seq)
        return
    _lost(report, one, leaves, made, whole)


def _lost(report: Report, one: Checkpoint, leaves: Sequence[Leaf], made: Sequence[bytes], whole: bool) -> None:
    """Neither the rows nor their leaves give the root: say as much as can be known."""
    place = f"checkpoint {one.number} (positions {one.first} to {one.last})"
    there = Counter(leaf.position for leaf in leaves)
    for position in range(one.first, one.last + 1):
        if there[position] != 1:
            report.bad("leaf", f"position {position} of {place} has {there[position]} leaves", one.number)
            break
    in_order = sorted(zip(leaves, made, strict=True), key=lambda pair: pair[0].seq)
    if whole and root([hash for _, hash in in_order]) == one.root:
        moved = next(leaf for leaf, (right, _) in zip(leaves, in_order, strict=True) if leaf.seq != right.seq)
        report.bad(
            "reordered", f"record {moved.seq} stands in another place than it was sealed at", one.number, moved.seq
        )
        return
    told = False
    for leaf, hash in zip(leaves, made, strict=True):
        if leaf.stored != hash:
            told = True
            what = "is not what its leaf says" if hash else "is missing"
            report.bad("changed" if hash else "missing", f"record {leaf.seq} {what}", one.number, leaf.seq)
    if whole or not told:
        seqs = [leaf.seq for leaf in leaves]
        among = f": one or more of the records {min(seqs)} to {max(seqs)} are not what was sealed" if seqs else ""
        report.bad("changed", f"the root of {place} is not that of its records{among}", one.number)
