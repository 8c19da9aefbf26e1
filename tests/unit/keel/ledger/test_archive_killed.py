"""A kill of the program that archives: no code of ours runs after it, and the next run finishes the work."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.keel.ledger.archives import JANUARY, RECORDS, archived, files, three_months
from tests.unit.keel.ledger.chain import Chain

PROGRAM = """
import asyncio, os, signal, sys
from datetime import UTC, datetime
from pathlib import Path
from keel.db import Database
from keel.ledger import archive_file
from keel.ledger.archive import archive
from keel.ledger.keys import KeyFolder
from keel.testing import FakeClock

url, keys, folder, at = sys.argv[1:]

def die(step):
    if step == at:
        os.kill(os.getpid(), signal.SIGKILL)

if at == "writing":
    archive_file.Writer.end = lambda self, signer: die("writing")

async def main():
    async with Database(url) as db:
        clock = FakeClock(datetime(2026, 3, 2, tzinfo=UTC))
        await archive(db, KeyFolder(Path(keys)), clock, "2026-01", Path(folder), drop=True, tell=die)

asyncio.run(main())
"""


@pytest.mark.parametrize("at", ["writing", "written", "recording", "recorded", "dropped"])
async def test_after_a_kill_at_any_step_nothing_is_lost_and_the_next_run_finishes(
    empty: Chain, tmp_path: Path, at: str
) -> None:
    await three_months(empty)
    folder = tmp_path / "archives"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, empty.owner, str(empty.keys.folder), str(folder), at],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert (await empty.verify()).problems == []
    assert (await archived(empty, folder, drop=True)).dropped
    report = await empty.verify(archives=files(folder, [JANUARY]))
    assert (report.problems, report.archived, report.unseen) == ([], RECORDS[JANUARY], 0)
    assert [one.name for one in folder.iterdir()] == ["ledger-2026-01.jsonl.gz"]
