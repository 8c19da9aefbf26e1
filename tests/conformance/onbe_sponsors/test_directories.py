"""What every directory of people does, whichever it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from tests.conformance.onbe_sponsors.kit import ADA, MAKINGS, REAL, Kit

from keel.db import Database
from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase
from onbe.drivers.sponsors.protocol import Answer, CannotAnswer

ODD = (
    "", ".", "..", "../x", "x/../" + ADA, "../../clients", "a/b", "a\\b", "%2e%2e", "a?b=c", "a#b", "a;b", "a b", "*",
    '" or userName pr or userName eq "', 'x" or active eq true', "\x00", "a\r\nHost: x", "\ud800", "é", "𝔸", "a" * 513,
    "\u202e", ADA.upper() + ".", "null", "true", "{}",
)  # fmt: skip
NAMES = ("a/b", "../x", "x/../y", "a%2Fb", "é", "𝔸", 'q"uote', "a b", "a?b#c", "a&b=c", "a+b", "x" * 512)


@pytest.fixture(params=list(MAKINGS))
async def kit(request: pytest.FixtureRequest, clock: FakeClock) -> AsyncIterator[Kit]:
    async with MAKINGS[request.param](clock) as made:
        yield made


async def test_a_person_is_active_or_disabled_as_the_directory_has_them(kit: Kit, clock: FakeClock) -> None:
    for active in (True, False, True):
        kit.put(ADA, active)
        answer = await kit.directory.ask(ADA, clock.now())
        assert answer == Answer("active" if active else "disabled", clock.now())
        clock.advance(1)


async def test_whom_nobody_has_put_there_is_not_found(kit: Kit, clock: FakeClock) -> None:
    assert (await kit.directory.ask("nobody@example.test", clock.now())).state == "not_found"


@pytest.mark.parametrize("kit", REAL, indirect=True)
async def test_a_person_who_was_removed_is_not_found(kit: Kit, clock: FakeClock) -> None:
    kit.put(ADA, True)
    assert (await kit.directory.ask(ADA, clock.now())).state == "active"
    clock.advance(1)
    kit.put(ADA, None)
    assert (await kit.directory.ask(ADA, clock.now())).state == "not_found"


async def test_an_answer_is_as_old_as_its_question(kit: Kit, clock: FakeClock) -> None:
    kit.put(ADA, True)
    asked = clock.advance(7)
    assert (await kit.directory.ask(ADA, clock.now())).at == asked


@pytest.mark.parametrize("kit", REAL, indirect=True)
async def test_a_directory_that_fails_never_says_yes_and_works_again_when_it_is_mended(
    kit: Kit, clock: FakeClock
) -> None:
    kit.put(ADA, True)
    kit.break_it(True)
    for _ in range(4):
        with pytest.raises(CannotAnswer):
            await kit.directory.ask(ADA, clock.now())
        clock.advance(1)
    kit.break_it(False)
    assert (await kit.directory.ask(ADA, clock.now())).state == "active"


async def test_an_odd_name_is_never_a_yes_and_never_another_error(kit: Kit, clock: FakeClock) -> None:
    kit.put(ADA, True)
    kit.put("x", True)
    for odd in ODD:
        with suppress(CannotAnswer):
            assert (await kit.directory.ask(odd, clock.now())).state == "not_found", repr(odd)
    assert (await kit.directory.ask(ADA, clock.now())).state == "active", "and nobody else suffers from it"


@pytest.mark.parametrize("kit", REAL, indirect=True)
async def test_a_person_may_have_an_odd_name(kit: Kit, clock: FakeClock) -> None:
    for name in NAMES:
        kit.put(name, True)
        assert (await kit.directory.ask(name, clock.now())).state == "active", name


async def test_many_callers_at_once_get_the_same_answer(kit: Kit, clock: FakeClock) -> None:
    kit.put(ADA, True)
    answers = await asyncio.gather(*(kit.directory.ask(ADA, clock.now()) for _ in range(50)))
    assert {answer.state for answer in answers} == {"active"}


async def test_nothing_is_asked_inside_a_transaction(kit: Kit, clock: FakeClock, onbe_database: FreshDatabase) -> None:
    kit.put(ADA, True)
    async with Database(onbe_database.runtime) as db, db.tx():
        with pytest.raises(RuntimeError, match="inside a database transaction"):
            await kit.directory.ask(ADA, clock.now())
