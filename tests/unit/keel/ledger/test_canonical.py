"""The bytes of a row: one form for each row, the same from the database as from Python, and nothing left out."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import psycopg
from hypothesis import given
from hypothesis import strategies as st

from keel.db import Database
from keel.ledger import Record, append, store
from keel.ledger.canonical import FIELDS, Row, entry, instant, jcs
from keel.testing.plugin import FreshDatabase

AT = datetime(2026, 11, 30, 16, 20, 1, 230, tzinfo=UTC)
ROW = Row(7, AT, "user_ada", "mcp:Claude", "rift_bash", "task_1", "b-1", "ok", 5123, '{"a": 1.10}', b"\x01" * 32)

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
rows = st.builds(
    Row, st.integers(1, 2**53), st.datetimes(timezones=st.just(UTC)), st.none() | words, st.none() | words, words,
    st.none() | words, st.none() | words, words, st.integers(0, 2**53), words,
    st.none() | st.binary(min_size=32, max_size=32),
)  # fmt: skip


def test_a_row_has_one_form_that_is_told_in_the_documentation() -> None:
    assert entry(ROW).decode() == (
        '{"action":"rift_bash","actor":"user_ada","arguments":"{\\"a\\": 1.10}","at":"2026-11-30T16:20:01.000230Z",'
        '"box":"b-1","duration_us":5123,"outcome":"ok","seq":7,"task":"task_1","text_sha256":"' + "01" * 32 + '",'
        '"v":1,"via":"mcp:Claude"}'
    )


@given(rows)
def test_the_form_is_that_of_rfc_8785_and_holds_every_member(row: Row) -> None:
    told = json.loads(entry(row))
    assert tuple(told) == FIELDS == tuple(sorted(FIELDS))
    assert jcs(told) == entry(row)
    assert told["arguments"] == row.arguments
    assert (told["actor"], told["seq"], told["duration_us"]) == (row.actor, row.seq, row.duration_us)


@given(rows, rows)
def test_two_rows_that_differ_have_two_forms(one: Row, other: Row) -> None:
    assert (one == other) == (entry(one) == entry(other))


def test_an_instant_is_told_in_utc_to_the_microsecond_whatever_its_zone() -> None:
    elsewhere = AT.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert instant(elsewhere) == instant(AT) == "2026-11-30T16:20:01.000230Z"
    assert instant(AT.replace(microsecond=0)) == "2026-11-30T16:20:01.000000Z"


ODD = {
    "float": 0.1 + 0.2, "big": 10**30, "small": 1e-12, "nul": "\0", "quote": '"\\', "line": "a\nb\u2028\u0007",
    "é": "漢", "b": 1, "aa": {"z": [None, True, 1.5], "y": ""},
}  # fmt: skip


async def test_the_database_gives_back_the_very_bytes_whatever_the_session(database: FreshDatabase) -> None:
    async with Database(database.runtime) as db:
        async with db.tx() as tx:
            await append(tx, Record(AT, None, None, "x", None, None, "ok", 1.2345678, ODD))
        async with db.look() as tx:
            (first,) = await store.rows_of(tx, [1])
            await tx.run("SET timezone = 'Asia/Kolkata'")
            await tx.run("SET extra_float_digits = -15")
            await tx.run("SET datestyle = 'German'")
            await tx.run("SET bytea_output = 'escape'")
            (other,) = await store.rows_of(tx, [1])
    assert entry(first) == entry(other)
    assert json.loads(json.loads(entry(first))["arguments"])["float"] == 0.1 + 0.2
    assert first.duration_us == 1235


def test_every_column_of_the_table_is_in_the_form(database: FreshDatabase) -> None:
    with psycopg.connect(database.owner) as connection:
        columns = connection.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_name = 'ledger'"
        ).fetchall()
    assert {name for (name,) in columns} | {"v"} == set(FIELDS)
