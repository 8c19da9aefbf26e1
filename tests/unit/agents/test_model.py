"""Who speaks for a box, and what is worth telling it."""

from __future__ import annotations

import pytest

from keel.ids import digest
from rift.agents.model import Agent
from rift.commands.model import Told, Work


def test_an_agents_token_is_compared_by_its_digest() -> None:
    assert Agent("b-1", 1, "the token").token_sha256 == digest("the token")


@pytest.mark.parametrize(
    ("work", "power", "news"),
    [
        (Work((), (), (), (3, False)), (3, False), False),
        (Work((), (), (), (3, True)), (3, True), False),
        (Work((), (), (), (3, False)), (3, True), True),
        (Work((), (), (), (4, False)), (3, False), True),
        (Work((), (), (), (3, False)), None, True),
        (Work(({"n": 1},), (), (), (3, False)), (3, False), True),
        (Work((), (1,), (), (3, False)), (3, False), True),
        (Work((), (), ({"id": "x"},), (3, False)), (3, False), True),
    ],
)
def test_an_agent_is_told_at_once_of_work_and_of_another_power(
    work: Work, power: tuple[int, bool] | None, news: bool
) -> None:
    assert work.news(power) is news


def test_an_agent_that_says_nothing_knows_nothing() -> None:
    assert Told() == Told(frozenset(), frozenset(), frozenset())
