"""Leaves a failing directory alone for a while: `rules` says when."""

from __future__ import annotations

from datetime import datetime

import structlog

from keel.clock import Clock
from onbe.drivers.sponsors.protocol import Answer, CannotAnswer, SponsorDirectory, Unreachable
from onbe.drivers.sponsors.rules import Circuit, admit, answered, dropped, failed

log = structlog.get_logger("onbe.sponsors")


class CircuitBreaker:
    """A directory that asks another one, but not while that one fails. What it says then is Unreachable, at once.

    Each question that gets no answer is logged, with why: who is refused hears no more than that it was so.
    """

    def __init__(self, directory: SponsorDirectory, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        self._circuit = Circuit()

    @property
    def open(self) -> bool:
        """Whether the directory is left alone, or has not answered a probe yet."""
        return self._circuit.until is not None

    async def ask(self, sponsor: str, no_older_than: datetime) -> Answer:
        self._circuit, may = admit(self._circuit, self._clock.monotonic())
        if not may:
            raise Unreachable("the directory failed several times in a row, and is left alone for some seconds")
        life = self._circuit.life
        try:
            answer = await self._directory.ask(sponsor, no_older_than)
        except Unreachable as error:
            person = None if error.anyone else sponsor
            self._circuit = failed(self._circuit, life, self._clock.monotonic(), person)
            log.warning("sponsors.unreachable", trouble=str(error), left_alone=self.open)
            raise
        except CannotAnswer as error:
            self._circuit = answered(self._circuit, life)
            log.warning("sponsors.odd", trouble=str(error))
            raise
        except BaseException:
            self._circuit = dropped(self._circuit, life)
            raise
        self._circuit = answered(self._circuit, life)
        return answer
