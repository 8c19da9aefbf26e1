"""A sink in memory, that fails when it is told to."""

from __future__ import annotations

from collections.abc import Sequence

from keel.db import forbid_in_transaction
from onbe.drivers.sink.protocol import NotTaken


class FakeSink:
    """`taken` is every batch; while `failing`, none is taken; `losing` takes one and does not say so."""

    def __init__(self) -> None:
        self.taken: list[list[bytes]] = []
        self.failing = False
        self.losing = False

    async def deliver(self, lines: Sequence[bytes]) -> None:
        """Keep the lines. Raises NotTaken as told."""
        forbid_in_transaction("the sink")
        if self.failing:
            raise NotTaken("the sink was told to fail")
        self.taken.append(list(lines))
        if self.losing:
            raise NotTaken("the sink did not answer")
