"""One trace from a client's span to the command in its box and back; and no secret in it, in a log or in a number."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

import httpx2
import pytest
from tests.behaviour.conftest import put_away
from tests.behaviour.stack import program
from tests.behaviour.stack.collector import Collector, Seen, collecting
from tests.behaviour.stack.hands import Hands
from tests.behaviour.stack.stack import Stack
from tests.wire.clients import Raw

from keel.telemetry.tracing import ATTRIBUTES
from keel.testing import eventually
from keel.testing.plugin import Cluster

CLIENT = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"
MARKED = ("hunter2-command", "hunter2-path", "hunter2-content", "hunter2-output", "hunter2-handle", "hunter2-host")


@dataclass
class Traced:
    """A Rift that sends its traces, and where to."""

    stack: Stack
    collector: Collector


@pytest.fixture(scope="module")
def traced(cluster: Cluster) -> Iterator[Traced]:
    """Rift with a collector and the most talkative log."""
    name = f"traced_{os.getpid()}"
    wanted = {"Rift__Log__Level": "debug", "Rift__Log__Format": "json"}
    with collecting() as collector, pytest.MonkeyPatch.context() as patch:
        for variable, value in {**wanted, "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}.items():
            patch.setenv(variable, value)
        stack = Stack(cluster.create(name))
        try:
            stack.start()
            yield Traced(stack, collector)
        finally:
            stack.end()
            cluster.drop(name)


async def test_one_trace_shows_a_call_from_its_client_to_its_box_and_back(traced: Traced) -> None:
    hands = Hands(traced.stack)
    await hands.open()
    await hands.take()
    run = {"task": hands.task, "vm": hands.vm, "command": "sleep 0.2; exit 3", "timeout": 60, "block_for": 30}
    raw = Raw(traced.stack.url, traced.stack.tokens["ada"])
    meta = {"traceparent": f"00-{CLIENT}-{SPAN}-01", "tracestate": "x=" + "y" * 100_000}
    reply = await raw.rpc("tools/call", {"name": "rift_bash", "arguments": run, "_meta": meta})
    assert reply.result["structuredContent"]["exit"] == 3

    async def whole() -> bool:
        return {("rift", "POST /mcp"), ("rift-agent", "report")} <= traced.collector.of(CLIENT).keys()

    await eventually(whole, within=15, every=0.2)
    found = traced.collector.of(CLIENT)

    def above(span: Seen) -> str:
        return next((one.name for one in found.values() if one.id == span.parent), span.parent)

    assert {(service, name): above(span) for (service, name), span in found.items()} == {
        ("rift", "POST /mcp"): SPAN,
        ("rift", "rift_bash"): "POST /mcp",
        ("rift", "transaction"): "rift_bash",
        ("rift", "wait"): "rift_bash",
        ("rift", "queue"): "rift_bash",
        ("rift-agent", "command"): "rift_bash",
        ("rift-agent", "start"): "command",
        ("rift-agent", "run"): "command",
        ("rift-agent", "report"): "rift_bash",
    }
    order = [found["rift", "queue"], found["rift-agent", "start"], found["rift-agent", "run"],
             found["rift-agent", "report"]]  # fmt: skip
    assert all(one.start <= one.end for one in found.values())
    assert all(one.end <= after.start for one, after in itertools.pairwise(order))
    assert found["rift-agent", "run"].end - found["rift-agent", "run"].start >= 190_000_000
    call = found["rift", "POST /mcp"]
    assert call.start <= order[0].start
    assert order[-1].start <= call.end
    assert call.facts["http.response.status_code"] == 200
    assert call.facts["rift.request"] == reply.headers["x-request-id"]
    assert found["rift-agent", "command"].facts["rift.command.exit"] == 3
    await hands.close()


@pytest.mark.parametrize(
    "sent", ["", "00", f"00-{'0' * 32}-{SPAN}-01", f"ff-{CLIENT}-{SPAN}-01", "00-" + "a" * 200_000, "x\x1b[2J", 7, None]
)
async def test_a_place_that_is_none_is_ignored_and_the_call_is_answered(traced: Traced, sent: object) -> None:
    raw = Raw(traced.stack.url, traced.stack.tokens["ada"])
    reply = await raw.rpc("tools/call", {"name": "rift_whoami", "arguments": {}, "_meta": {"traceparent": sent}})
    assert not reply.result.get("isError")
    id = reply.headers["x-request-id"]

    def mine() -> list[Seen]:
        return [span for span in traced.collector.spans if span.facts.get("rift.request") == id]

    await eventually(lambda: {span.name for span in mine()} >= {"rift_whoami", "POST /mcp"}, within=10, every=0.2)
    (root,) = [span for span in mine() if span.name == "POST /mcp"]
    assert root.parent == ""


async def test_strangers_fill_nobodys_traces_and_a_header_places_a_call(traced: Traced) -> None:
    place = "1" * 32
    header: dict[str, str | None] = {"traceparent": f"00-{place}-{SPAN}-01"}
    for _ in range(20):
        await Raw(traced.stack.url, "rift_nobody").rpc("tools/call", {"name": "rift_whoami"}, headers=header)
    known = Raw(traced.stack.url, traced.stack.tokens["ada"])
    await known.rpc("tools/call", {"name": "rift_whoami", "arguments": {}}, headers=header)
    await eventually(lambda: ("rift", "POST /mcp") in traced.collector.of(place), within=10, every=0.2)
    assert len([span for span in traced.collector.spans if (span.trace, span.name) == (place, "POST /mcp")]) == 1


async def test_no_secret_text_path_or_output_is_in_a_log_a_trace_or_a_number(traced: Traced) -> None:
    hands = Hands(traced.stack)
    await hands.open("a task")
    await hands.take()
    command, path, content, output, handle, host = MARKED
    await hands.bash(f"echo {command} {output}; curl -m 2 https://{host}.example/ 2>&1; exit 5")
    await hands.write(f"/home/dev/{path}", content)
    await hands.read(f"/home/dev/{path}")
    await hands.read(f"/home/dev/missing-{path}")
    wrong = f"task_abcdefgh.{handle}-and-more"
    await hands.call("rift_bash", task=wrong, vm=hands.vm, command=command, timeout=9, block_for=1)
    await hands.call("rift_bash", task=hands.task, vm=path, command=command + "\0", timeout=9, block_for=1)
    await hands.call("rift_bash", task=hands.task, nonsense=content, command=[command])
    raw = Raw(traced.stack.url, traced.stack.tokens["ada"])
    await raw.post(b'{"jsonrpc": "2.0", "id": 1, "method": "' + command.encode())
    await raw.post({"jsonrpc": "2.0", "id": 1, "method": command, "params": {"arguments": {"x": content}}})
    await Raw(traced.stack.url, f"rift_{handle * 4}").rpc("tools/call", {"name": command, "arguments": {"a": content}})
    box = traced.stack.data / "boxes" / hands.vm
    agent = (box / "token").read_text().strip()
    numbers = traced.stack.url.removesuffix("/mcp") + "/metrics"
    secrets = [*MARKED, hands.task.partition(".")[2], *traced.stack.tokens.values(), agent]
    await hands.close()

    async with httpx2.AsyncClient() as http:
        page = (await http.get(numbers, params={"x": handle})).text
    await eventually(lambda: any(span.name == "job boxes.destroy" for span in traced.collector.spans), within=20)
    log = (traced.stack.data / "log").read_text()
    assert '"event": "http.request"' in log
    assert "rift_commands_ended_total" in page
    for secret in secrets:
        for what, text in (("log", log), ("numbers", page), ("traces", traced.collector.raw.decode("latin-1"))):
            assert secret not in text, (what, secret, re.findall(f".*{re.escape(secret)}.*", text)[:2])
    names = {name for span in traced.collector.spans for name in span.facts}
    assert names <= set(ATTRIBUTES.values())


async def test_a_collector_that_is_away_or_never_answers_costs_no_call_and_no_end(cluster: Cluster) -> None:
    """The port listens and nothing takes from it: a call, and the end of the server, are as quick as ever."""
    import socket

    name = f"away_{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as hole, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{hole.getsockname()[1]}")
        stack = Stack(cluster.create(name))
        try:
            stack.start()
            hands = Hands(stack)
            slow = [one.seconds for one in [await hands.call("rift_whoami") for _ in range(30)] if one.seconds > 1]
            assert not slow
            began = hands.clock.monotonic()
            await put_away(stack)
            stack.stop()
            assert hands.clock.monotonic() - began < 15
        finally:
            stack.end()
            cluster.drop(name)
    assert program.REPO
