"""A server with a few stub tools: the framework without Rift behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from starlette.applications import Starlette
from tests.wire.serving import served

from keel import refusal
from keel.clock import SystemClock
from keel.ids import SystemIds
from keel.refusal import YOUR_HANDLE, Refusal
from rift.audit import Act
from rift.deps import Deps
from rift.people.model import Caller
from rift.wire.hosts import Hosts
from rift.wire.mcp import schemas
from rift.wire.mcp.guard import Guard, mcp_routes
from rift.wire.mcp.registry import Registry
from rift.wire.mcp.server import McpServer
from rift.wire.mcp.tool import Answer, Call, Image, Tool
from rift.wire.refusals import bad_arguments

TOKEN = "rift_stub-token-of-ada"
ADA = Caller(user="u-ada", email="ada@example.org", admin=False, token="t-1", client="Claude")


@dataclass
class Stub:
    """The stub server's address, and what its tools have seen."""

    url: str = ""
    token: str = TOKEN
    pixel: bytes = b"\x89PNG\r\n\x1a\n-not-really-a-picture"
    calls: list[Call] = field(default_factory=list)
    refused: list[tuple[Act, Refusal]] = field(default_factory=list)
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    may_end: asyncio.Event = field(default_factory=asyncio.Event)
    written: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)

    async def echo(self, call: Call, arguments: Mapping[str, Any]) -> Answer | Refusal:
        """Gives back what it was given."""
        self.calls.append(call)
        return Answer(f"echo {arguments['name']}", {"name": arguments["name"], "count": arguments.get("count", 1)})

    async def picture(self, call: Call, arguments: Mapping[str, Any]) -> Answer | Refusal:
        """A picture beside a text."""
        return Answer("a pixel", images=(Image("image/png", self.pixel),))

    async def refuse(self, call: Call, arguments: Mapping[str, Any]) -> Answer | Refusal:
        """A refusal of its own, though it has an output schema."""
        mend = refusal.Call("rift_task_attach", {"task": "task_abc", "takeover": True})
        return bad_arguments(mend, tool="stub", problems="no", has="", note="it is held")

    async def fail(self, call: Call, arguments: Mapping[str, Any]) -> Answer | Refusal:
        """A bug."""
        self.calls.append(call)
        raise RuntimeError("the secret inside")

    async def wait(self, call: Call, arguments: Mapping[str, Any]) -> Answer | Refusal:
        """Waits, having said why; only reads."""
        self.begun.set()
        await call.progress("waiting for the box")
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return Answer("waited")

    async def write(self, call: Call, arguments: Mapping[str, Any]) -> Answer | Refusal:
        """Writes, in two halves."""
        self.begun.set()
        await call.gone.wait()
        await self.may_end.wait()
        self.written.set()
        return Answer("written")

    def tools(self) -> list[Tool]:
        """The stubs, under names of the contract."""
        name = schemas.string("What to say.", minLength=1)
        handle = schemas.string("The task's handle.", minLength=1)
        echoed = schemas.answer(name=schemas.string(), count=schemas.integer())
        return [
            Tool(
                "rift_task_new", "Echo", "Says what it is told.",
                schemas.arguments(required={"name": name}, optional={"count": schemas.integer(low=1, high=9)}),
                self.echo, {"name": "hello"}, output_schema=echoed,
            ),
            Tool("rift_task_ls", "Wait", "Waits until it may end.", schemas.arguments(), self.wait, {}, read_only=True),
            Tool(
                "rift_task_attach", "Refuse", "Refuses.", schemas.arguments(required={"task": handle}), self.refuse,
                {"task": "task_abc"}, output_schema=echoed,
            ),
            Tool("rift_task_release", "Fail", "Fails.", schemas.arguments(), self.fail, {}, idempotent=True),
            Tool(
                "rift_task_close", "Write", "Writes in two halves.", schemas.arguments(), self.write, {},
                destructive=True,
            ),
            Tool("rift_vm_new", "Picture", "Shows a pixel.", schemas.arguments(), self.picture, {}, large=True),
            Tool("rift_vm_ls", "Slow", "Is too slow.", schemas.arguments(), self.wait, {}, budget=0.2),
            Tool(
                "rift_bash", "Break", "Breaks.", schemas.arguments(required={"task": handle}), self.fail,
                {"task": YOUR_HANDLE},
            ),
        ]  # fmt: skip

    async def note(self, act: Act, refused: Refusal) -> None:
        """What the audit would write."""
        self.refused.append((act, refused))


@asynccontextmanager
async def stub_server(*, tick: float = 5.0, body_bytes: int = 12 * 1024 * 1024, **guarded: Any) -> AsyncIterator[Stub]:
    """The stub tools, served. `tick` is how often a waiting client is told, in seconds; `guarded` is the guard's."""
    stub = Stub()
    server = McpServer(
        Registry(stub.tools()),
        cast(Deps, None),
        clock=SystemClock(),
        ids=SystemIds(),
        refused=stub.note,
        version="0.1",
        tick=tick,
        grace=0.1,
    )

    async def authenticate(token: str) -> Caller | None:
        if token == "rift_broken":
            raise ConnectionError("the database is away")
        return ADA if token == TOKEN else None

    guard = Guard(
        server,
        authenticate=authenticate,
        metadata_url="https://rift.example/.well-known/oauth-protected-resource/mcp",
        hosts=Hosts(["rift.example"]),
        body_bytes=body_bytes,
        **guarded,
    )
    app = Starlette(routes=mcp_routes(guard), lifespan=lambda _: server.run())
    async with served(app) as address:
        stub.url = f"{address}/mcp"
        yield stub
