"""What is done beside a block, again and again."""

from __future__ import annotations

from keel.testing import eventually
from keel.ticking import Tick, beside


async def test_a_failure_ends_neither_the_block_nor_what_is_done_beside_it() -> None:
    times: list[int] = []

    async def fail(first: int) -> None:
        times.append(first)
        raise ConnectionError("the database is away for a moment")

    async with beside(Tick("hold", 0.001, fail), 7):
        assert not times  # whoever begins holds it already
        await eventually(lambda: len(times) > 2)
    assert set(times) == {7}
