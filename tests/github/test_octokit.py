"""GitHub's own client, Octokit, takes the stand-in for a GitHub: what it does there, end to end."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.github.desk import Desk
from tests.wire.testers import installed

PACKAGE, VERSION = "octokit", "5.0.5"
WITHIN = 60.0


class Octokit:
    """The program beside this file, a step after the other."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def step(self, name: str) -> dict[str, Any]:
        """What it says of its next step, which is this one."""
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), WITHIN)
        assert line, "it ended"
        said: dict[str, Any] = json.loads(line)
        assert said.pop("step") == name, said
        return said

    def tell(self, told: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(told).encode() + b"\n")


@asynccontextmanager
async def octokit(told: dict[str, Any]) -> AsyncIterator[Octokit]:
    home = await asyncio.to_thread(installed, PACKAGE, VERSION)
    script = home / f"octokit-{os.getpid()}.mjs"  # beside its modules, where node looks for them
    await asyncio.to_thread(shutil.copy, Path(__file__).with_name("octokit.mjs"), script)
    process = await asyncio.create_subprocess_exec(
        "node", str(script), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, start_new_session=True,
        env={**os.environ, "NO_PROXY": "127.0.0.1"},
    )  # fmt: skip
    running = Octokit(process)
    running.tell(told)
    try:
        yield running
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        await asyncio.to_thread(script.unlink)


@pytest.mark.needs("node", "npm")
async def test_githubs_own_client_does_at_the_stand_in_what_rift_does(checked: Desk) -> None:
    github, app, repo = checked.github, checked.app, checked.repo
    github.push_from_outside(repo, "work", onto=github.head(repo))
    github.set_check(repo, github.branches(repo)["work"], "build", "failure", log="It broke.\n")
    github.make_repos(checked.ada, 130)
    github.install(app, checked.ada)
    github.device_every = 1
    told = {
        "api": github.api, "appId": app.id, "privateKey": app.pem, "clientId": app.client_id,
        "clientSecret": app.client_secret, "webhookSecret": app.webhook_secret, "repository": repo.full,
    }  # fmt: skip
    async with octokit(told) as client:
        assert await client.step("app") == {"slug": app.slug}
        listed = (await client.step("repositories"))["repositories"]
        assert (len(listed), "acme/app" in listed, "acme/other" in listed) == (131, True, False)
        login = await client.step("type the code")
        assert login["url"] == f"{github.url}/login/device"
        github.answer_device_login(login["code"], checked.ada)
        assert (await client.step("user"))["login"] == "ada"
        assert await client.step("installations") == {"accounts": ["acme", "ada"]}
        assert await client.step("pull") == {"number": 1, "again": 422, "comments": ["Done."]}
        assert await client.step("checks") == {"conclusion": "failure", "log": "It broke.\n"}
        assert await client.step("tokens") == {"refreshed": 401, "revoked": 401}
        delivery = github.hooks.last("pull_request", "opened")
        client.tell({"body": delivery.raw.decode(), "signature": delivery.headers()["x-hub-signature-256"]})
        assert await client.step("webhook") == {"verified": True, "changed": False}
    assert repo.issues[1].comments[0].author is checked.ada
