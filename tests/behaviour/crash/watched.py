"""The real Rift with boundaries around everything it does to the world; it is started and killed by `cells.py`.

`python watched.py SCRATCH` is a zygote: it loads everything once, and each line on its input, `FOLDER PORT DATABASE`,
has it fork a server. What is composed is what `rift up` composes; nothing in it knows that it is watched.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import importlib.util
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import structlog
import uvloop
from tests.behaviour.crash import points
from tests.behaviour.stack import program

import keel
import rift
import rift_agent
from keel.db import Database, Tx
from keel.jobs import Jobs
from rift import app, serving
from rift.deps import Deps
from rift.drivers.boxes.local import LocalBoxes, launcher, runtime
from rift.drivers.forge.local import LocalForge
from rift.settings import BoxSettings, RepoSettings, RiftSettings, ServerSettings
from rift.wire.mcp.tool import Answer, Call, Tool
from rift.wire.mcp.tools import TOOLS

PACKAGES = tuple(str(Path(package.__file__ or "").parent.parent) + "/" for package in (rift, keel, rift_agent))
QUICK = 1
"""Seconds between the rounds of what comes round by itself."""

COMES_ROUND = ("origins.sync",)
"""Jobs that nobody but those that come round by themselves asks for, so that no phase has them for sure."""

Operation = tuple[str, dict[str, int], bool]
_operation: ContextVar[Operation] = ContextVar("operation", default=("", {}, False))


def about(name: str, run: Callable[..., Awaitable[Any]], *, periodic: bool = False) -> Callable[..., Awaitable[Any]]:
    """The function, as an operation of that name."""

    @functools.wraps(run)
    async def named(*args: Any, **kwargs: Any) -> Any:
        mark = _operation.set((name, {}, periodic))
        try:
            return await run(*args, **kwargs)
        finally:
            _operation.reset(mark)

    return named


class WatchedJobs(Jobs[Deps]):
    """Each job is an operation."""

    def on(self, name: str, run: Callable[..., Awaitable[None]]) -> None:
        """As it is, named."""
        super().on(name, about(name, run, periodic=name in COMES_ROUND))

    def every(self, name: str, seconds: int, run: Callable[[Deps], Awaitable[None]]) -> None:
        """Sooner than it is, named."""
        super().every(name, min(seconds, QUICK), about(name, run, periodic=True))


def watched_database(here: points.Points) -> type[Database]:
    """A database whose commits and single statements are boundaries."""

    class WatchedTx(Tx):
        async def _statement(self, call: Awaitable[Any]) -> Any:
            place = here.place(sys._getframe(2)) or "?"
            count = here.begin(place, "statement")
            result = await call
            here.reach(place, "statement", count, "after")
            return result

    for name in ("one", "all", "row", "rows", "run", "many"):

        def watch(kind: str) -> Any:
            async def statement(self: Any, *args: Any) -> Any:
                return await self._statement(getattr(Tx, kind)(self, *args))

            return statement

        setattr(WatchedTx, name, watch(name))

    class WatchedDatabase(Database):
        @asynccontextmanager
        async def look(self, whose: str | None = None) -> AsyncIterator[Tx]:
            async with super().look(whose) as tx:
                yield WatchedTx(tx.connection)

        @asynccontextmanager
        async def tx(self, whose: str | None = None, *, few_trips: bool = False) -> AsyncIterator[Tx]:
            place = ""
            async with super().tx(whose, few_trips=few_trips) as tx:
                yield tx
                place = here.place(sys._getframe(1)) or "?"
                count = here.begin(place, "commit")
            if place:
                here.reach(place, "commit", count, "after")

    return WatchedDatabase


def watched_driver(here: points.Points, name: str, driver: Any) -> Any:
    """A driver, each call of which has a boundary before and after it."""

    class Watched:
        def __getattr__(self, word: str) -> Any:
            method = getattr(driver, word)
            if not callable(method):
                return method

            async def call(*args: Any, **kwargs: Any) -> Any:
                count = here.begin(f"{name}.{word}", "call")
                try:
                    return await method(*args, **kwargs)
                finally:
                    here.reach(f"{name}.{word}", "call", count, "after")

            return call

    return Watched()


def watched_tool(tool: Tool) -> Tool:
    """A tool, as an operation."""

    async def run(call: Call, arguments: Mapping[str, Any]) -> Answer | Any:
        return await about(tool.name, tool.run)(call, arguments)

    return dataclasses.replace(tool, run=run)


def watched_web(web: Callable[[Deps], Any]) -> Callable[[Deps], Any]:
    """The HTTP side; a request of an agent is an operation."""

    def made(deps: Deps) -> Any:
        inner = web(deps)

        async def outer(scope: Any, receive: Any, send: Any) -> None:
            path = scope.get("path", "")
            await about(f"door{path[path.rfind('/') :]}" if path.startswith("/agent") else path, inner)(
                scope, receive, send
            )

        return outer

    return made


def watch_children(folder: str) -> None:
    """The launcher and the agent's program, with the boundaries in front, made in a folder. They tell from their own
    paths which data folder they belong to.
    """
    source = Path(points.__file__).read_text()
    glue = "\nwatch_launcher(os.path.join(os.path.dirname(__file__), '../points'), 'launcher/')\n"
    text = Path(launcher.__file__).read_text()
    names = "{'__name__': '__main__', '__file__': __file__}"
    run = f"exec(compile({text!r}, 'launcher/launcher.py', 'exec'), {names})\n"
    written = Path(folder, "launcher.py")
    written.write_text(source + glue + run)
    points.put(runtime, "launcher_module", SimpleNamespace(__file__=str(written)))
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch, "rift_agent")
        shutil.copytree(Path(rift_agent.__file__).parent, tree, ignore=shutil.ignore_patterns("__pycache__"))
        init = tree / "__init__.py"
        (tree / "points.py").write_text(source)
        body, mark, rest = init.read_text().partition("TYPE_CHECKING = False\n")
        init.write_text(
            f"{body}{mark}{rest}\n\nif __import__('sys').argv[1:2] in (['run'], ['init']):\n"
            f"    from rift_agent.points import watch_agent\n\n    watch_agent('rift_agent/')\n"
        )
        build_from(tree, Path(folder, "agent.pyz"))

    def build(target: Path) -> Path:
        shutil.copyfile(Path(folder, "agent.pyz"), target)
        return target

    points.put(rift_agent, "build", build)


def build_from(tree: Path, target: Path) -> None:
    """The agent's own build, of another copy of its sources."""
    spec = importlib.util.spec_from_file_location("rift_agent", tree / "__init__.py")
    assert spec
    assert spec.loader
    copy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copy)
    copy.build(target)


async def serve(data: Path, port: int, database: str) -> None:
    """Serve until killed; `points/ready` is there once requests are taken."""
    here = points.Points.at("server", str(data / "points"), PACKAGES)
    here.operation = _operation.get
    opened = os.open

    def ready() -> None:
        os.close(opened(data / "points" / "ready", os.O_CREAT))

    here.watch_system()
    points.put(asyncio, "create_subprocess_exec", watched_start(here, asyncio.create_subprocess_exec))
    points.put(app, "Jobs", WatchedJobs)
    points.put(app, "Database", watched_database(here))
    points.put(serving, "TOOLS", tuple(watched_tool(tool) for tool in TOOLS))
    points.put(serving, "web", watched_web(serving.web))
    settings = RiftSettings(
        server=ServerSettings(port=port),
        repos=RepoSettings(poll_every=timedelta(seconds=2)),
        boxes=BoxSettings(disk_reserve=0),  # a test of a full disk wants to come to the step that finds it so
    )
    agents = data / "agents.sock"
    boxes = watched_driver(here, "boxes", LocalBoxes(app.local_config(settings, data)))
    forge = watched_driver(here, "forge", LocalForge())
    async with app.connect(settings, data, database, agent_url=f"unix:{agents}", boxes=boxes, forge=forge) as deps:
        if not (data / "people.json").exists():
            await program.first(deps)
        await serving.serve(deps, program.listening(port, agents), ready, with_work=True)


def watched_start(here: points.Points, start: Any) -> Any:
    """Starting a program from the event loop."""

    @functools.wraps(start)
    async def watched(*args: Any, **kwargs: Any) -> Any:
        place = here.place(sys._getframe(1))
        if not place:
            return await start(*args, **kwargs)
        count = here.begin(place, "start")
        try:
            return await start(*args, **kwargs)
        finally:
            here.reach(place, "start", count, "after")

    return watched


def child(data: Path, port: int, database: str) -> None:
    """A server, forked: it never returns."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    log = os.open(data / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for fd in (1, 2):
        os.dup2(log, fd)
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    code = 1
    try:
        os.setsid()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(data, port, database))
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    """Fork a server for each line; tell its process id."""
    watch_children(sys.argv[1])
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        folder, port, database = line.split("\t")
        pid = os.fork()
        if pid == 0:
            with contextlib.suppress(OSError):
                os.close(0)
            child(Path(folder), int(port), database.strip())
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
