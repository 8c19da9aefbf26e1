"""Who has the whole database in their hands, and the files too, does not hide a deletion behind an archive."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.keel.ledger.archives import FEBRUARY, JANUARY, MARCH, RECORDS, archived, files, three_months
from tests.unit.keel.ledger.chain import Chain

from keel.ledger import Record, append, archive_store, store
from keel.ledger.archive_file import check, prove
from keel.ledger.canonical import entry
from keel.ledger.checkpoint import BadFile
from keel.ledger.keys import PublicKey, Signer
from keel.ledger.manifest import Content, Manifest, Positions, positions
from keel.ledger.merkle import Growing, leaf_hash, root

Found = list[tuple[str, int | None, int | None]]
DELETED = 3
"""A record of January."""


@pytest.fixture
async def ready(empty: Chain, tmp_path: Path) -> Chain:
    """Three months; January archived and dropped, which is sealed."""
    await three_months(empty)
    await archived(empty, tmp_path / "archives", drop=True)
    await empty.seal()
    assert (await empty.verify()).problems == []
    return empty


def kinds(report: Any) -> set[str]:
    return {one.kind for one in report.problems}


COPY = """
    INSERT INTO ledger_archives
    SELECT '2026-02-01', at, positions, count, root, file_sha256, record, key, signature FROM ledger_archives
"""
ATTACKS: dict[str, tuple[tuple[str, ...], set[str]]] = {
    "change a row of another month": (("UPDATE ledger SET outcome = 'x' WHERE seq = 14",), {"changed"}),
    "delete a row of another month": (("DELETE FROM ledger WHERE seq = 14",), {"missing"}),
    "drop a month that was not archived": (("DROP TABLE ledger_2026_02",), {"missing"}),
    "take a month out that was not archived": (("ALTER TABLE ledger DETACH PARTITION ledger_2026_02",), {"missing"}),
    "forge the leaf of an archived row": (
        ("UPDATE ledger_leaves SET leaf = sha256('x') WHERE seq = 3",), {"changed", "archive"},
    ),
    "delete the leaf of an archived row": (
        ("DELETE FROM ledger_leaves WHERE seq = 3",), {"leaf", "changed", "archive"},
    ),
    "swap the leaves of two archived rows": (
        (
            "UPDATE ledger_leaves SET position = -1 WHERE seq = 3",
            "UPDATE ledger_leaves SET position = 3 WHERE seq = 4",
            "UPDATE ledger_leaves SET position = 4 WHERE seq = 3",
        ),
        {"reordered", "archive"},
    ),
    "delete the manifest": (("DELETE FROM ledger_archives",), {"missing"}),
    "stretch the manifest over what was deleted": (
        ("DELETE FROM ledger WHERE seq = 14", "UPDATE ledger_archives SET positions = '1-14', count = 14"),
        {"archive", "missing"},
    ),
    "change the manifest's root": (("UPDATE ledger_archives SET root = sha256('x')",), {"archive", "missing"}),
    "change the manifest's file": (("UPDATE ledger_archives SET file_sha256 = sha256('x')",), {"archive", "missing"}),
    "change the manifest's month": (("UPDATE ledger_archives SET month = '2026-02-01'",), {"archive", "missing"}),
    "change the manifest's instant": (("UPDATE ledger_archives SET at = now()",), {"archive", "missing"}),
    "change the manifest's record": (("UPDATE ledger_archives SET record = 1",), {"archive", "missing"}),
    "change the manifest's signature": (
        ("UPDATE ledger_archives SET signature = sha512('x')",), {"archive", "missing"},
    ),
    "write nonsense into the manifest": (("UPDATE ledger_archives SET positions = 'all'",), {"archive", "missing"}),
    "copy the manifest to another month": (
        (
            COPY,
            "DELETE FROM ledger WHERE seq = 14",
        ),
        {"archive", "missing"},
    ),
    "change the record of the archiving": (
        ("UPDATE ledger SET outcome = 'x' WHERE action = 'ledger.archived'",), {"changed"},
    ),
    "delete the record of the archiving": (("DELETE FROM ledger WHERE action = 'ledger.archived'",), {"missing"}),
}  # fmt: skip


@pytest.mark.parametrize("name", ATTACKS)
async def test_what_was_changed_past_the_triggers_is_found(ready: Chain, name: str) -> None:
    statements, said = ATTACKS[name]
    ready.attack(*statements)
    report = await ready.verify()
    assert said <= kinds(report), report.problems


def forged(made: Chain, signer: Signer, month: str, where: Positions, leaves: list[bytes], record: int) -> Manifest:
    """A manifest with every hash right, signed with a key."""
    what = Content(month, str(where), len(where), root(leaves))
    one = Manifest(what, made.clock.now(), b"f" * 32, record, signer.key.id)
    return replace(one, signature=signer.sign(one.body))


async def hide(made: Chain, signer: Signer, month: str, *, on_record: bool) -> None:
    """Delete a month, and write that it was archived."""
    async with made.db.look() as tx:
        span = await archive_store.extent(tx, month)
        assert span.first is not None
        assert span.last is not None
        there = await archive_store.rows(tx, month, span.first, span.last)
        leaves = {position: leaf for position, _, leaf in await store.leaves(tx, span.first, span.last)}
    where, tree = Positions(), []
    for position in sorted(there):
        where.add(position)
        tree.append(leaves[position])
    if on_record:
        async with made.db.tx() as tx:
            one = forged(made, signer, month, where, tree, 0)
            await append(tx, Record(one.at, None, "cli", "ledger.archived", None, None, "ok", 0.0, one.facts))
            record = await archive_store.last_seq(tx)
    else:
        record = 1
    one = forged(made, signer, month, where, tree, record)
    made.attack(
        f"DROP TABLE ledger_{month.replace('-', '_')}",
        "INSERT INTO ledger_archives VALUES (%(month)s, %(at)s, %(positions)s, %(count)s, %(root)s, %(file)s, "
        "%(record)s, %(key)s, %(signature)s)",
        month=f"{month}-01", at=one.at, positions=one.content.positions, count=one.content.count,
        root=one.content.root, file=one.file_sha256, record=record, key=one.key, signature=one.signature,
    )  # fmt: skip


async def test_a_key_that_was_replaced_hides_nothing_even_with_a_record(ready: Chain) -> None:
    """Whoever stole the old key may also insert records, which the system itself seals."""
    old = ready.keys.signer(ready.clock.now())
    ready.keys.rotate(ready.clock.now())
    await ready.add(1)
    await ready.seal()
    await hide(ready, old, FEBRUARY, on_record=True)
    assert "key" in kinds(await ready.verify())
    await ready.seal()
    assert "key" in kinds(await ready.verify())


async def test_the_key_of_now_hides_nothing_without_a_record(ready: Chain) -> None:
    await hide(ready, ready.keys.signer(ready.clock.now()), FEBRUARY, on_record=False)
    assert {"archive", "missing"} <= kinds(await ready.verify())


async def test_a_record_that_was_archived_itself_vouches_for_no_other_archive(ready: Chain, tmp_path: Path) -> None:
    """The row is gone, and its leaf still says to the letter which archive it told of."""
    ready.clock.set(datetime(2026, 4, 1, tzinfo=UTC))
    await archived(ready, tmp_path / "archives", MARCH, drop=True)
    await ready.seal()
    signer = ready.keys.signer(ready.clock.now())
    await hide(ready, signer, FEBRUARY, on_record=False)
    for record in range(1, sum(RECORDS.values()) + 2):
        ready.attack("UPDATE ledger_archives SET record = %(record)s WHERE month = '2026-02-01'", record=record)
        ready.attack(
            "UPDATE ledger_archives SET signature = %(signature)s WHERE month = '2026-02-01'",
            signature=signer.sign((await manifest(ready, FEBRUARY)).body),
        )
        assert {"archive", "missing"} <= kinds(await ready.verify())


async def manifest(made: Chain, month: str) -> Manifest:
    async with made.db.look() as tx:
        (found,) = [one for one in await archive_store.manifests(tx) if one.content.month == month]
    return found


async def test_the_whole_of_a_host_hides_nothing_from_a_root_kept_elsewhere_and_the_file(
    ready: Chain, tmp_path: Path
) -> None:
    kept = (await ready.all_checkpoints())[0].checkpoint
    assert (await ready.verify(kept={1: kept.root})).problems == []
    assert kinds(await ready.verify(kept={1: bytes(32)})) == {"chain"}
    assert kinds(await ready.verify(kept={99: kept.root})) == {"cut"}
    # With the key of now and a record, a deletion passes for an archive that nobody has shown: it is counted as such.
    await hide(ready, ready.keys.signer(ready.clock.now()), FEBRUARY, on_record=True)
    report = await ready.verify(archives=files(tmp_path / "archives", [JANUARY]))
    assert (report.problems, report.unseen) == ([], RECORDS[FEBRUARY])


# The file


def rewritten(path: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    change(lines)
    path.write_bytes(gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode()))


def holds(path: Path, trusted: Mapping[str, PublicKey] | None) -> bool:
    try:
        return not check(path, trusted).problems
    except BadFile:
        return False


def _forge_record(lines: list[dict[str, Any]]) -> None:
    lines[4]["record"] = lines[4]["record"].replace('"ok"', '"no"')


def _hide_record(lines: list[dict[str, Any]]) -> None:
    record = lines[4].pop("record")
    lines[4]["leaf"] = leaf_hash(record.encode()).hex()


def _hide_record_and_say_so(lines: list[dict[str, Any]]) -> None:
    _hide_record(lines)
    lines[-1]["end"]["count"] -= 1
    lines[-1]["end"]["positions"] = "1-2,4-12"


def _take_line(lines: list[dict[str, Any]]) -> None:
    del lines[4]


def _take_checkpoint(lines: list[dict[str, Any]]) -> None:
    begin = next(n for n, line in enumerate(lines) if line.get("checkpoint", {}).get("number") == 2)
    del lines[begin : begin + 6]


def _swap_records(lines: list[dict[str, Any]]) -> None:
    lines[3]["record"], lines[4]["record"] = lines[4]["record"], lines[3]["record"]


def _forge_root(lines: list[dict[str, Any]]) -> None:
    lines[1]["checkpoint"]["root"] = "00" * 32


def _other_month(lines: list[dict[str, Any]]) -> None:
    lines[0]["month"] = "2026-02"


def _stretched(lines: list[dict[str, Any]]) -> None:
    lines[-1]["end"]["positions"] = "1-9999999999999999999"


SPOILED = (
    _forge_record, _hide_record, _hide_record_and_say_so, _take_line, _take_checkpoint, _swap_records, _forge_root,
    _other_month, _stretched,
)  # fmt: skip


@pytest.mark.parametrize("spoil", SPOILED)
async def test_a_file_that_was_written_anew_does_not_hold(
    ready: Chain, tmp_path: Path, spoil: Callable[[list[dict[str, Any]]], None]
) -> None:
    path = tmp_path / "archives" / "ledger-2026-01.jsonl.gz"
    rewritten(path, spoil)
    assert not holds(path, ready.keys.public())
    report = await ready.verify(archives=[path])
    assert kinds(report) == {"archive"}
    assert report.unseen == RECORDS[JANUARY]


async def test_the_file_of_another_month_or_none_is_not_the_archive(ready: Chain, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    await archived(ready, elsewhere, FEBRUARY)
    february, january = elsewhere / "ledger-2026-02.jsonl.gz", tmp_path / "archives" / "ledger-2026-01.jsonl.gz"
    ready.attack("DELETE FROM ledger_archives WHERE month = '2026-02-01'")
    assert "archive" in kinds(await ready.verify(archives=[february, january]))
    assert "archive" in kinds(await ready.verify(archives=[tmp_path / "nothing"]))
    # The same file twice counts once.
    report = await ready.verify(archives=[january, january])
    assert report.unseen == 0
    assert "archive" in kinds(report)


@given(st.data())
def test_no_file_is_a_surprise(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Whatever is in it: it holds, or it is told that it does not."""
    json_like = st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=5,
    )
    hexes = st.sampled_from(["00" * 32, "", "zz", "11" * 64, None, 5])
    point = st.fixed_dictionaries(
        {
            "number": st.integers(), "at": st.sampled_from(["2026-01-01T00:00:00Z", "x", "2026-01-01"]),
            "first": st.integers(), "last": st.integers(), "root": hexes, "previous": hexes, "settled": st.integers(),
            "key": st.sampled_from(["a", "\ud800", 7]), "signature": hexes,
        }
    )  # fmt: skip
    line = (
        json_like
        | st.fixed_dictionaries({"checkpoint": point | json_like})
        | st.fixed_dictionaries({"position": st.integers() | json_like, "leaf": hexes})
        | st.fixed_dictionaries({"position": st.integers(), "record": st.sampled_from(["{}", "x", "\ud800", 5])})
        | st.fixed_dictionaries({"end": json_like, "key": json_like, "signature": hexes})
    )
    head = st.fixed_dictionaries(
        {
            "type": st.just("keel.archive"), "v": st.just(1), "month": st.sampled_from(["2026-01", "\ud800", 5]),
            "keys": st.lists(json_like, max_size=2),
        }
    )  # fmt: skip
    lines = [data.draw(head), *data.draw(st.lists(line, max_size=5))]
    path = tmp_path_factory.getbasetemp() / "any.jsonl.gz"
    path.write_bytes(gzip.compress("".join(json.dumps(one) + "\n" for one in lines).encode(), 1))
    assert not holds(path, None)
    assert not holds(path, {})
    with suppress(BadFile):
        prove(path, 1)


@given(st.binary(max_size=200))
def test_bytes_that_are_no_archive_are_told(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "bytes.gz"
    for written in (raw, gzip.compress(raw, 1), gzip.compress(raw, 1)[:-5]):
        path.write_bytes(written)
        with pytest.raises(BadFile):
            check(path)


# What is pure


@given(st.lists(st.binary(min_size=32, max_size=32), max_size=40))
def test_a_growing_tree_has_the_root_of_the_whole_one(leaves: list[bytes]) -> None:
    tree = Growing()
    for size, leaf in enumerate(leaves, 1):
        tree.add(leaf)
        assert tree.root() == root(leaves[:size])
    assert Growing().root() == root([])


@given(st.sets(st.integers(1, 60), min_size=1))
def test_positions_are_what_was_added_and_read_as_they_are_written(some: set[int]) -> None:
    made = Positions()
    for one in sorted(some):
        made.add(one)
    again = positions(str(made))
    assert {one for one in range(70) if one in again} == some
    assert (len(again), str(again)) == (len(some), str(made))


@pytest.mark.parametrize(
    "text", ["", "1", "1-", "-1", "2-1", "1-2,3-4", "1-2,2-3", "5-6,1-2", "1-2,", "٣-٤", "1-2 ", "+1-2"]
)
def test_positions_that_are_not_written_in_their_one_way_are_none(text: str) -> None:
    with pytest.raises(BadFile):
        positions(text)


async def test_a_record_of_an_archiving_is_foreseen_to_the_letter(ready: Chain) -> None:
    """Its leaf is compared with it when its row is archived itself, so it must be what Postgres stored."""
    one = await manifest(ready, JANUARY)
    async with ready.db.look() as tx:
        (row,) = await store.rows_of(tx, [one.record])
    assert entry(row) == entry(one.row)
