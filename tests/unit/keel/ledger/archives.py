"""A ledger of three months to archive, two of which are over, with checkpoints that span midnight."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.unit.keel.ledger.chain import Chain

from keel.db import Database
from keel.ledger import have_months
from keel.ledger.archive import Done, archive
from keel.ledger.archive_file import name_of

JANUARY, FEBRUARY, MARCH = "2026-01", "2026-02", "2026-03"
RECORDS = {JANUARY: 12, FEBRUARY: 10, MARCH: 4}
"""In checkpoints of five: the third one has records of January and February, the fifth of February and March."""


async def three_months(made: Chain) -> None:
    """Fill an empty ledger; what was written around each midnight stands out of order in the chain."""
    for month, count in RECORDS.items():
        begin = datetime(2026, int(month[-2:]), 1, tzinfo=UTC)
        made.clock.set(begin)
        async with made.db.tx() as tx:
            await have_months(tx, begin)
        await made.add(count - 1)
        if month != MARCH:  # one record of the last microsecond is written when the next month has begun
            made.clock.set(begin + timedelta(days=32))
            made.clock.set(made.clock.now().replace(day=1))
            await made.add(1)
            made.attack(
                "UPDATE ledger SET at = date_trunc('month', at) - interval '1 microsecond' "
                "WHERE seq = (SELECT max(seq) FROM ledger)"
            )
        else:
            await made.add(1)
    made.clock.set(datetime(2026, 3, 2, tzinfo=UTC))
    assert await made.seal(5) == sum(RECORDS.values())
    assert (await made.verify()).problems == []


@asynccontextmanager
async def owner_of(made: Chain) -> AsyncIterator[Database]:
    """The owner's connection."""
    async with Database(made.owner) as db:
        yield db


async def archived(made: Chain, folder: Path, month: str = JANUARY, **more: Any) -> Done:
    """Archive a month."""
    async with owner_of(made) as db:
        return await archive(db, made.keys, made.clock, month, folder, **more)


def files(folder: Path, months: Sequence[str]) -> list[Path]:
    return [folder / name_of(month) for month in months]
