"""The first start, interrupted at each of its steps: the next one goes on, and its token is shown."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.people.house import house

from keel.db import Database, Tx
from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase
from rift.cli import sample
from rift.cli.place import Place
from rift.deps import Deps
from rift.drivers.forge.local import LocalForge
from rift.mail import actions as mail
from rift.mail.model import Link
from rift.people import actions as people
from rift.repos import actions as repos


class Cut(BaseException):
    """The process ends here."""


class CutDatabase(Database):
    """Ends before or after its nth commit."""

    def __init__(self, inner: Database, n: int, after: bool) -> None:
        self._inner, self.left, self._after = inner, n, after
        self.url = inner.url

    @asynccontextmanager
    async def tx(self, whose: str | None = None, *, few_trips: bool = False) -> AsyncIterator[Tx]:
        self.left -= 1
        async with self._inner.tx(whose, few_trips=few_trips) as tx:
            yield tx
            if self.left == 0 and not self._after:
                raise Cut
        if self.left == 0:
            raise Cut


@pytest.fixture
async def deps(database: FreshDatabase, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Deps]:
    """A system that has never been started."""
    async with house(database, tmp_path, clock, LocalForge()) as made:
        yield replace(made, data=tmp_path)


async def whole(deps: Deps, start: sample.Start) -> None:
    """It is what an uninterrupted first start makes, and its token is one that works; no other does."""
    assert (start.email, start.sample) == (sample.EMAIL, True)
    assert start.secret is not None
    assert await people.authenticate(deps, start.secret)
    tokens = await people.list_tokens(deps, sample.EMAIL)
    assert isinstance(tokens, list)
    assert len([token for token in tokens if token.revoked_at is None]) == 1
    assert [user.email for user in await people.list_users(deps)] == [sample.EMAIL]
    (view,) = await repos.list_repos(deps)
    assert (view.repo.full, [watch.ref for watch in view.watches]) == (sample.REPO, ["main"])


@pytest.mark.parametrize("after", [False, True])
async def test_a_first_start_that_was_cut_at_any_commit_is_finished_by_the_next(deps: Deps, after: bool) -> None:
    """Each start is cut one commit later than the one before, until one comes through: all on one system."""
    n = 1
    while True:
        cut = replace(deps, db=CutDatabase(deps.db, n, after))
        with contextlib.suppress(Cut):
            start = await sample.set_up(cut)
            break
        n += 1
    assert n > 4
    await whole(deps, start)
    again = await sample.set_up(deps)  # not shown yet: its secret may be lost
    await whole(deps, again)
    await sample.OwnGround(deps.data).shown()
    assert await sample.set_up(deps) == sample.Start(sample.EMAIL, sample=True)


@pytest.mark.parametrize("at", ["init", "add", "commit"])
async def test_a_first_start_that_was_cut_while_it_made_its_repository_makes_it_anew(
    deps: Deps, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real: Callable[..., Any] = subprocess.run

    def cut(words: list[str], **options: Any) -> Any:
        if words[1] == at:
            raise Cut
        return real(words, **options)

    monkeypatch.setattr(subprocess, "run", cut)
    with pytest.raises(Cut):
        await sample.set_up(deps)
    monkeypatch.undo()
    await whole(deps, await sample.set_up(deps))


async def test_the_first_start_shows_a_link_that_signs_in_once_and_later_ones_how_to_get_one(
    deps: Deps, tmp_path: Path
) -> None:
    start = await sample.set_up(deps)
    place = Place(tmp_path, deps.settings, ("rift", ""))
    link = await sample.sign_in_link(deps, start)
    assert link is not None
    told = sample.welcome("http://127.0.0.1:7433", place, start, link)
    assert f"  http://127.0.0.1:7433/sign-in/link/{link}" in told
    assert len(told) < 24
    found = await mail.look_at(deps, link)
    assert isinstance(found, Link)
    assert found.email == sample.EMAIL
    await sample.OwnGround(deps.data).shown()
    again = await sample.set_up(deps)
    assert await sample.sign_in_link(deps, again) is None
    told = sample.welcome("http://127.0.0.1:7433", place, again, None)
    assert any(line.endswith(f"user link {sample.EMAIL}") for line in told)
    assert "/sign-in/link/" not in "\n".join(told)
    assert len(told) < 24
