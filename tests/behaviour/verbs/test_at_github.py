"""Real git and git-lfs through the agent's door code and the control plane to the stand-in GitHub, as the person.

What a jail adds is its walls (tests/behaviour/verbs/test_git.py); here is what git and GitHub make of the way.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import resource
import socket
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from starlette.applications import Starlette
from tests.behaviour.machines.harness import HastyClock, Place, place
from tests.github.desk import Desk
from tests.github.standin import StandIn

from keel.testing.plugin import FreshDatabase
from keel.web.serving import server
from rift.boxes.model import Box
from rift.drivers.boxes.local.rewriting import git_config
from rift.drivers.carrier.http import HttpCarrier
from rift.drivers.github.protocol import Account, UserTokens
from rift.logins import actions as logins
from rift.settings import GitHubSettings
from rift.tasks import actions as tasks
from rift.wire.agent.door import routes
from rift_agent import door, served
from rift_agent.config import Config

MIB = 1 << 20
PORT = 3127


@pytest.fixture
def desk() -> Iterator[Desk]:
    with StandIn() as github, Desk(github) as made:
        yield made


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    """The door's port, of one test at a time: git-lfs is told addresses with it."""
    with Path("/tmp/rift-test-door.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with socket.create_server(("127.0.0.1", PORT)) as made:
            yield made


@dataclass
class Way:
    """A checkout whose origin is at GitHub, and all that is between."""

    rift: Place
    desk: Desk
    box: Box
    handle: str
    folder: Path

    def _git(self, words: tuple[str, ...], cwd: Path | None) -> tuple[int, str]:
        who = {f"GIT_{role}_{what}": "a@example.org" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        quiet = {
            "GIT_CONFIG_SYSTEM": str(self.folder / "gitconfig"), "GIT_CONFIG_GLOBAL": "/dev/null",
            "HOME": str(self.folder), "GIT_TERMINAL_PROMPT": "0", "PATH": os.environ["PATH"],
        }  # fmt: skip
        done = subprocess.run(["git", *words], cwd=cwd or self.folder / "app", env={**quiet, **who}, check=False,
                              capture_output=True, text=True, timeout=120)  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    async def git(self, *words: str, cwd: Path | None = None) -> tuple[int, str]:
        """Run git as a box does; its exit code, and all that it said."""
        return await asyncio.to_thread(self._git, words, cwd)

    async def commit(self, name: str, content: bytes) -> None:
        (self.folder / "app" / name).write_bytes(content)
        await self.git("add", "-A")
        assert (await self.git("commit", "-q", "-m", name))[0] == 0

    async def outcomes(self) -> list[tuple[str, str]]:
        rows = await self.rift.rows("SELECT action, outcome FROM ledger WHERE via = 'box' ORDER BY seq")
        return [(row["action"], row["outcome"]) for row in rows]


@pytest.fixture
async def way(database: FreshDatabase, tmp_path: Path, desk: Desk, listener: socket.socket) -> AsyncIterator[Way]:
    async with place(database, tmp_path / "data", HastyClock()) as made:
        deps = replace(
            made.deps, carrier=HttpCarrier(),
            settings=made.deps.settings.model_copy(update={"github": GitHubSettings(url=desk.github.url)}),
        )  # fmt: skip
        rift = replace(made, deps=deps)
        lease = await rift.open_task()
        box = await rift.running_box(lease.handle)
        async with deps.db.tx() as tx:
            await tx.run(
                "INSERT INTO github_accounts (installation, org, account_id, login, kind, enabled, connected_at)"
                " SELECT 7, org, 70, 'acme', 'Organization', true, now() FROM repos"
            )
            await tx.run("UPDATE repos SET forge = 'github', account = 7, github_id = 1, default_branch = 'main'")
            token = UserTokens(desk.token)
            assert await logins.keep(tx, deps, rift.ada.user, Account(1, "ada", "User"), token)
        plane = socket.create_server(("127.0.0.1", 0))
        serving = server(Starlette(routes=routes(deps)), 64)
        task = asyncio.create_task(serving.serve(sockets=[plane]))
        await serving.up.wait()
        agent = rift.agent(box.id)
        (tmp_path / "token").write_text(agent.token)
        config = Config({
            "box": box.id, "incarnation": agent.incarnation, "server": f"http://127.0.0.1:{plane.getsockname()[1]}",
            "token_file": str(tmp_path / "token"), "dir": str(tmp_path), "mounts": [], "checkout": "/",
        })  # fmt: skip
        stop = threading.Event()
        threading.Thread(target=relay, args=(listener, config, stop), daemon=True).start()
        (tmp_path / "gitconfig").write_text(git_config("acme/app", "https://github.com/acme/app.git"))
        ready = Way(rift, desk, box, lease.handle, tmp_path)
        code, said = await ready.git("clone", "-q", "https://github.com/acme/app.git", "app", cwd=tmp_path)
        assert code == 0, said
        yield ready
        stop.set()
        serving.should_exit = True
        await task


def relay(listener: socket.socket, config: Config, stop: threading.Event) -> None:
    """The agent's part."""

    def serve(client: socket.socket, full: bool) -> None:
        door.serve(client, config, full=full)

    listener.settimeout(0.1)
    while not stop.is_set():
        try:
            client, _ = listener.accept()
        except TimeoutError:
            continue
        threading.Thread(target=served.serve_whole, args=(client, serve), daemon=True).start()


async def test_a_push_arrives_as_the_person_and_a_guarded_branch_stays(way: Way) -> None:
    await way.commit("new.txt", b"new\n")
    code, said = await way.git("push", "-u", "origin", "HEAD:fix")
    assert code == 0, said
    assert way.desk.github.read(way.desk.repo, "new.txt", "fix") == b"new\n"
    assert way.desk.github.hooks.last("push").body["pusher"]["name"] == "ada"
    code, said = await way.git("push", "origin", "HEAD:main")
    assert code == 1
    assert "remote: Nothing was pushed: main is the default branch" in said
    assert way.desk.token not in said
    code, said = await way.git("fetch", "origin")
    assert code == 0, said
    assert await way.outcomes() == [
        ("fetch", "ok"), ("push", "begun"), ("push", "ok"), ("push", "push_refused"), ("fetch", "ok"),
    ]  # fmt: skip


async def test_what_github_refuses_is_told_in_its_own_words(way: Way) -> None:
    way.desk.github.protect(way.desk.repo, "release")
    await way.commit("new.txt", b"new\n")
    code, said = await way.git("push", "origin", "HEAD:release")
    assert code == 1
    assert "GH006" in said
    assert "[remote rejected] HEAD -> release (hook declined)" in said
    assert (await way.outcomes())[-1] == ("push", "refused_by_origin")


async def test_a_commit_that_is_no_fast_forward_is_refused_until_it_is_meant(way: Way) -> None:
    await way.commit("one.txt", b"one\n")
    assert (await way.git("push", "origin", "HEAD:own"))[0] == 0
    await way.git("commit", "-q", "--amend", "-m", "another")
    code, said = await way.git("push", "origin", "HEAD:own")
    assert code == 1
    assert "[rejected]" in said
    await way.git("fetch", "-q")
    code, said = await way.git("push", "--force-with-lease", "origin", "HEAD:own")
    assert code == 0, said


@pytest.mark.needs("git-lfs")
async def test_lfs_files_go_there_and_come_back(way: Way) -> None:
    content = os.urandom(3 * MIB)
    for words in (("lfs", "install", "--local"), ("lfs", "track", "*.bin")):
        assert (await way.git(*words))[0] == 0
    await way.commit("big.bin", content)
    code, said = await way.git("push", "origin", "HEAD:fix")
    assert code == 0, said
    stored = way.desk.github.read(way.desk.repo, "big.bin", "fix")
    assert stored.startswith(b"version https://git-lfs.github.com/spec/v1")
    filters = ("-c", "filter.lfs.process=git-lfs filter-process", "-c", "filter.lfs.required=true",
               "-c", "filter.lfs.smudge=git-lfs smudge -- %f")  # fmt: skip
    code, said = await way.git("clone", "-q", "-b", "fix", *filters, "https://github.com/acme/app.git", "other",
                               cwd=way.folder)  # fmt: skip
    assert code == 0, said
    assert (way.folder / "other" / "big.bin").read_bytes() == content
    assert ("lfs", "ok") in await way.outcomes()
    assert way.desk.token not in str(await way.rift.rows("SELECT arguments::text FROM ledger"))


async def test_five_hundred_mebibytes_are_pushed_and_nobody_grows(way: Way) -> None:
    with (way.folder / "app" / "big").open("wb") as file:
        for _ in range(500):
            file.write(os.urandom(MIB))
    for words in (("config", "core.compression", "0"), ("config", "core.bigFileThreshold", "1m"), ("add", "-A")):
        assert (await way.git(*words))[0] == 0
    assert (await way.git("commit", "-q", "-m", "big"))[0] == 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    code, said = await way.git("push", "origin", "HEAD:big")
    assert code == 0, said
    # This process is the control plane, the agent's code and the stand-in together.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 160 * 1024
    assert (await way.outcomes())[-1] == ("push", "ok")


async def test_a_push_after_the_task_closed_or_the_login_is_gone_changes_nothing(way: Way) -> None:
    await way.commit("late.txt", b"late\n")
    await way.rift.rows("DELETE FROM github_users RETURNING login")
    code, said = await way.git("push", "origin", "HEAD:late")
    assert code == 128
    assert "remote: Your GitHub account is not connected to Rift." in said
    assert "remote: rift_github_login" in said
    task = await way.rift.task(str(way.box.task))
    async with way.rift.deps.db.tx() as tx:
        await tasks.close_in(tx, way.rift.deps, task)
    code, said = await way.git("fetch")
    assert code == 128
    assert "is in no open task" in said
    assert "late" not in way.desk.github.branches(way.desk.repo)
