"""Answers about people, used again while they are young enough; one question at a time about one person."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime

from keel.clock import Clock
from keel.db import forbid_in_transaction
from onbe.drivers.sponsors.protocol import Answer, CannotAnswer, SponsorDirectory, Unreachable
from onbe.drivers.sponsors.rules import Moment, serves

MOST = 10_000
"""The most people whose last answer is kept; whose is the oldest goes first."""

Outcome = Answer | Exception


@dataclass(frozen=True, slots=True)
class Kept:
    """An answer, and when its question was sent."""

    asked: Moment
    answer: Answer


@dataclass(slots=True)
class Line:
    """Those who wait for a word about one person."""

    asked: Moment
    """When the question on its way was sent."""
    under_way: asyncio.Future[Outcome]
    next: asyncio.Future[Outcome] | None = None
    """The outcome of the question after it, for all who need a younger answer."""
    running: asyncio.Task[None] | None = None


class CachedDirectory:
    """A directory in front of another one.

    Callers who ask about one person at once share a question, if it was sent late enough for each of them. Who needs a
    younger one waits until it is back and shares the next: one is on its way for each person, however many ask.
    A caller who goes away leaves the question to the others. Failures are not kept: they go to those who shared the
    question. An odd answer ends what was known about its person; a directory that fails does not.
    """

    def __init__(self, directory: SponsorDirectory, clock: Clock, most: int = MOST) -> None:
        self._directory = directory
        self._clock = clock
        self._most = most
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._lines: dict[str, Line] = {}

    def __len__(self) -> int:
        """How many people's answers are kept."""
        return len(self._kept)

    async def ask(self, sponsor: str, no_older_than: datetime) -> Answer:
        forbid_in_transaction("the directory of people")
        kept, now = self._kept.get(sponsor), self._now()
        if kept is not None and serves(kept.asked, now, no_older_than):
            return kept.answer
        outcome = await asyncio.shield(self._in_line(sponsor, now, no_older_than))
        if isinstance(outcome, Answer):
            return outcome
        if isinstance(outcome, Unreachable):
            raise Unreachable(str(outcome), anyone=outcome.anyone) from outcome
        if isinstance(outcome, CannotAnswer):
            raise CannotAnswer(str(outcome)) from outcome
        raise outcome

    async def close(self) -> None:
        """End what is on its way."""
        running = [line.running for line in self._lines.values() if line.running is not None]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _now(self) -> Moment:
        return Moment(self._clock.now(), self._clock.monotonic())

    def _in_line(self, sponsor: str, now: Moment, no_older_than: datetime) -> asyncio.Future[Outcome]:
        loop = asyncio.get_running_loop()
        line = self._lines.get(sponsor)
        if line is None:
            line = self._lines[sponsor] = Line(now, loop.create_future())
            line.running = asyncio.create_task(self._answer(sponsor, line))
        elif not serves(line.asked, now, no_older_than):
            line.next = line.next or loop.create_future()
            return line.next
        return line.under_way

    async def _answer(self, sponsor: str, line: Line) -> None:
        """Ask for all who are in line, until nobody is."""
        try:
            while True:
                outcome = await self._question(sponsor, line.asked)
                line.under_way.set_result(outcome)
                if line.next is None:
                    break
                line.asked, line.under_way, line.next = self._now(), line.next, None
        finally:
            del self._lines[sponsor]
            for waited in (line.under_way, line.next):
                if waited is not None:
                    waited.cancel()

    async def _question(self, sponsor: str, asked: Moment) -> Outcome:
        try:
            found = await self._directory.ask(sponsor, asked.wall)
        except Unreachable as error:
            return error
        except Exception as error:  # noqa: BLE001 - it is raised again, for each who shared the question
            self._kept.pop(sponsor, None)
            return error
        answer = Answer(found.state, asked.wall)
        self._kept[sponsor] = Kept(asked, answer)
        self._kept.move_to_end(sponsor)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return answer
