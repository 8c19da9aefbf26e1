"""A directory in memory: people are as a test says they are."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from keel.clock import Clock
from keel.db import forbid_in_transaction
from onbe.drivers.sponsors.protocol import Answer, CannotAnswer, State


class FakeSponsors:
    """`states` says who is how; who is not in it is not found. `trouble`, once set, is raised instead of any answer."""

    def __init__(self, clock: Clock, states: Mapping[str, State] | None = None) -> None:
        self._clock = clock
        self.states: dict[str, State] = dict(states or {})
        self.trouble: CannotAnswer | None = None
        self.asked: list[tuple[str, datetime]] = []
        """Every question: the person, and from when on an answer would have done."""

    async def ask(self, sponsor: str, no_older_than: datetime) -> Answer:
        forbid_in_transaction("the directory of people")
        self.asked.append((sponsor, no_older_than))
        at = self._clock.now()
        if self.trouble is not None:
            raise self.trouble
        return Answer(self.states.get(sponsor, "not_found"), at)
