"""The agents' door: what is out of shape is 400 with the reason, who is over is 410, and neither changes anything."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from starlette.applications import Starlette
from tests.behaviour.machines.harness import Place

from rift.agents.model import Agent
from rift.wire.agent.routes import BODY_MOST, EVENTS_MOST, UNKNOWN_MOST, routes

ENDED = {"type": "ended", "n": 1, "exit": 0, "reason": None, "size": 0, "tail": ""}
WORK = {"known": [], "wait": 0}


class Door:
    """One agent at the door."""

    def __init__(self, http: httpx2.AsyncClient, agent: Agent) -> None:
        self._http = http
        self.agent = agent

    async def post(
        self, what: str, body: Any = None, *, raw: bytes | AsyncIterator[bytes] | None = None, **other: Any
    ) -> httpx2.Response:
        """Its request, with another box, incarnation or token where the test says so."""
        box = quote(other.get("box", self.agent.box), safe="")
        path = f"/agent/v1/{box}/{other.get('incarnation', self.agent.incarnation)}/{what}"
        token = {"Authorization": f"Bearer {other.get('token', self.agent.token)}"}
        if raw is not None:
            return await self._http.post(path, content=raw, headers=token)
        return await self._http.post(path, json=body, headers=token)


@pytest.fixture
async def door(rift: Place) -> AsyncIterator[Door]:
    lease = await rift.open_task()
    box = await rift.running_box(lease.handle)
    await rift.bash(lease.handle, box.id)
    transport = httpx2.ASGITransport(Starlette(routes=routes(rift.deps)))
    async with httpx2.AsyncClient(transport=transport, base_url="http://door") as http:
        made = Door(http, rift.agent(box.id))
        given = (await made.post("work", WORK)).json()
        assert [command["n"] for command in given["commands"]] == [1]
        yield made


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b"7", b"null", b"\xff", b"[" * 100_000,
        b'{"events": {}}', b'{"events": [7]}', b'{"events": [{"type": "down"}]}',
    ],
)  # fmt: skip
async def test_a_body_that_is_none_is_400_with_the_reason(door: Door, body: bytes) -> None:
    said = await door.post("events", raw=body)
    assert said.status_code == 400, said.text
    assert said.json()["error"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"n": "1"}, {"n": -1}, {"n": None}, {"n": True}, {"n": 2**62}, {"size": -1}, {"size": 2**62}, {"size": None},
        {"exit": "zero"}, {"exit": -1}, {"exit": 2**31}, {"exit": 10**40}, {"tail": "…"}, {"tail": "A" * 40_000},
    ],
)  # fmt: skip
async def test_an_end_out_of_shape_ends_nothing(rift: Place, door: Door, wrong: dict[str, object]) -> None:
    said = await door.post("events", {"events": [ENDED | wrong]})
    assert said.status_code == 400, said.text
    assert [row["state"] for row in await rift.rows("SELECT state FROM commands")] == ["claimed"]


async def test_of_several_events_one_out_of_shape_leaves_all_unheard(rift: Place, door: Door) -> None:
    assert (await door.post("events", {"events": [ENDED, {"type": "no"}]})).status_code == 400
    assert (await door.post("events", {"events": [ENDED] * (EVENTS_MOST + 1)})).status_code == 400
    assert [row["state"] for row in await rift.rows("SELECT state FROM commands")] == ["claimed"]
    assert (await door.post("events", {"events": [ENDED]})).status_code == 200
    assert [row["state"] for row in await rift.rows("SELECT state FROM commands")] == ["finished"]


async def test_a_reason_with_what_no_database_holds_is_kept_without_it(rift: Place, door: Door) -> None:
    assert (await door.post("events", raw=b'{"events": [{"type": "ended", "n": 1, "exit": 1, "size": 0, "tail": "",'
                            b' "reason": "a\\u0000b\\ud800c"}]}')).status_code == 200  # fmt: skip
    assert [row["reason"] for row in await rift.rows("SELECT reason FROM commands")] == ["a\ufffdb?c"]


@pytest.mark.parametrize("body", [{"known": "x"}, {"known": [None]}, {"power": [1]}, {"power": 7}, {"wait": "long"}])
async def test_a_request_for_work_out_of_shape_is_400(door: Door, body: dict[str, object]) -> None:
    assert (await door.post("work", WORK | body)).status_code == 400


@pytest.mark.parametrize("number", [b"1e999", b"-1e999", b"NaN"])
@pytest.mark.parametrize("body", [b'{"wait": %b}', b'{"known": [%b]}', b'{"power": [%b, 0]}'])
async def test_a_number_that_no_count_is_can_be_nothing_but_400(door: Door, body: bytes, number: bytes) -> None:
    assert (await door.post("work", raw=body % number)).status_code == 400


async def test_numbers_larger_than_any_command_are_only_unknown(door: Door) -> None:
    said = await door.post("work", WORK | {"known": [1, 10**30], "stopping": [2**70]})
    assert (said.status_code, said.json()["commands"]) == (200, [])


@pytest.mark.parametrize("id", ["nobody asked", "a\0b", 7, None, "x" * 10_000])
async def test_an_answer_that_nobody_waits_for_changes_nothing(door: Door, id: object) -> None:
    said = await door.post("answers", {"id": id, "n": 1, "first": 0, "size": 1, "data": "eA=="})
    assert said.status_code == 200, said.text


async def test_a_body_without_end_is_not_read_to_its_end(door: Door) -> None:
    said = await door.post("answers", raw=b'{"data": "' + b"A" * BODY_MOST + b'"}')
    assert (said.status_code, "more than" in said.text) == (400, True)


@pytest.mark.parametrize("token", ["guess", None])
async def test_a_large_body_is_read_from_the_boxs_agent_alone(door: Door, token: str | None) -> None:
    read = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal read
        for part in (b'{"events": [', b" " * UNKNOWN_MOST, b"]}"):
            read += 1
            yield part

    said = await door.post("events", raw=body(), token=token or door.agent.token)
    assert (said.status_code, read) == ((410, 0) if token else (200, 3))


@pytest.mark.parametrize(
    "other", [{"token": "guess"}, {"incarnation": 2}, {"incarnation": 10**30}, {"box": "b-none"}, {"box": "a\0b"}]
)
@pytest.mark.parametrize("what", ["work", "events", "answers"])
async def test_who_is_not_the_boxs_agent_now_is_told_that_it_is_over(
    rift: Place, door: Door, what: str, other: dict[str, Any]
) -> None:
    bodies: dict[str, Any] = {
        "work": WORK,
        "events": {"events": [ENDED]},
        "answers": {"id": "a", "n": 1, "first": 0, "size": 1, "data": "eA=="},
    }
    assert (await door.post(what, bodies[what], **other)).status_code == 410
    assert [row["state"] for row in await rift.rows("SELECT state FROM commands")] == ["claimed"]


async def test_without_a_token_nobody_is_heard(door: Door) -> None:
    assert (await door.post("work", WORK, token="")).status_code == 401


REFUSED = {"type": "refused", "n": 1, "host": "evil.example", "port": 443, "why": "not_listed", "count": 3}


async def test_a_refused_connection_is_one_row_of_the_tasks_owner(rift: Place, door: Door) -> None:
    """Told twice, as after an answer that was lost, it is recorded once."""
    others = REFUSED | {"n": 2, "host": "", "port": 0, "why": "others", "count": 900}
    for events in ([REFUSED], [REFUSED, others], [REFUSED, others]):
        assert (await door.post("events", {"events": events})).status_code == 200
    found = await rift.rows(
        "SELECT actor, via, task, box, outcome, arguments FROM ledger WHERE action = 'network' ORDER BY seq"
    )
    task = (await rift.box(door.agent.box)).task
    assert task is not None
    same = {"actor": rift.ada.user, "via": "agent", "task": task, "box": door.agent.box}
    assert found == [
        same | {"outcome": "not_listed", "arguments": {"host": "evil.example", "port": 443, "count": 3}},
        same | {"outcome": "others", "arguments": {"count": 900}},
    ]


async def test_a_new_start_of_the_agent_counts_its_refusals_anew(rift: Place, door: Door) -> None:
    assert (await door.post("events", {"events": [REFUSED | {"n": 7}]})).status_code == 200
    await rift.rows("UPDATE boxes SET incarnation = 2 RETURNING id")
    assert (await door.post("events", {"events": [REFUSED]}, incarnation=2)).status_code == 200
    assert len(await rift.rows("SELECT FROM ledger WHERE action = 'network'")) == 2


async def test_what_a_warm_box_was_refused_is_nobodys(rift: Place) -> None:
    (box,) = await rift.warm(1)
    transport = httpx2.ASGITransport(Starlette(routes=routes(rift.deps)))
    async with httpx2.AsyncClient(transport=transport, base_url="http://door") as http:
        assert (await Door(http, rift.agent(box.id)).post("events", {"events": [REFUSED]})).status_code == 200
    found = await rift.rows("SELECT actor, task, box FROM ledger WHERE action = 'network'")
    assert found == [{"actor": None, "task": None, "box": box.id}]


@pytest.mark.parametrize(
    "wrong",
    [
        {"host": "a\x00b"}, {"host": "a\nb"}, {"host": "a b"}, {"host": "\u202ea"}, {"host": "a" * 254}, {"host": None},
        {"host": ["a"]}, {"host": "A.example"}, {"host": "a\n"}, {"port": -1}, {"port": "443"}, {"port": 100_000},
        {"port": True}, {"why": "because"}, {"why": None}, {"why": ["not_listed"]}, {"count": 0}, {"count": -1},
        {"count": 2**31}, {"count": 1.5}, {"n": None}, {"n": 2**32},
    ],
)  # fmt: skip
async def test_a_refusal_out_of_shape_is_400_and_no_row(rift: Place, door: Door, wrong: dict[str, object]) -> None:
    said = await door.post("events", {"events": [REFUSED | wrong]})
    assert said.status_code == 400, said.text
    assert await rift.rows("SELECT FROM ledger WHERE action = 'network'") == []
