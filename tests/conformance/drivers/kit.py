"""What the suite needs to know of each driver: how to say a few commands, and how to meet and cut off an agent."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Protocol

from tests.conformance.drivers.plane import Plane, Seat
from tests.conformance.keeper.keeping import Keeper

from rift.drivers.boxes.fake import FakeBoxes
from rift.drivers.boxes.local import LocalBoxes, LocalConfig
from rift.drivers.boxes.local import processes as table
from rift.drivers.boxes.local.places import find_box
from rift.drivers.boxes.protocol import BoxDriver, BoxSpec, DriverError, Equipment
from rift.drivers.boxes.remote import RemoteBoxes
from rift.keeper.checks import Bounds

GIT = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "PATH": os.environ["PATH"], "HOME": "/nonexistent"}


class Kit(Protocol):
    """One driver under test and its control plane."""

    plane: Plane
    driver: BoxDriver

    def spec(self, box: str, incarnation: int = 1, epoch: int = 0) -> BoxSpec: ...
    def store(self) -> Path: ...
    def put(self, path: str, text: str) -> str: ...
    def wait_for(self, name: str) -> str: ...
    def release(self, box: str, name: str) -> None: ...
    def print_bytes(self, count: int) -> str: ...
    async def kill_agent(self, box: str) -> None: ...
    async def break_start(self, spec: BoxSpec) -> BoxSpec: ...
    async def close(self) -> None: ...


async def started(kit: Kit, box: str, incarnation: int = 1, epoch: int = 0) -> Seat:
    """Start a box and wait for its jail."""
    seat = kit.plane.seat(box, incarnation)
    await kit.driver.start(kit.spec(box, incarnation, epoch))
    await seat.up()
    return seat


def make_spec(plane: Plane, box: str, incarnation: int, epoch: int, mirror: Path, origin: str, commit: str) -> BoxSpec:
    seat = plane.seat(box, incarnation)
    return BoxSpec(
        box=box,
        incarnation=incarnation,
        name="app-main-1",
        repository="someone/app",
        ref="main",
        commit=commit,
        mirror=mirror,
        origin=origin,
        token=seat.token,
        network="proxy",
        allow=("pypi.org",),
        epoch=epoch,
        server=plane.url,
    )


TOOL = "/nix/store/00000000000000000000000000000000-tool"


def equipped(kit: Kit, spec: BoxSpec, setup: str = "", seconds: float = 60) -> BoxSpec:
    """The same box with one package, some variables and a setup."""
    env = (("HELLO", "two\nlines"), ("HOME", "/elsewhere"), ("PATH", "/elsewhere"))
    return dataclasses.replace(spec, equipment=Equipment(kit.store(), (TOOL,), env, setup, seconds))


class FakeKit:
    """The fake driver, calling the plane directly."""

    def __init__(self) -> None:
        self.plane = Plane()
        self.fake = FakeBoxes(self.plane.post)
        self.driver: BoxDriver = self.fake

    def spec(self, box: str, incarnation: int = 1, epoch: int = 0) -> BoxSpec:
        return make_spec(self.plane, box, incarnation, epoch, Path("/nowhere"), "https://example.org/app", "0" * 40)

    def store(self) -> Path:
        return Path("/nix/store")

    def put(self, path: str, text: str) -> str:
        return f"put {path} {text}"

    def wait_for(self, name: str) -> str:
        return f"sleep-until-released {name}"

    def release(self, box: str, name: str) -> None:
        self.fake.release(box, name)

    def print_bytes(self, count: int) -> str:
        return f"print {count} bytes"

    async def kill_agent(self, box: str) -> None:
        await self.fake.kill_agent(box)

    async def break_start(self, spec: BoxSpec) -> BoxSpec:
        self.fake.fail_starts.append("the checkout could not be made")
        return spec

    async def close(self) -> None:
        await self.plane.close()
        await self.fake.close()


class LocalKit:
    """The local driver: real jails and agents, which speak HTTP to the plane."""

    def __init__(self, data: Path) -> None:
        self.plane = Plane()
        self.data = data
        self.config = LocalConfig(self.data)
        self.local = LocalBoxes(self.config)
        self.driver: BoxDriver = self.local
        self.source = self.data / "source"
        self.mirror = self.data / "mirrors" / "app"
        self.commit = ""

    async def open(self) -> None:
        await asyncio.to_thread(self._make_repository)
        await self.plane.serve()

    def _make_repository(self) -> None:
        self.source.mkdir()
        self.mirror.parent.mkdir(exist_ok=True)
        self.mirror.parent.chmod(0o711)
        self.git("init", "-q", "-b", "main")
        (self.source / "README.md").write_text("# app\n")
        (self.source / "lib").mkdir()
        (self.source / "lib" / "one.py").write_text("one = 1\n")
        self.commit = self.make_commit("first")
        self.git("branch", "other/branch")
        self.git("tag", "-a", "v1", "-m", "v1")
        subprocess.run(["git", "clone", "-q", "--mirror", self.source, self.mirror], check=True, env=GIT)

    def make_commit(self, message: str) -> str:
        self.git("add", "-A")
        self.git("-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "-m", message)
        if self.mirror.exists():
            subprocess.run(["git", "-C", self.mirror, "fetch", "-q"], check=True, env=GIT)
        return self.git("rev-parse", "HEAD").strip()

    def git(self, *words: str) -> str:
        identity = {f"GIT_{who}_{what}": "a" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        done = subprocess.run(
            ["git", "-C", self.source, *words], check=True, env=GIT | identity, capture_output=True, text=True
        )
        return done.stdout

    def spec(self, box: str, incarnation: int = 1, epoch: int = 0) -> BoxSpec:
        return make_spec(self.plane, box, incarnation, epoch, self.mirror, str(self.source), self.commit)

    def store(self) -> Path:
        """A repository's store with one package, whose tool says its name; and beside it another's."""
        for repository, name in (("app", "tool"), ("other", "secret")):
            store = self.data / "nix" / repository / "store"
            tool = store / Path(TOOL).name / "bin" / name
            if not tool.exists():
                tool.parent.mkdir(parents=True)
                tool.write_text(f"#!/bin/sh\necho {name} of {repository}\n")
                tool.chmod(0o755)
                (tool.parent / "git").symlink_to(name)
        return self.data / "nix" / "app" / "store"

    def put(self, path: str, text: str) -> str:
        return f"printf '%s\\n' '{text}' > {path}"

    def wait_for(self, name: str) -> str:
        return f"until [ -e /tmp/gate-{name} ]; do sleep 0.02; done"

    def release(self, box: str, name: str) -> None:
        (self.data / "boxes" / box / "tmp" / f"gate-{name}").touch()

    def print_bytes(self, count: int) -> str:
        return f"yes 123456789 | tr '\\n' 0 | head -c {count}"

    async def kill_agent(self, box: str) -> None:
        found = find_box(self.config, box)
        assert found is not None
        pids = table.agents(found)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(10):
            while table.agents(found):
                await asyncio.sleep(0.01)

    async def break_start(self, spec: BoxSpec) -> BoxSpec:
        return dataclasses.replace(spec, commit="1" * 40)

    async def close(self) -> None:
        try:
            for box in await self.driver.inventory():
                await self.driver.destroy(box)
        except DriverError as error:
            raise AssertionError(error.reason) from error
        finally:
            await self.plane.close()
            shutil.rmtree(self.source)
            shutil.rmtree(self.mirror)


class RemoteKit(LocalKit):
    """The local driver at the other end of a line, as a server without privileges has it."""

    async def open(self) -> None:
        await super().open()
        bounds = Bounds(self.data, self.plane.url)
        self.keeper = Keeper(bounds, {"boxes": self.local})
        self.driver = RemoteBoxes(await self.keeper.open())

    async def close(self) -> None:
        try:
            await super().close()
        finally:
            await self.keeper.close()
