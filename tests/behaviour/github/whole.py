"""A whole `rift up` beside a stand-in GitHub, and what people and their agents do with both."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
from tests.behaviour.cli.systems import Running, folder, rift
from tests.github.model import App, Installation, Owner, Repo
from tests.github.standin import StandIn

from keel.testing import eventually

TEAM = "acme"
HOOKS, CALLBACK = "/hooks/github", "/github/callback"
ADMIN = "admin@localhost.localdomain"
WITHIN = 90.0
LINK = re.compile(r"(http://127\.0\.0\.1:\d+)(/sign-in/link/riftl_[\w-]+)")


@dataclass
class Whole:
    """Ada administers the team `acme` at Rift and the organization `acme` at GitHub. Her agent's calls are `call`."""

    github: StandIn
    rift: Running
    ada: Owner
    acme: Owner
    app: App | None = None
    installation: Installation | None = None
    task: str = ""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.rift.port}"

    async def call(self, tool: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
        """A tool call that is answered: its text and its structure."""
        return await self.rift.call(tool, **arguments)

    async def refused(self, tool: str, **arguments: Any) -> str:
        """A tool call that is refused: what was said."""
        reply = await self.rift.raw(tool, **arguments)
        assert reply.result.get("isError"), reply.result
        return "\n".join(block["text"] for block in reply.result["content"])

    @asynccontextmanager
    async def browser(self) -> AsyncIterator[httpx2.AsyncClient]:
        """Ada's browser, signed in to Rift by a link that the terminal gives."""
        said = await asyncio.to_thread(rift, "user", "link", ADMIN, "--data", self.rift.data)
        assert said.status == 0, said
        found = LINK.search(said.out)
        assert found, said.out
        async with httpx2.AsyncClient(base_url=self.address, headers={"origin": self.address}, trust_env=False) as one:
            used = await one.post(found[2], data={})
            assert used.status_code == 303, used.text
            yield one

    # Connecting -------------------------------------------------------------------------------------------------------

    async def log_in(self) -> None:
        """By the device flow, a step a call."""
        begun, _ = await self.call("rift_github_login")
        code = re.search(r"\b([0-9A-Z]{4}-[0-9A-Z]{4})\b", begun)
        assert code, begun
        assert f"{self.github.url}/login/device" in begun
        with self.github.browser(self.ada) as browser:
            await asyncio.to_thread(browser.device, code[1])

        async def connected() -> bool:
            return "GitHub is connected: as ada" in (await self.call("rift_github_login"))[0]

        await eventually(connected, within=WITHIN, every=1.0)

    async def connect(self, repositories: list[Repo] | None = None) -> None:
        """Install the App from the link that the agent shows, in browsers that are signed in at both."""
        shown, _ = await self.call("rift_github_connect", org=TEAM)
        link = re.search(rf"{re.escape(self.github.url)}\S+", shown)
        assert link, shown
        chosen = None if repositories is None else [repo.id for repo in repositories]
        with self.github.browser(self.ada) as at_github:
            back = await asyncio.to_thread(at_github.install, link[0], self.acme.id, chosen)
        assert back.startswith(self.address), back
        async with self.browser() as at_rift:
            answer = await at_rift.get(back.removeprefix(self.address), follow_redirects=True)
            assert answer.status_code == 200, answer.text
        self.installation = next(iter(self.github.world.installations.values()))

    async def enable(self) -> None:
        await self.call("rift_github_enable", org=TEAM, account="acme")

    async def connect_all(self) -> None:
        """Make the team, log in, connect the organization, turn Rift on for it."""
        await self.call("rift_org_new", name=TEAM)
        await self.log_in()
        await self.connect()
        await self.enable()

    # Repositories -----------------------------------------------------------------------------------------------------

    async def repos(self) -> dict[str, Any]:
        """The team's repositories, as `rift_repos` has them, by name."""
        listed = (await self.call("rift_repos", org=TEAM))[1]
        found = {one["repository"]: one for one in listed["repositories"]}
        return found | {name: {} for group in listed["unwatched"] for name in group["repositories"]}

    async def watch(self, repo: Repo, ref: str = "main", warm: int = 1) -> None:
        """Watch a branch once Rift knows the repository."""
        await self.until(lambda found: repo.full in found)
        await self.call("rift_watch", repo=repo.full, ref=ref, warm=warm)

    async def until(self, wanted: Callable[[dict[str, Any]], bool], within: float = WITHIN) -> dict[str, Any]:
        """Wait until the list of repositories is so."""
        seen: list[dict[str, Any]] = []

        async def so() -> bool:
            seen[:] = [await self.repos()]
            return wanted(seen[0])

        try:
            await eventually(so, within=within, every=0.2)
        except AssertionError as late:
            raise AssertionError(f"{seen} {self.rift.errors()[-3000:]}") from late
        return seen[0]

    async def until_warm(self, repo: Repo, head: str, ref: str = "main", within: float = WITHIN) -> None:
        """Wait until a warm box of this head is ready."""

        def warm(found: dict[str, Any]) -> bool:
            watches = found.get(repo.full, {}).get("watched", [])
            return any(one["ref"] == ref and one["head"] == head and one["ready"] for one in watches)

        await self.until(warm, within)

    # Boxes ------------------------------------------------------------------------------------------------------------

    async def take(self, repo: Repo, ref: str = "main") -> str:
        """A running box at a branch's head, in the task; the task is opened where there is none."""
        if not self.task:
            text = (await self.call("rift_task_new", name="the whole flow"))[0]
            handle = re.search(r"^handle: (\S+)$", text, re.MULTILINE)
            assert handle
            self.task = handle[1]
        made = (await self.call("rift_vm_new", task=self.task, repo=repo.full, ref=ref))[0]
        box = re.search(r"^id (b-[0-9a-f]{24})", made, re.MULTILINE)
        assert box, made

        async def runs() -> bool:
            listed = (await self.call("rift_vm_ls", task=self.task))[1]["vms"]
            return any(one["id"] == box[1] and one["status"] == "running" for one in listed)

        await eventually(runs, within=WITHIN, every=0.2)
        return box[1]

    async def run(self, box: str, command: str) -> tuple[int, str]:
        """Run a command in a box to its end: its exit code and output."""
        told = await self.rift.bash(self.task, box, command, timeout=120, block_for=45)
        assert told["status"] == "finished", told
        return told["exit"], told["output"]

    async def works(self, box: str, command: str) -> str:
        """Run a command in a box that succeeds: its output."""
        code, said = await self.run(box, command)
        assert code == 0, f"{command}: {said}"
        return said

    async def close(self) -> None:
        if self.task:
            await self.call("rift_task_close", task=self.task)
            self.task = ""


@contextmanager
def whole(github: StandIn, settings: Mapping[str, str] | None = None, *, with_app: bool = True) -> Iterator[Whole]:
    """A `rift up` that knows where the stand-in is, and by its settings an App there, unless it is to have none."""
    ada = github.make_user("ada")
    acme = github.make_org("acme", admins=[ada])
    github.device_every = 1
    with folder() as data:
        running = Running(data)
        made = Whole(github, running, ada, acme)
        env = {"Rift__GitHub__Url": github.url, **(settings or {})}
        if with_app:
            made.app = github.make_app(
                acme, "Rift of acme", request_oauth_on_install=True, webhook_url=f"{made.address}{HOOKS}",
                callback_urls=(f"{made.address}{CALLBACK}",),
            )  # fmt: skip
            env |= github.settings(made.app)
        running.env = env
        try:
            running.up()
            yield made
        finally:
            running.kill()
