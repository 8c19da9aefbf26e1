"""The certified OpenID provider of npm, `oidc-provider`, as a program of its own; people sign in without a browser."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import re
import shutil
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

import httpx2
from tests.wire.testers import installed

PACKAGE, VERSION = "oidc-provider", "9.13.3"
CLIENT, SECRET, BACK = "desk", "desk-secret", "https://desk.example/back"
VERIFIER = "a-verifier-of-tests-" * 3
PROMPT = re.compile(r'name="prompt" value="(\w+)"')
STARTS_WITHIN = 60.0


@asynccontextmanager
async def provider(audience: str, back: str = BACK) -> AsyncIterator[str]:
    """A provider whose access tokens are for `audience`, and which leads `back`, for as long as the block lasts.

    Yields its issuer.
    """
    home = await asyncio.to_thread(installed, PACKAGE, VERSION)
    script = home / f"provider-{os.getpid()}.mjs"  # beside its modules, where node looks for them
    await asyncio.to_thread(shutil.copy, Path(__file__).with_suffix(".mjs"), script)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        "node", str(script), str(port), audience, back,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,  # `node` may be a program that starts another one
    )  # fmt: skip
    try:
        assert process.stdout is not None
        async with asyncio.timeout(STARTS_WITHIN):
            while b"listening" not in (line := await process.stdout.readline()):
                assert line, "the provider ended before it listened"
        yield f"http://127.0.0.1:{port}"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        await asyncio.to_thread(script.unlink)


async def came_back(browser: httpx2.AsyncClient, url: str, person: str, back: str) -> str:
    """A person signs in there as with a browser, from the address it was sent to: the one that it is sent back to."""
    answer = await browser.get(url)
    for _ in range(12):
        if answer.is_redirect:
            where = urljoin(str(answer.url), answer.headers["location"])
            if where.startswith(back):
                return where
            answer = await browser.get(where)
        else:
            prompt = PROMPT.search(answer.text)
            assert prompt, answer.text
            form = {"prompt": prompt[1], "login": person, "password": "any"}
            answer = await browser.post(str(answer.url), data=form)
    raise AssertionError("the provider asks without end")


async def signed_in(issuer: str, person: str, scope: str) -> dict[str, str]:
    """Sign a person in by the code flow (OpenID Connect Core, 3.1) as a browser would. The token endpoint's answer."""
    challenge = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode().rstrip("=")
    asked = {
        "client_id": CLIENT, "response_type": "code", "redirect_uri": BACK, "scope": f"openid {scope}",
        "code_challenge": challenge, "code_challenge_method": "S256",
    }  # fmt: skip
    async with httpx2.AsyncClient(trust_env=False) as browser:
        where = await came_back(browser, f"{issuer}/auth?{urlencode(asked)}", person, BACK)
        code = parse_qs(urlsplit(where).query)["code"][0]
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": BACK, "code_verifier": VERIFIER}
        given = await browser.post(f"{issuer}/token", data=form, auth=(CLIENT, SECRET))
    assert given.status_code == 200, given.text
    told: dict[str, str] = given.json()
    return told
