"""What a server or worker does once everything is there: in the process that was started or, as root, in its child.

What serves and what plays is loaded when it does: a keeper does neither.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from keel.postgres import PostgresError
from rift import app
from rift.cli import beside, sample
from rift.cli.place import Place, note
from rift.deps import Deps
from rift.drivers.boxes.protocol import BoxDriver

LOOK_SECONDS = 1.0
"""How often a server or worker looks whether our own database still runs."""

Command = Literal["up", "serve", "worker"]


@dataclass(frozen=True, slots=True)
class Hands:
    """What differs between the two. `ground` is the data folder at a first start; `ending` is set to have it stop.

    With `ready` it says nothing of its own once it serves, and calls that instead: the demo plays then.
    """

    ground: sample.Ground
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    ready: Callable[[], None] | None = None


async def up(deps: Deps, place: Place, sockets: list[socket.socket], hands: Hands) -> None:
    """Make what a first start makes, then serve and work until a signal."""
    from rift import serving

    begun = await sample.set_up(deps, hands.ground)
    noting: list[asyncio.Task[None]] = []

    async def shown() -> None:
        link = await sample.sign_in_link(deps, begun)
        say(sample.welcome(app.address(place.settings), place, begun, link))
        await hands.ground.shown()

    def welcome() -> None:
        noting.append(asyncio.create_task(shown(), name="shown"))

    await serving.serve(deps, sockets, hands.ready or welcome, with_work=True, ending=hands.ending)
    await asyncio.gather(*noting)
    if hands.ready is None:
        await _say_stopped(deps, place)


async def serve(deps: Deps, place: Place, sockets: list[socket.socket], hands: Hands) -> None:
    """The HTTP side until a signal."""
    from rift import serving

    ready = [f"Rift serves at {app.address(place.settings)}; `{place.spelled('worker')}` does its background work."]
    await serving.serve(deps, sockets, lambda: say(ready), with_work=False, ending=hands.ending)
    await _say_stopped(deps, place)


async def worker(deps: Deps, place: Place, sockets: list[socket.socket], hands: Hands) -> None:
    """The background side until a signal."""
    from rift import serving

    say([f"Rift works in the background for {place.data}; Ctrl-C stops it."])
    await serving.work_until_signal(deps, hands.ending)
    say(["The worker has stopped."])


COMMANDS: dict[Command, Callable[[Deps, Place, list[socket.socket], Hands], Coroutine[Any, Any, None]]] = {
    "up": up,
    "serve": serve,
    "worker": worker,
}


def agent_url(place: Place) -> str:
    """Where boxes' agents on this host reach the server."""
    return f"unix:{place.agents_socket}"


@asynccontextmanager
async def connected(place: Place) -> AsyncIterator[Deps]:
    """The deps of a process that does everything itself, and watches over our own database meanwhile."""
    async with app.connect(place.settings, place.data, place.url("runtime"), agent_url=agent_url(place)) as deps:
        keeping = asyncio.create_task(keep_database(place), name="database")
        try:
            yield deps
        finally:
            keeping.cancel()


async def keep_database(place: Place) -> None:
    """Start our own database again when it ends under us, as when the kernel is short of memory."""
    while place.postgres is not None:
        await asyncio.sleep(LOOK_SECONDS)
        try:
            if not await asyncio.to_thread(place.postgres.running):
                await asyncio.to_thread(place.postgres.start)
                note("rift: the database had ended and runs again")
        except PostgresError as error:
            note(f"rift: {error}")


async def play_while(
    served: asyncio.Task[None], ready: asyncio.Event, stop: Callable[[], None], playing: Coroutine[Any, Any, int]
) -> int:
    """Play the demo once the server is `ready`, then `stop` it. The demo's exit code, 1 where it could not begin."""
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait([served, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    code = 1
    if not ready.is_set():
        playing.close()
    else:
        told = asyncio.create_task(playing)
        await asyncio.wait([served, told], return_when=asyncio.FIRST_COMPLETED)
        if not told.done():  # the server ended under it: it puts away what it can
            told.cancel()
        with suppress(asyncio.CancelledError):
            code = await told
    if not served.done():
        stop()
    await served
    return code


async def demo(deps: Deps, place: Place, sockets: list[socket.socket], repo: str | None, ref: str | None) -> int:
    """Serve for as long as the demo plays, all in one process."""
    from rift.demo import play

    ready = asyncio.Event()
    hands = Hands(sample.OwnGround(place.data), ready=ready.set)
    served = asyncio.create_task(up(deps, place, sockets, hands))
    address = app.address(place.settings)
    stories = beside.then_play(place, lambda: play(deps, address, repo, ref))
    return await play_while(served, ready, hands.ending.set, stories)


def say(lines: list[str]) -> None:
    """Print, at once."""
    print("\n".join(lines), flush=True)


async def _say_stopped(deps: Deps, place: Place) -> None:
    left = len(await living(deps.boxes))
    lives = "1 box lives" if left == 1 else f"{left} boxes live"
    say([f"\nThe server has stopped; {lives} on. `{place.spelled('down')}` stops boxes and database too."])


async def living(driver: BoxDriver) -> list[str]:
    """The boxes that have processes on this host, parked ones too: asked of the host, as the database may be gone."""
    return [box for box in await driver.inventory() if (await driver.inspect(box)).state in ("running", "parked")]
