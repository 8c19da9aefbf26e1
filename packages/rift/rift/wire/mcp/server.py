"""The MCP server: the SDK's low-level one, stateless over Streamable HTTP, with our checks before every tool.

One request is one call under a bearer token; there is no session. Revision 2026-07-28 and the handshake revisions
before it are served side by side. Source: the MCP specification, revisions 2026-07-28, 2025-11-25 and 2025-06-18.
"""

from __future__ import annotations

import asyncio
import base64
import json
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, cast

import structlog
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ContentBlock,
    GetPromptRequestParams,
    GetPromptResult,
    ImageContent,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    TextContent,
)
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from keel.clock import Clock
from keel.db import Busy
from keel.ids import Ids
from keel.refusal import Ask, Mend, Refusal, Retry, Stop
from rift import meters
from rift.audit import Act, NotBegun
from rift.deadline import Deadline
from rift.deps import Deps
from rift.people.model import Caller
from rift.secrecy import without_secrets
from rift.wire.mcp import resources
from rift.wire.mcp.arguments import read_arguments
from rift.wire.mcp.guard import BODY_BYTES, CALLER_KEY, error_response, replay
from rift.wire.mcp.registry import Registry
from rift.wire.mcp.scrub import act as scrubbed
from rift.wire.mcp.tool import Answer, Call, Tool
from rift.wire.observed import observed_call
from rift.wire.refusals import internal_error, no_answer, overloaded, refusal_result, unknown_tool

log = structlog.get_logger()

INSTRUCTIONS = (
    "Rift gives you boxes: Linux environments with a checkout of a repository, in which you run commands and read and "
    "write files. Call rift_whoami first: it says which repositories and watched refs you have, and ends with a line "
    "per gap naming the tool that closes it, or with ready and the rift_vm_new to call. Open a task with "
    "rift_task_new, keep the handle it answers, and give that handle as `task` in every call on your boxes."
)

TICK_SECONDS = 5.0
"""How often a client that waits hears of it: several give up after 60 s of silence."""
GRACE_SECONDS = 1.0
"""How long after its deadline a tool is still waited for."""
BUSY_SECONDS = 5
"""When a call that could not begin may be made again."""
SHUTDOWN_SECONDS = 3.0
"""How long the server waits, when it stops, for what calls have begun."""
RAW_ARGUMENTS = "rift/arguments"
"""Where a request's parameters keep arguments that are not an object until our own reader sees them."""
FRESH = CacheHint(ttl_ms=300_000, scope="public")
"""Lists that are the same for everybody."""

Context = ServerRequestContext[Any, Any]


class McpServer:
    """The tools of a registry as an ASGI application, to be put behind `Guard`.

    `refused` is told of every call that was refused before its tool ran. Enter `run()` once, around the
    application's life.

    The guard hands over the whole body in one message.
    """

    def __init__(
        self,
        registry: Registry,
        deps: Deps,
        *,
        clock: Clock,
        ids: Ids,
        refused: Callable[[Act, Refusal], Awaitable[object]],
        version: str = "",
        tick: float = TICK_SECONDS,
        grace: float = GRACE_SECONDS,
    ) -> None:
        self._registry = registry
        self._deps = deps
        self._clock = clock
        self._ids = ids
        self._refused = refused
        self._tick = tick
        self._grace = grace
        self._going: set[asyncio.Task[Answer | Refusal]] = set()
        self._tools = ListToolsResult(tools=list(registry.wire))
        self.server: Server[Any] = Server(
            "rift",
            version=version,
            title="Rift",
            instructions=INSTRUCTIONS,
            cache_hints={
                "server/discover": FRESH,
                "tools/list": FRESH,
                "prompts/list": FRESH,
                "resources/list": FRESH,
                "resources/templates/list": FRESH,
                "resources/read": FRESH,
            },
            get_tool_input_schema=registry.input_schema,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_prompts=_no_prompts,
            on_get_prompt=_no_prompt,
            on_list_resources=_resources,
            on_list_resource_templates=_no_templates,
            on_read_resource=_resource,
        )
        self.server.middleware.append(_keep_arguments)
        self._streaming = self._manager(streaming=True)
        self._plain = self._manager(streaming=False)

    def _manager(self, *, streaming: bool) -> StreamableHTTPSessionManager:
        return StreamableHTTPSessionManager(
            self.server, stateless=True, json_response=not streaming, max_request_body_size=BODY_BYTES
        )

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Serve while the block lasts; at its end, what calls have begun is given time to finish."""
        try:
            async with self._streaming.run(), self._plain.run():
                yield
        finally:
            if self._going:
                await asyncio.wait(self._going, timeout=SHUTDOWN_SECONDS)
            for task in self._going:
                task.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            response = error_response(
                405, "Rift's MCP endpoint takes POST only; it keeps no session.", {"Allow": "POST"}
            )
            await response(scope, receive, send)
            return
        accept, streams = _accept(scope["headers"])
        headers = [(name, value) for name, value in scope["headers"] if name != b"accept"]
        scope = {**scope, "headers": [*headers, (b"accept", accept)]}
        body = await receive()
        manager = self._streaming if streams and not self._large(body.get("body", b"")) else self._plain
        await manager.handle_request(scope, replay(body, receive), send)

    def _large(self, body: bytes) -> bool:
        """Whether this is a call whose answer may be too large for one event; read only where a name says it may be."""
        names = [tool.name for tool in self._registry if tool.large]
        if not any(name.encode() in body for name in names):
            return False
        try:
            message = json.loads(body)
        except (ValueError, RecursionError):
            return False  # the SDK says what is wrong with it
        params = message.get("params") if isinstance(message, dict) else None
        return isinstance(params, dict) and params.get("name") in names

    async def _list_tools(self, context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        return self._tools

    async def _call_tool(self, context: Context, params: CallToolRequestParams) -> CallToolResult:
        started = self._clock.monotonic()
        tool = self._registry.get(params.name)
        scope = cast(Request, context.request).scope
        if tool is None:
            unknown = unknown_tool(Stop(), hint=self._unknown(params.name))
            with _logged("tools/call"):
                caller: Caller = scope[CALLER_KEY]
                await self._refused(scrubbed(caller, "tools/call", {"name": params.name}, started), unknown)
            raise MCPError(INVALID_PARAMS, unknown.sentence)
        with (
            observed_call(scope, tool.name, context.params, self._ids) as (request, span),
            meters.CALLS_OPEN.track_inprogress(),
        ):
            said = await self._answer(context, params, tool, scope[CALLER_KEY], started, request)
            code = said.code if isinstance(said, Refusal) else None
            meters.answered(tool.name, code, self._clock.monotonic() - started)
            span.say(outcome=code or "ok")
        return _result(said)

    async def _answer(
        self, context: Context, params: CallToolRequestParams, tool: Tool, caller: Caller, started: float, request: str
    ) -> Answer | Refusal:
        """What the tool says, or why it was not asked."""
        raw = (context.params or {}).get(RAW_ARGUMENTS, params.arguments)
        arguments = read_arguments(tool, raw)
        if isinstance(arguments, Refusal):
            with _logged(tool.name):
                await self._refused(scrubbed(caller, tool.name, {}, started), arguments)
            return arguments
        report = _Report(context, self._clock, started)
        call = Call(
            deps=self._deps,
            act=scrubbed(caller, tool.name, arguments, started),
            request=request,
            deadline=Deadline(self._clock, tool.budget),
            progress=report.say,
        )
        return await self._finish(tool, call, arguments, report)

    async def _finish(self, tool: Tool, call: Call, arguments: Mapping[str, Any], report: _Report) -> Answer | Refusal:
        """Run the tool beside the request, so that a client that hangs up does not stop what has begun."""
        running = asyncio.create_task(_run(tool, call, arguments), name=f"{tool.name} {call.request}")
        self._going.add(running)
        running.add_done_callback(self._going.discard)
        try:
            while not running.done():
                left = call.deadline.started + tool.budget + self._grace - self._clock.monotonic()
                if left <= 0:
                    log.error("mcp.no_answer", tool=tool.name, seconds=tool.budget)
                    call.gone.set()
                    return no_answer(_mend(tool), tool=tool.name, seconds=round(tool.budget), request=call.request)
                await report.wait(running, min(self._tick, left))
            return running.result()
        except asyncio.CancelledError:
            call.gone.set()
            if tool.read_only and not tool.goes_on:
                running.cancel()
            raise

    def _unknown(self, name: str) -> str:
        close = get_close_matches(name[:80], [tool.name for tool in self._registry], n=3)
        return f"did you mean {' or '.join(close)}?" if close else "tools/list names those there are."


class _Report:
    """Tells a client that waits how long it has waited; the tool only leaves a message, so the wire never slows it."""

    def __init__(self, context: Context, clock: Clock, started: float) -> None:
        self._context = context
        self._clock = clock
        self._started = started
        self._message = ""
        self._said = asyncio.Event()
        self._last = 0.0

    async def say(self, message: str) -> None:
        """Leave a message for the client."""
        self._message = message
        self._said.set()

    async def wait(self, running: asyncio.Task[Answer | Refusal], seconds: float) -> None:
        """Until the tool is done, it says something, or `seconds` are over; in the last two the client is told."""
        said = asyncio.create_task(self._said.wait())
        try:
            await asyncio.wait({running, said}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            said.cancel()
        if running.done():
            return
        self._said.clear()
        elapsed = self._clock.monotonic() - self._started
        self._last = max(round(elapsed, 3), self._last + 0.001)
        message = self._message or "working"
        with suppress(Exception):  # a client that cannot be told is no reason to stop the tool
            await self._context.session.report_progress(self._last, message=f"{message} ({elapsed:.0f} s)")


@contextmanager
def _logged(tool: str) -> Iterator[None]:
    """A failure to record a call that did not run is logged; the caller is answered all the same."""
    try:
        yield
    except Exception:  # noqa: BLE001 - see above
        log.error("mcp.not_recorded", tool=tool, trace=without_secrets(traceback.format_exc()))


async def _run(tool: Tool, call: Call, arguments: Mapping[str, Any]) -> Answer | Refusal:
    """The tool's answer; when it raises, a refusal that tells the request's id and nothing else."""
    try:
        return await tool.run(call, arguments)
    except NotBegun:
        log.warning("mcp.overloaded", tool=tool.name)
        return overloaded(Retry(BUSY_SECONDS), tool=tool.name)
    except Busy:
        log.warning("mcp.overloaded", tool=tool.name, begun=True)
        return no_answer(_mend(tool), tool=tool.name, seconds=round(tool.budget), request=call.request)
    except Exception:  # noqa: BLE001 - whatever it is, the client learns an id and the log the rest
        trace = without_secrets(traceback.format_exc())  # as text: a renderer of frames would show their locals
        log.error("mcp.tool_failed", tool=tool.name, user=call.caller.user, trace=trace)
        return internal_error(_mend(tool), request=call.request)


def _mend(tool: Tool) -> Mend:
    """What to do when nobody knows how far a call came."""
    if tool.read_only or tool.idempotent:
        return Retry(5)
    return Ask(
        "the person who runs this Rift", "the request id finds the failure in its log; the call may have done its work"
    )


def _result(said: Answer | Refusal) -> CallToolResult:
    if isinstance(said, Refusal):
        return refusal_result(said)
    content: list[ContentBlock] = [TextContent(type="text", text=said.text)]
    content.extend(
        ImageContent(type="image", data=base64.b64encode(image.data).decode(), mime_type=image.media)
        for image in said.images
    )
    structured = dict(said.structured) if said.structured is not None else None
    return CallToolResult(content=content, structured_content=structured, is_error=False)


async def _keep_arguments(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Let arguments that are no object through the protocol's own check, for our reader to take or to refuse."""
    params = ctx.params
    if ctx.method == "tools/call" and params is not None and "arguments" in params:
        arguments = params["arguments"]
        if not isinstance(arguments, Mapping):
            rest = {name: value for name, value in params.items() if name != "arguments"}
            ctx = replace(ctx, params={**rest, RAW_ARGUMENTS: arguments})
    return await call_next(ctx)


def _accept(headers: list[tuple[bytes, bytes]]) -> tuple[bytes, bool]:
    """What the SDK shall see as `Accept`, and whether the client reads event streams.

    A missing header, or one that names JSON alone, is tolerated: such a client gets one JSON body.
    """
    accept = b",".join(value for name, value in headers if name == b"accept").decode("latin-1").lower()
    types = {part.split(";")[0].strip() for part in accept.split(",")}
    streams = bool(types & {"*/*", "text/*", "text/event-stream"})
    return (b"application/json, text/event-stream", True) if streams else (b"application/json", False)


async def _no_prompts(context: Context, params: PaginatedRequestParams | None) -> ListPromptsResult:
    return ListPromptsResult(prompts=[])


async def _no_prompt(context: Context, params: GetPromptRequestParams) -> GetPromptResult:
    raise MCPError(INVALID_PARAMS, "Unknown prompt: Rift has no prompts.")


async def _resources(context: Context, params: PaginatedRequestParams | None) -> ListResourcesResult:
    return resources.listed()


async def _no_templates(context: Context, params: PaginatedRequestParams | None) -> ListResourceTemplatesResult:
    return ListResourceTemplatesResult(resource_templates=[])


async def _resource(context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
    return resources.read(str(params.uri))
