"""`onbe audit …` as it is typed: what was recorded is listed, proved, checked, archived, each with its exit code."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from typer.testing import CliRunner, Result

from keel.clock import SystemClock
from keel.db import Database
from keel.ledger.keys import KeyFolder
from keel.ledger.seal import seal
from keel.postgres import SUPERUSER
from keel.testing.plugin import Cluster, FreshDatabase
from onbe.cli import app
from onbe.migrations import in_schema

FILL = """
    INSERT INTO ledger (at, actor, via, action, task, outcome, duration_us, arguments)
    SELECT %(at)s::timestamptz + n * interval '1 s', 'ada', 'planner', 'token.refresh', 'task_1',
           CASE WHEN n = 2 THEN 'task_revoked' ELSE 'ok' END, 1000, '{"scope": "docs:read"}'
    FROM generate_series(1, %(count)s::int) n
"""


@dataclass(frozen=True)
class Terminal:
    """Where commands are typed."""

    data: Path
    owner: str
    superuser: str
    month: str
    """The month before last, in which six records were made."""

    def __call__(self, *words: str) -> Result:
        return CliRunner().invoke(app, ["audit", *words, *([] if words[0] == "check" else ["--data", str(self.data)])])

    def attack(self, statement: str) -> None:
        with psycopg.connect(self.superuser, autocommit=True) as connection:
            connection.execute("SET session_replication_role = replica")
            connection.execute(statement.encode())

    @property
    def table(self) -> str:
        return f"ledger_{self.month.replace('-', '_')}"


@pytest.fixture
def typed(
    onbe_database: FreshDatabase, onbe_cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Terminal:
    """A ledger of six records of the month before last and three of now, all sealed."""
    monkeypatch.setenv("Onbe__Database__Url", onbe_database.runtime)
    monkeypatch.setenv("Onbe__Database__OwnerUrl", onbe_database.owner)
    now = datetime.now(UTC)
    then = (now.replace(day=1) - timedelta(days=32)).replace(day=3)
    with psycopg.connect(onbe_database.owner, autocommit=True) as owner:
        owner.execute("SELECT ledger_month(%(at)s)", {"at": then})
        for at, count in ((then, 6), (now - timedelta(seconds=30), 3)):
            owner.execute(FILL.encode(), {"at": at, "count": count})

    async def sealed() -> None:
        async with Database(onbe_database.runtime) as db:
            assert await seal(db, KeyFolder(tmp_path / "audit"), SystemClock(), rows_most=4) == 9

    asyncio.run(sealed())
    superuser = in_schema(onbe_cluster.postgres.url(SUPERUSER, onbe_database.name))
    return Terminal(tmp_path, onbe_database.owner, superuser, f"{then:%Y-%m}")


def test_records_are_listed_and_shown_by_their_names(typed: Terminal) -> None:
    listed = typed("ls", "--sponsor", "ada", "--decision", "deny")
    assert listed.exit_code == 0, listed.output
    assert "task_revoked  ada (planner)  task_1" in listed.output
    page = json.loads(typed("ls", "--limit", "4", "--json").output)
    assert [one["seq"] for one in page["records"]] == [9, 8, 7, 6]
    rest = json.loads(typed("ls", "--limit", "8", "--cursor", page["next"], "--json").output)
    assert ([one["seq"] for one in rest["records"]], rest["next"]) == ([5, 4, 3, 2, 1], None)
    shown = json.loads(typed("show", "2").output)
    assert (shown["reason"], shown["seal"]["checkpoint"]) == ("task_revoked", 1)
    assert typed("show", "99").exit_code == 1


@pytest.mark.parametrize(
    "words",
    [
        ("ls", "--since", "yesterday"), ("ls", "--cursor", "AAAA"), ("ls", "--limit", "0"), ("verify", "--kept", "12"),
        ("verify", "--kept", "0:" + "ab" * 32), ("verify", "--kept", "x:" + "ab" * 32), ("verify", "--key", "ab"),
        ("show", "0"), ("verify", "--nothing"),
    ],
)  # fmt: skip
def test_what_is_typed_wrongly_is_told_with_2(typed: Terminal, words: tuple[str, ...]) -> None:
    assert typed(*words).exit_code == 2


def test_a_check_ends_with_0_or_3_and_tells_what_to_keep(typed: Terminal) -> None:
    checked = typed("verify")
    assert checked.exit_code == 0, checked.output
    kept = checked.output.strip().rpartition(" ")[2]
    assert typed("verify", "--kept", kept).exit_code == 0
    report = json.loads(typed("verify", "--json").output)
    assert (report["intact"], report["records"]) == (True, 9)
    typed.attack("DELETE FROM ledger_checkpoints WHERE number = 3")
    typed.attack("DELETE FROM ledger_leaves WHERE position = 9")
    typed.attack("DELETE FROM ledger WHERE seq = 9")
    (typed.data / "audit" / "seen.json").unlink()
    assert typed("verify").exit_code == 0  # nothing here can tell that the end was cut off
    cut = typed("verify", "--kept", kept)
    assert (cut.exit_code, "cut off" in cut.output) == (3, True)


def test_what_cannot_be_read_is_told_with_1(typed: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (typed.data / "audit" / "keys").iterdir():
        path.write_text("nonsense")
    assert typed("verify").exit_code == 1
    monkeypatch.setenv("Onbe__Database__Url", "postgresql://nobody@127.0.0.1:1/none")
    monkeypatch.delenv("Onbe__Database__OwnerUrl")
    assert typed("verify").exit_code == 1


def test_a_record_is_proved_and_the_proof_checked_without_anything_else(typed: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "proof.json"
    file.write_text(typed("prove", "2").output)
    assert typed("check", str(file)).exit_code == 0
    key = json.loads(file.read_text())["public_key"]
    assert typed("check", str(file), "--key", key).exit_code == 0
    assert typed("check", str(file), "--key", "00" * 32).exit_code == 3
    file.write_text(file.read_text().replace("task_revoked", "ok"))
    broken = typed("check", str(file), "--json")
    assert (broken.exit_code, json.loads(broken.output)["holds"]) == (3, False)
    file.write_text("{}")
    assert typed("check", str(file)).exit_code == 1


def test_a_past_month_is_archived_dropped_and_still_proved(typed: Terminal, tmp_path: Path) -> None:
    told = typed("archive", "--dry-run")
    assert (told.exit_code, f"{typed.month}: 6 records" in told.output) == (0, True), told.output
    folder = tmp_path / "away"
    done = typed("archive", "--month", typed.month, "--to", str(folder), "--drop")
    assert done.exit_code == 0, done.output
    file = folder / f"ledger-{typed.month}.jsonl.gz"
    checked = typed("verify", "--archive", str(file))
    assert (checked.exit_code, "6 of them are archived, 0 in files" in checked.output) == (0, True), checked.output
    assert "6 in files that were not given" in typed("verify").output
    for words in (("show", "2"), ("prove", "2")):
        gone = typed(*words)
        assert (gone.exit_code, f"archive of {typed.month}" in gone.output) == (1, True), gone.output
    proof = tmp_path / "proof.json"
    proof.write_text(typed("prove", "2", "--archive", str(file)).output)
    assert typed("check", str(proof)).exit_code == 0
    again = typed("archive", "--month", typed.month, "--to", str(folder), "--drop")
    assert (again.exit_code, "nothing was to be done" in again.output) == (0, True)
    assert "No month is over" in typed("archive").output
    file.write_bytes(file.read_bytes()[:-1])
    assert typed("verify", "--archive", str(file)).exit_code == 3


def test_what_is_not_archived_is_told_with_1_and_stays(typed: Terminal) -> None:
    for month in ("2999-01", "never", f"{datetime.now(UTC):%Y-%m}"):
        assert typed("archive", "--month", month).exit_code == 1
    typed.attack("UPDATE ledger SET outcome = 'ok' WHERE seq = 2")
    refused = typed("archive")
    assert refused.exit_code == 1
    assert "not intact" in refused.output
    with psycopg.connect(typed.owner) as owner:
        assert owner.execute("SELECT count(*) FROM ledger WHERE seq <= 6").fetchone() == (6,)
