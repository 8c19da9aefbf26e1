"""Every command that the README and the pages show is typed as it stands there, or it is said why not."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator

import httpx2
import pytest
from tests.behaviour.manifest import exists
from tests.behaviour.pages import plays
from tests.behaviour.pages.commands import Command, commands, missing, pages
from tests.behaviour.pages.places import PLACES, World

ALL = [command for page in pages() for command in commands(page)]


def group_of(command: Command) -> tuple[str, str] | None:
    """The page and the place where a command is played; None where it is played elsewhere or not at all."""
    where = (command.page, command.heading)
    if where in plays.ELSEWHERE or (command.page, command.bare) in plays.NOT_RUN:
        return None
    return command.page, plays.HOME.get(where, "rift")


GROUPS = list(dict.fromkeys(group for command in ALL if (group := group_of(command))))


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    made = World()
    try:
        yield made
    finally:
        made.close()


@pytest.mark.timeout(280)
@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("bash")), reason="the pages are for a shell with curl")
@pytest.mark.parametrize(("page", "place"), GROUPS, ids=lambda value: value.removeprefix("docs/").removesuffix(".md"))
def test_what_a_page_shows_is_what_happens(world: World, page: str, place: str) -> None:
    times: dict[str, int] = {}
    with PLACES[place](world) as scene:
        for command in ALL:
            if group_of(command) != (page, place):
                continue
            times[command.bare] = times.get(command.bare, 0) + 1
            if before := plays.BEFORE.get((page, command.bare, times[command.bare])):
                status, said = scene.shell.run(before)
                assert status == 0, (before, said)
            status, said = scene.play(command)
            where = f"{page}:{command.line} {command.bare}"
            assert status == plays.STATUS.get((page, command.bare), 0), f"{where}\n{said}"
            if pattern := plays.SAID.get((page, command.bare)):
                assert re.search(pattern, said), f"{where}\n{said}"
            elif command.said is not None:
                assert missing(scene.here(command.said), said) == [], f"{where}\n{said}"


def test_the_first_start_says_what_the_readme_shows(world: World) -> None:
    (shown,) = (command.said for command in ALL if command.text == "script/up" and command.said)
    said = "\n".join([world.rift.errors(), *world.rift.said]).replace(f" --data {world.rift.data}", "")
    said = said.replace("`rift ", "`.venv/bin/rift ")  # where the program is on the PATH, its name is enough
    lost = missing(shown.replace("7433", str(world.rift.port)), said)
    assert lost == [], said


def test_whoever_the_server_runs_as_serves_the_pages(world: World) -> None:
    for path in ("/docs", "/docs/tasks", "/docs/search?q=takeover"):
        answer = httpx2.get(f"http://127.0.0.1:{world.rift.port}{path}", timeout=30)
        assert (answer.status_code, "hand-over" in answer.text) == (200, True), path


def test_what_is_said_of_a_command_is_of_one_that_there_is() -> None:
    there = {(command.page, command.bare) for command in ALL}
    parts = {(command.page, command.heading) for command in ALL}
    assert set(plays.NOT_RUN) - there == set()
    assert set(plays.STATUS) - there == set()
    assert set(plays.SAID) - there == set()
    assert {(page, text) for page, text, _ in plays.BEFORE} - there == set()
    assert set(plays.HOME) - parts == set()
    assert set(plays.ELSEWHERE) - parts == set()
    assert all(len(why) > 10 for why in plays.NOT_RUN.values())
    assert all(exists(name) for name in plays.ELSEWHERE.values())


def test_every_command_of_the_pages_is_found() -> None:
    assert len(ALL) > 90
    assert {page for page, _ in GROUPS} >= {"README.md", "docs/operations.md", "docs/audit.md", "docs/onbe-admin.md"}
