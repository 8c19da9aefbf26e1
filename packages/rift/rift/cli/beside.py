"""Onbe beside Rift: `rift up` starts it as a program of its own, and has it run for as long as Rift does.

Rift knows of it its command line, its settings' spelling, its data folder and its health page, and imports nothing.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Literal
from urllib.parse import urlsplit

from keel.holding import holder
from rift import app
from rift.cli.place import ONBE, Place, note
from rift.settings import is_loopback

Mode = Literal["off", "unconfigured", "development", "configured"]

SAYS_NOTHING = ("server", "log", "limits", "telemetry", "ledger", "admin")
"""Sections of Onbe's settings with which nobody has said yet whose people it is for."""
PAUSES = (1.0, 2.0, 5.0, 15.0, 60.0)
"""Seconds until it is started again, the first time it ended, the second, …"""
STEADY_SECONDS = 60.0
"""One that ran for so long counts as a first again."""
STOP_SECONDS = 10.0
READY_SECONDS = 60.0


def mode(place: Place, environment: Mapping[str, str]) -> Mode:
    """Whether and how Onbe is to be started. On a laptop, where nothing of it is configured, for development."""
    if not place.settings.onbe.enabled or importlib.util.find_spec("onbe") is None:
        return "off"
    sections = {name.lower().split("__")[1] for name in environment if name.lower().startswith("onbe__")}
    if sections - set(SAYS_NOTHING) or (place.onbe / "onbe.toml").exists():
        return "configured"
    here = is_loopback(place.settings.server.host) and is_loopback(urlsplit(app.address(place.settings)).hostname or "")
    return "development" if here else "unconfigured"


def command(place: Place, how: Mode) -> list[str]:
    """How it is started; it ends with who starts it."""
    words = [sys.executable, "-P", "-m", "onbe.cli", "serve", "--data", str(place.onbe), "--parent", str(os.getpid())]
    return [*words, "--development"] if how == "development" else words


@asynccontextmanager
async def onbe(place: Place, *, quiet: bool) -> AsyncIterator[None]:
    """Onbe runs, if it is to, for the length of the block. `quiet`: what it says when it serves is left out."""
    how = mode(place, os.environ)
    if how == "unconfigured":
        note("rift: Onbe is not started: this Rift is not for this machine alone, and nothing of Onbe is configured.")
    if how in ("off", "unconfigured"):
        yield
        return
    await asyncio.to_thread(furnish, place)
    running = asyncio.create_task(_keep(place, how, quiet=quiet), name="onbe")
    try:
        yield
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


def furnish(place: Place) -> None:
    """Have its folder, with a word in it of where its database is; without that word it has one of its own."""
    place.onbe.mkdir(mode=0o711, exist_ok=True)
    told, postgres = place.onbe / "database.json", place.postgres
    if postgres is None:
        told.unlink(missing_ok=True)
        return
    fresh = told.with_suffix(".new")
    fresh.write_text(json.dumps(postgres.tenant_urls(ONBE)), "utf-8")
    fresh.replace(told)


def address(place: Place) -> str | None:
    """Where Onbe serves, or is about to; None where it does not run."""
    told = holder(place.onbe / "onbe.lock")
    return str(told["url"]) if told and "url" in told else None


async def then_play(place: Place, story: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """Play Rift's story and then, where Onbe runs for development, Onbe's. The first exit code that is not 0."""
    code = await story()
    if code or mode(place, os.environ) != "development":
        return code
    if not await _ready(place):
        note(f"rift: Onbe was not ready within {READY_SECONDS:g} seconds, and its part is not played")
        return 1
    sys.stdout.flush()
    words = [sys.executable, "-P", "-m", "onbe.cli", "demo", "--data", str(place.onbe)]
    playing = await asyncio.create_subprocess_exec(*words, stdin=asyncio.subprocess.DEVNULL)
    try:
        return await playing.wait()
    except asyncio.CancelledError:
        await _end(playing)
        raise


async def _ready(place: Place) -> bool:
    import httpx2  # with the demo, not with every start

    with suppress(TimeoutError):
        async with asyncio.timeout(READY_SECONDS), httpx2.AsyncClient(timeout=5) as client:
            while True:
                with suppress(httpx2.HTTPError):
                    url = address(place)
                    if url and (await client.get(f"{url}/readyz")).status_code == 200:
                        return True
                await asyncio.sleep(0.1)
    return False


async def _keep(place: Place, how: Mode, *, quiet: bool) -> None:
    """Have it run until cancelled. Where it ends by itself, that is said, and it is started again after a while."""
    loop, ended = asyncio.get_running_loop(), 0
    environment = {name: value for name, value in os.environ.items() if not name.lower().startswith("rift_")}
    while True:
        began = loop.time()
        process = await asyncio.create_subprocess_exec(
            *command(place, how),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL if quiet else None,
            env=environment,
            start_new_session=True,  # Ctrl-C is Rift's, which passes it on once
        )
        try:
            code = await process.wait()
        except asyncio.CancelledError:
            await _end(process)
            raise
        ended = 1 if loop.time() - began > STEADY_SECONDS else ended + 1
        pause = PAUSES[min(ended, len(PAUSES)) - 1]
        how_it_ended = f"by signal {-code}" if code < 0 else f"with status {code}"
        note(f"rift: Onbe ended {how_it_ended}; Rift goes on, and starts it again in {pause:g} s")
        await asyncio.sleep(pause)


async def _end(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
