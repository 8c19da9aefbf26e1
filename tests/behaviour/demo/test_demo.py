"""The demo as a person sees it: on a fresh system, on a repository of their own, and when something breaks under it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.behaviour.cli.systems import folder, free_port
from tests.behaviour.demo.systems import Played, process, rift

from keel.refusal import Refusal
from rift import app
from rift.cli.place import find
from rift.demo import play
from rift.people import actions as people
from rift.tasks import store as tasks

STEP = re.compile(r"^(?P<mark>✓|✗) +(?P<number>\d+) (?P<title>.*?)  [\d.]+ m?s$", re.MULTILINE)
STORY = (
    "rift_repos",
    "rift_task_new",
    "rift_vm_new",
    "rift_bash",
    "rift_bash, rift_output",
    "rift_write",
    "rift_read",
    "rift_bash",
    "rift_vm_suspend",
    "rift_bash",
    "rift_task_attach",
    "rift_task_attach, takeover",
    "rift_bash",
    "rift_bash",
    "rift_task_close",
    "rift_task_ls, rift_vm_ls",
)
"""The tools that the steps name, in the story's order, after the repository is there."""
LINES_MOST = 60


@dataclass(frozen=True, slots=True)
class System:
    """A Rift that another process serves."""

    data: Path
    server: subprocess.Popen[str]


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    with folder() as data, process("up", "--data", str(data), "--port", str(free_port())) as server:
        assert server.stdout is not None
        said = []
        for line in server.stdout:
            said.append(line)
            if line.startswith("Ctrl-C stops the server"):
                break
        assert server.poll() is None, "".join(said)
        yield System(data, server)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository whose one test fails, on a branch that is not called main."""
    path = tmp_path / "my project.git"
    path.mkdir()
    (path / "test_sums.py").write_text(
        "import unittest\n\n\nclass Sums(unittest.TestCase):\n    def test_it(self):\n        assert 1 + 1 == 3\n"
    )
    git = ("git", "-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false")
    for arguments in (("init", "-q", "-b", "trunk"), ("add", "."), ("commit", "-q", "-m", "A sum")):
        subprocess.run([*git, *arguments], cwd=path, check=True, capture_output=True)
    return path


def tools(output: str) -> list[str]:
    """The tools that the steps that went well name, in order; a step without one has its whole title."""
    titles = [found["title"] for found in STEP.finditer(output) if found["mark"] == "✓"]
    return [found[1] if (found := re.search(r"\((rift_.*)\)$", title)) else title for title in titles]


def living_tokens(data: Path) -> list[str]:
    said = rift("token", "ls", "--json", "--data", str(data)).output
    listed = json.loads(said[said.index("[\n") :])  # before it: what was waited for, on stderr
    return [token["client"] for token in listed if token["revoked_at"] is None and "agent" in token["client"]]


async def revoke(data: Path, client: str) -> None:
    place = find(data)
    async with app.connect(place.settings, place.data, place.url("runtime")) as deps:
        tokens = await people.list_tokens(deps)
        assert not isinstance(tokens, Refusal)
        one = next(token for token in tokens if token.client == client and token.revoked_at is None)
        assert not isinstance(await people.revoke_token(deps, one.id), Refusal)


def open_tasks(data: Path) -> int:
    async def count() -> int:
        place = find(data)
        async with app.connect(place.settings, place.data, place.url("runtime")) as deps, deps.db.tx() as tx:
            owner = await people.find_owner(tx, None)
            assert not isinstance(owner, Refusal)
            return len(await tasks.open_of(tx, owner[0].id))

    return asyncio.run(count())


def failed_step(played: Played) -> str:
    """The title of the step that failed; exactly one did, and it is the last one told."""
    steps = list(STEP.finditer(played.output))
    assert [step["mark"] for step in steps] == ["✓"] * (len(steps) - 1) + ["✗"], played.output
    return str(steps[-1]["title"])


def test_on_a_fresh_folder_up_demo_tells_the_whole_story_and_exits_0() -> None:
    with folder() as data:
        played = rift("up", "--demo", "--data", str(data), "--port", str(free_port()))
        assert played.status == 0, played.output
        assert tools(played.output) == ["rift_whoami", "rift_watch", *STORY], played.output
        assert "finished, exit 0" in played.output
        assert 'rift_task_attach {"task": "task_' in played.output
        assert re.search(r"^All 18 steps are as they should be.*: [\d.]+ s\.$", played.output, re.MULTILINE)
        assert len(played.output.splitlines()) < LINES_MOST
        assert "Traceback" not in played.output
        assert living_tokens(data) == []


def test_against_a_running_system_it_plays_with_a_repository_of_ones_own(system: System, project: Path) -> None:
    played = rift("demo", "--data", str(system.data), "--repo", str(project))
    assert played.status == 0, played.output
    assert tools(played.output) == ["rift_whoami", f"{project} is added", "rift_watch", *STORY, "rift_unwatch"]
    assert "$ python3 -m unittest" in played.output
    assert "its tests do not pass in this box; the demo goes on" in played.output
    listed = json.loads(rift("repo", "ls", "--json", "--data", str(system.data)).output)
    assert [repo["refs"] for repo in listed if repo["repo"] == "demo/my-project"] == [[]]
    assert open_tasks(system.data) == 0

    again = rift("demo", "--data", str(system.data), "--repo", str(project), "--ref", "trunk")
    assert again.status == 0, again.output
    assert "demo/my-project, here already; its branch trunk" in again.output


def test_a_branch_that_is_not_there_ends_it_with_the_refusal_whole(system: System, project: Path) -> None:
    played = rift("demo", "--data", str(system.data), "--repo", str(project), "--ref", "mian")
    assert played.status == 1
    assert "rift_watch" in failed_step(played)
    assert "has no branch mian" in played.output
    assert living_tokens(system.data) == []


def test_a_box_that_cannot_be_made_is_told_with_the_whole_reason_and_the_mend(system: System, project: Path) -> None:
    before = set((system.data / "mirrors").iterdir())
    assert rift("repo", "add", "demo/broken", str(project), "--data", str(system.data)).status == 0
    (mirror,) = set((system.data / "mirrors").iterdir()) - before
    shutil.rmtree(mirror)
    mirror.write_text("this is no repository")
    played = rift("demo", "--data", str(system.data), "--repo", str(project))
    assert played.status == 1, played.output
    assert "rift_vm_new" in failed_step(played)
    assert f"invalid gitfile format: {mirror}" in played.output
    assert "mend:     `rift doctor`" in played.output
    assert open_tasks(system.data) == 0
    assert living_tokens(system.data) == []


def test_a_server_that_is_not_there_is_told_with_the_mend(system: System, capsys: pytest.CaptureFixture[str]) -> None:
    async def main() -> int:
        place = find(system.data)
        async with app.connect(place.settings, place.data, place.url("runtime")) as deps:
            return await play(deps, f"http://127.0.0.1:{free_port()!s}", None, None)

    assert asyncio.run(main()) == 1
    said = capsys.readouterr().out
    assert "All connection attempts failed" in said
    assert "mend:     `rift up` serves; `rift doctor` checks" in said
    assert living_tokens(system.data) == []


def test_a_token_revoked_on_the_way_ends_it_with_1_and_leaves_no_task(system: System) -> None:
    played = rift(
        *("demo", "--data", str(system.data)),
        on="(rift_task_new)",
        act=lambda: asyncio.run(revoke(system.data, "Ada's agent")),
    )
    assert played.status == 1, played.output
    assert failed_step(played)
    assert "This bearer token is unknown, expired or revoked" in played.output
    assert open_tasks(system.data) == 0
    assert living_tokens(system.data) == []


def test_a_server_that_is_killed_on_the_way_ends_it_with_1_and_the_mend(system: System) -> None:
    played = rift(
        *("demo", "--data", str(system.data)),
        on="(rift_task_new)",
        act=lambda: os.kill(system.server.pid, signal.SIGKILL),
    )
    assert played.status == 1, played.output
    assert failed_step(played)
    assert "`rift up` serves; `rift doctor` checks" in played.output
    assert "could not be closed" in played.output
    assert "Traceback" not in played.output
    assert living_tokens(system.data) == []
