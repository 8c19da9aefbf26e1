"""Whose the commits of a box are, as git in its jail takes it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.conformance.agent.boxes import Box

Make = Callable[..., Box]
ADA = {"name": "ada", "email": "7+ada@users.noreply.github.com"}
COMMIT = "git init -q . 2>/dev/null; git commit -q --allow-empty -m x && git log -1 --format='%an <%ae> %cn'"


@pytest.fixture
def box(make_box: Make) -> Box:
    box: Box = make_box()
    (box.path / "git").mkdir()
    box.config["mounts"].append({"kind": "ro", "source": str(box.path / "git"), "target": "/run/rift/git"})
    box.config["env"]["GIT_CONFIG_SYSTEM"] = "/run/rift/git/author"
    return box


def run(box: Box, command: str) -> str:
    return box.plane.output(box.plane.run(command)["n"]).decode()


def test_a_command_commits_as_the_person_and_the_repository_may_say_otherwise(box: Box) -> None:
    box.plane.author = ADA
    box.start().ready()
    assert run(box, COMMIT) == "ada <7+ada@users.noreply.github.com> ada\n"
    box.plane.author = {"name": "grace", "email": "grace@example.org"}
    assert run(box, COMMIT) == "grace <grace@example.org> grace\n"
    assert run(box, f"git config user.name Other; {COMMIT}") == "Other <grace@example.org> Other\n"
    assert box.plane.authors == [ADA, box.plane.author]  # told once each


@pytest.mark.parametrize(
    "name", ['a"b', "back\\slash", "two\nlines [user]\n\tname = eve", "# no comment ; none", "Ünïcode 名", "tab\there"]
)
def test_a_name_is_a_name_whatever_is_in_it(box: Box, name: str) -> None:
    box.plane.author = {"name": name, "email": "a@example.org"}
    box.start().ready()
    assert run(box, "git config user.name; git config user.email") == f"{name}\na@example.org\n"


def test_the_jail_cannot_say_whose_its_commits_are_in_the_agents_place(box: Box) -> None:
    box.plane.author = ADA
    box.start().ready()
    said = run(box, "cd /run/rift/git; for at in author author.new; do echo x > $at; rm -f $at; done; ls; id -u")
    assert "Read-only file system" in said
    assert said.splitlines()[-2] == "author"


def test_where_it_cannot_be_written_commands_run_and_the_agents_log_says_so(box: Box) -> None:
    box.plane.author = ADA
    (box.path / "git" / "author").mkdir()  # in the file's place
    box.start().ready()
    assert run(box, "echo fine") == "fine\n"
    assert "whose the commits are could not be written" in box.log()
