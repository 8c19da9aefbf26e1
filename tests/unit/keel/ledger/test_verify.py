"""What a check finds, when somebody with the whole database in their hands changed something past every trigger."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.unit.keel.ledger.chain import RECORDS, Chain

from keel.ledger import store
from keel.ledger.canonical import entry
from keel.ledger.checkpoint import Checkpoint, Signed
from keel.ledger.faults import TOLD_MOST
from keel.ledger.keys import KeyFolder, key_id
from keel.ledger.merkle import leaf_hash, root

Found = tuple[str, int | None, int | None]
"""Kind, checkpoint, seq."""

FORGED_LEAF = "UPDATE ledger_leaves SET leaf = sha256('forged') WHERE seq = 10"
COPY = "at, actor, via, action, task, box, outcome, duration_us, arguments, text_sha256"
REST = COPY.removeprefix("at, ")
SWAP_ROWS = f"""
    UPDATE ledger SET ({COPY}) = (
        SELECT {COPY} FROM ledger other WHERE other.seq = CASE ledger.seq WHEN 9 THEN 12 ELSE 9 END
    )
    WHERE seq IN (9, 12)
"""
SWAP_CHECKPOINTS = """
    UPDATE ledger_checkpoints SET (root, at) = (
        SELECT root, at FROM ledger_checkpoints other
        WHERE other.number = CASE ledger_checkpoints.number WHEN 2 THEN 3 ELSE 2 END
    ) WHERE number IN (2, 3)
"""
REPLAY = """
    UPDATE ledger_checkpoints SET (root, previous, signature, settled, at) = (
        SELECT root, previous, signature, settled, at FROM ledger_checkpoints WHERE number = 2
    ) WHERE number = 3
"""
DROP_UNIQUE = "ALTER TABLE ledger_leaves DROP CONSTRAINT ledger_leaves_seq_key"

ATTACKS: dict[str, tuple[tuple[str, ...], list[Found]]] = {
    # A row's every column.
    **{
        f"change {column}": ((f"UPDATE ledger SET {column} = {value} WHERE seq = 10",), [("changed", 2, 10)])
        for column, value in {
            "at": "at + interval '1 microsecond'", "actor": "'user_eve'", "via": "NULL", "action": "'rift_read'",
            "task": "''", "box": "NULL", "outcome": "'vm_unknown'", "duration_us": "duration_us + 1",
            "arguments": "'{\"vm\": \"b-1\", \"a\": null}'",
        }.items()
    },
    "take a row's text away with its hash": (
        ("UPDATE ledger SET text_sha256 = NULL WHERE seq = 10",), [("text", 2, 10), ("changed", 2, 10)],
    ),
    "change a text": (("UPDATE ledger_texts SET text = 'make tea' WHERE seq = 10",), [("text", 2, 10)]),
    "change a text and its hash": (
        (
            "UPDATE ledger_texts SET text = 'make tea' WHERE seq = 10",
            "UPDATE ledger SET text_sha256 = sha256('5a17make tea') WHERE seq = 10",
        ),
        [("changed", 2, 10)],
    ),
    "delete a row": (("DELETE FROM ledger WHERE seq = 10",), [("missing", 2, 10)]),
    "delete the first row": (("DELETE FROM ledger WHERE seq = 1",), [("missing", 1, 1)]),
    "delete the last row": (("DELETE FROM ledger WHERE seq = 23",), [("missing", 4, 23)]),
    "delete a row with its leaf": (
        ("DELETE FROM ledger WHERE seq = 10", "DELETE FROM ledger_leaves WHERE seq = 10"),
        [("leaf", 2, None), ("changed", 2, None)],
    ),
    "delete a leaf": (
        ("DELETE FROM ledger_leaves WHERE seq = 10",),
        [("leaf", 2, None), ("changed", 2, None), ("added", None, 10)],
    ),
    "give a row another number": (
        ("UPDATE ledger SET seq = 1000 WHERE seq = 10",), [("missing", 2, 10)],
    ),
    "swap two rows": ((SWAP_ROWS,), [("changed", 2, 9), ("changed", 2, 12)]),
    "swap two rows' numbers": (
        (
            "UPDATE ledger SET seq = -1 WHERE seq = 9", "UPDATE ledger SET seq = 9 WHERE seq = 12",
            "UPDATE ledger SET seq = 12 WHERE seq = -1",
        ),
        [("changed", 2, 9), ("changed", 2, 12)],
    ),
    "insert a row into a gap": (
        (f"INSERT INTO ledger (seq, {COPY}) SELECT 0, {COPY} FROM ledger WHERE seq = 10",), [("added", None, 0)],
    ),
    "insert a second row of a number": (
        (f"INSERT INTO ledger (seq, {COPY}) SELECT 10, at + interval '1 s', {REST} FROM ledger WHERE seq = 10",),
        [("added", 2, 10)],
    ),
    # The leaves.
    "forge a leaf": ((FORGED_LEAF,), [("leaf", 2, 10)]),
    "forge a row and its leaf": (
        (FORGED_LEAF, "UPDATE ledger SET outcome = 'error' WHERE seq = 10"), [("changed", 2, 10), ("changed", 2, None)],
    ),
    "swap two leaves' places": (
        (
            "UPDATE ledger_leaves SET position = -1 WHERE position = 9",
            "UPDATE ledger_leaves SET position = 9 WHERE position = 12",
            "UPDATE ledger_leaves SET position = 12 WHERE position = -1",
        ),
        [("reordered", 2, 12)],
    ),
    "swap leaves between checkpoints": (
        (
            "UPDATE ledger_leaves SET position = -1 WHERE position = 9",
            "UPDATE ledger_leaves SET position = 9 WHERE position = 16",
            "UPDATE ledger_leaves SET position = 16 WHERE position = -1",
        ),
        [("changed", 2, None), ("changed", 3, None)],
    ),
    "let a row stand twice": (
        (DROP_UNIQUE, "INSERT INTO ledger_leaves SELECT 24, seq, leaf FROM ledger_leaves WHERE seq = 10"),
        [("cut", None, None)],
    ),
    # The checkpoints.
    "change a root": (
        ("UPDATE ledger_checkpoints SET root = sha256('x') WHERE number = 2",),
        [("signature", 2, None), ("changed", 2, None), ("chain", 3, None)],
    ),
    "change an instant": (
        ("UPDATE ledger_checkpoints SET at = at - interval '1 h' WHERE number = 2",),
        [("signature", 2, None), ("chain", 3, None)],
    ),
    "change what is settled": (
        ("UPDATE ledger_checkpoints SET settled = 999 WHERE number = 4",), [("chain", 4, None), ("signature", 4, None)],
    ),
    "change a signature": (
        ("UPDATE ledger_checkpoints SET signature = sha512('x') WHERE number = 2",), [("signature", 2, None)],
    ),
    "take a checkpoint out": (("DELETE FROM ledger_checkpoints WHERE number = 2",), [("missing", 2, None)]),
    "swap two checkpoints": (
        (SWAP_CHECKPOINTS,),
        [
            ("signature", 2, None), ("changed", 2, None), ("chain", 3, None), ("signature", 3, None),
            ("changed", 3, None), ("chain", 4, None),
        ],
    ),
    "put an old checkpoint in the place of a newer": (
        (
            REPLAY,
        ),
        [
            ("chain", 3, None), ("signature", 3, None), ("changed", 3, None), ("chain", 4, None),
        ],
    ),
    # The end.
    "cut the last checkpoint off": (
        ("DELETE FROM ledger_checkpoints WHERE number = 4",), [("cut", 4, None), ("cut", None, None)],
    ),
    "cut the end off with its leaves": (
        ("DELETE FROM ledger_checkpoints WHERE number = 4", "DELETE FROM ledger_leaves WHERE position > 21"),
        [("cut", 4, None)],
    ),
    "cut the end off with all that belongs to it": (
        (
            "DELETE FROM ledger_checkpoints WHERE number > 2", "DELETE FROM ledger_leaves WHERE position > 14",
            "DELETE FROM ledger WHERE seq > 14", "DELETE FROM ledger_texts WHERE seq > 14",
        ),
        [("cut", 4, None)],
    ),
    "empty all of it": (
        ("TRUNCATE ledger_checkpoints, ledger_leaves, ledger, ledger_texts, ledger_keys, ledger_archives",),
        [("cut", 4, None)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ATTACKS)
async def test_what_was_changed_is_found_and_named(sealed: Chain, name: str) -> None:
    statements, said = ATTACKS[name]
    sealed.attack(*statements)
    report = await sealed.verify()
    found = [(one.kind, one.checkpoint, one.seq) for one in report.problems]
    assert not report.intact
    assert found[: len(said)] == said, report.problems
    for one in report.problems:
        assert str(one.seq or one.checkpoint or "chain") in one.sentence or one.seq == 0, one


async def test_what_is_not_changed_is_intact_with_its_numbers(sealed: Chain) -> None:
    await sealed.add(2)
    report = await sealed.verify()
    assert (report.intact, report.records, report.checkpoints, report.texts, report.unsealed) == (
        True, RECORDS, 4, RECORDS, 2,
    )  # fmt: skip
    assert report.head == (await sealed.all_checkpoints())[-1]


async def test_a_ledger_without_a_record_is_intact(empty: Chain) -> None:
    report = await empty.verify()
    assert (report.intact, report.records, report.head) == (True, 0, None)


async def test_an_erased_text_is_no_fault_and_a_text_that_was_put_in_is(sealed: Chain) -> None:
    async with sealed.db.tx() as tx:
        assert await store.erase_texts_of_task(tx, "task_1") == RECORDS
    assert (await sealed.verify()).intact
    sealed.attack("INSERT INTO ledger_texts SELECT seq, at, 'salt', 'never said' FROM ledger WHERE seq = 5")
    assert [(one.kind, one.seq) for one in (await sealed.verify()).problems] == [("text", 5)]


async def test_a_check_may_begin_later_and_then_sees_no_earlier_fault(sealed: Chain) -> None:
    sealed.attack("UPDATE ledger SET outcome = 'error' WHERE seq IN (3, 17)")
    assert [one.seq for one in (await sealed.verify(since=3)).problems] == [17]
    assert (await sealed.verify(since=3)).checkpoints == 2
    assert [one.seq for one in (await sealed.verify()).problems] == [3, 17]
    assert (await sealed.verify(since=4)).intact
    assert [(one.kind, one.checkpoint) for one in (await sealed.verify(since=99)).problems] == [("missing", 98)]


async def test_rows_that_nobody_seals_are_told_of_after_ten_minutes(sealed: Chain) -> None:
    await sealed.add(1)
    sealed.clock.advance(timedelta(minutes=9))
    assert (await sealed.verify()).intact
    sealed.clock.advance(timedelta(minutes=2))
    assert [(one.kind, one.seq) for one in (await sealed.verify()).problems] == [("unsealed", 24)]
    await sealed.seal()
    assert (await sealed.verify()).intact


async def test_a_thousand_faults_are_counted_and_the_first_are_named(empty: Chain) -> None:
    await empty.add(TOLD_MOST + 20)
    await empty.seal()
    empty.attack("UPDATE ledger SET via = 'x'")
    report = await empty.verify()
    assert [one.seq for one in report.problems] == list(range(1, TOLD_MOST + 1))
    assert report.more == 20


# Who holds a key


class Forger:
    """Writes the chain anew from a checkpoint on, with every hash right, and signs it with a key."""

    def __init__(self, made: Chain, private: Ed25519PrivateKey) -> None:
        self.made, self.private = made, private
        self.public = private.public_key().public_bytes_raw()

    async def write_anew(self, key: str) -> None:
        """After the rows were changed: leaves, roots, links and signatures as if they had always been so."""
        before: Checkpoint | None = None
        for signed in await self.made.all_checkpoints():
            one = signed.checkpoint
            async with self.made.db.look() as tx:
                leaves = await store.leaves(tx, one.first, one.last)
                rows = {row.seq: row for row in await store.rows_of(tx, [seq for _, seq, _ in leaves])}
            hashes = [leaf_hash(entry(rows[seq])) for _, seq, _ in leaves]
            forged = replace(one, root=root(hashes), previous=before.hash if before else None, key=key)
            for (position, _, _), hash in zip(leaves, hashes, strict=True):
                self.made.attack(
                    "UPDATE ledger_leaves SET leaf = %(leaf)s WHERE position = %(at)s", leaf=hash, at=position
                )
            self.made.attack(
                "UPDATE ledger_checkpoints SET root = %(root)s, previous = %(previous)s, key = %(key)s, "
                "signature = %(signature)s WHERE number = %(number)s",
                root=forged.root, previous=forged.previous, key=key, signature=self.private.sign(forged.body),
                number=one.number,
            )  # fmt: skip
            before = forged


CHANGE = "UPDATE ledger SET outcome = 'error' WHERE seq = 10"


@pytest.mark.parametrize("claim", ["a key of its own", "the key of the system", "an endorsement"])
async def test_who_has_the_database_and_no_key_cannot_write_the_chain_anew(sealed: Chain, claim: str) -> None:
    real = (await sealed.all_checkpoints())[0].checkpoint.key
    forger = Forger(sealed, Ed25519PrivateKey.generate())
    sealed.attack(CHANGE)
    key = real if claim == "the key of the system" else key_id(forger.public)
    sealed.attack(
        "INSERT INTO ledger_keys VALUES (%(id)s, %(public)s, now(), %(previous)s, %(word)s) ON CONFLICT DO NOTHING",
        id=key, public=forger.public, previous=real if claim == "an endorsement" else None, word=b"\0" * 64,
    )  # fmt: skip
    await forger.write_anew(key)
    report = await sealed.verify()
    kinds = {one.kind for one in report.problems}
    assert ("signature" if claim == "the key of the system" else "key") in kinds
    assert "chain" in kinds  # the newest checkpoint is not the one that the host remembers


async def test_who_has_database_and_host_is_found_by_a_checkpoint_kept_elsewhere(sealed: Chain) -> None:
    kept = (await sealed.all_checkpoints())[2]
    assert (await sealed.verify(against=kept)).intact
    signer = sealed.keys.signer(sealed.clock.now())
    sealed.attack(CHANGE)
    await Forger(sealed, signer.private).write_anew(signer.key.id)
    (sealed.keys.folder / "seen.json").unlink()
    assert (await sealed.verify()).intact  # nothing on this machine can tell
    report = await sealed.verify(against=kept)
    assert [(one.kind, one.checkpoint) for one in report.problems] == [("chain", 3)]


async def test_a_cut_end_is_found_by_a_checkpoint_kept_elsewhere(sealed: Chain) -> None:
    kept = (await sealed.all_checkpoints())[3]
    (sealed.keys.folder / "seen.json").unlink()
    sealed.attack(*ATTACKS["cut the end off with all that belongs to it"][0])
    assert (await sealed.verify()).intact
    assert [(one.kind, one.checkpoint) for one in (await sealed.verify(against=kept)).problems] == [("cut", 4)]


async def test_a_chain_that_went_on_after_its_end_was_cut_is_found(sealed: Chain) -> None:
    """The sealing goes on from what is there, and does not make the host forget what it had made."""
    sealed.attack(*ATTACKS["cut the end off with all that belongs to it"][0])
    await sealed.add(1)
    await sealed.seal()
    assert ("cut", 4) in [(one.kind, one.checkpoint) for one in (await sealed.verify()).problems]
    await sealed.add(9)
    await sealed.seal(3)
    assert ("chain", 4) in [(one.kind, one.checkpoint) for one in (await sealed.verify()).problems]


async def test_a_forged_checkpoint_to_check_against_is_not_believed(sealed: Chain) -> None:
    kept = (await sealed.all_checkpoints())[2]
    forged = Signed(replace(kept.checkpoint, root=bytes(32)), kept.signature)
    kinds = {one.kind for one in (await sealed.verify(against=forged)).problems}
    assert kinds == {"signature", "chain"}


async def test_a_replaced_key_signs_no_more_and_what_it_signed_stays_good(sealed: Chain) -> None:
    old = sealed.keys.signer(sealed.clock.now())
    new = sealed.keys.rotate(sealed.clock.now())
    await sealed.add(3)
    await sealed.seal(1)
    assert [one.checkpoint.key for one in await sealed.all_checkpoints()] == [old.key.id] * 4 + [new.key.id] * 3
    assert (await sealed.verify()).intact
    # Known outside is the first key alone: the second one has its word.
    assert (await sealed.verify(trusted={old.key.id: old.key})).intact
    assert {one.kind for one in (await sealed.verify(trusted={new.key.id: new.key})).problems} == {"key"}
    # Whoever stole the old one signs once more.
    last = (await sealed.all_checkpoints())[-1].checkpoint
    forged = replace(last, key=old.key.id)
    sealed.attack(
        "UPDATE ledger_checkpoints SET key = %(key)s, signature = %(signature)s WHERE number = 7",
        key=old.key.id, signature=old.sign(forged.body),
    )  # fmt: skip
    assert ("key", 7) in [(one.kind, one.checkpoint) for one in (await sealed.verify()).problems]


@pytest.mark.parametrize("known", [lambda path: KeyFolder(path / "elsewhere").public(), lambda path: {}])
async def test_without_a_key_from_outside_nothing_is_believed(
    sealed: Chain, tmp_path: Path, known: Callable[[Path], dict[str, object]]
) -> None:
    report = await sealed.verify(trusted=known(tmp_path))  # type: ignore[arg-type]  # both are empty
    assert [(one.kind, one.checkpoint) for one in report.problems] == [("key", number) for number in (1, 2, 3, 4)]
