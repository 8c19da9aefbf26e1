"""`/healthz`, `/readyz`, `/metrics` and the request's id, over HTTP, on a whole Rift with boxes in memory."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, LiteralString

import httpx2
import psycopg
import pytest
from prometheus_client.openmetrics import parser
from prometheus_client.parser import text_string_to_metric_families as prometheus
from tests.wire.clients import Raw
from tests.wire.serving import served
from tests.wire.whole import Whole, whole_rift

from keel.testing import eventually
from keel.testing.plugin import FreshDatabase
from rift import meters
from rift.people import actions as people
from rift.serving import web
from rift.settings import RiftSettings, TelemetrySettings

ID = re.compile(r"r-[0-9a-f]{12}")
HOSTILE = 'x"} 1\nrift_fake{a="\\'


@pytest.fixture
async def whole(database: FreshDatabase, tmp_path: Path) -> AsyncIterator[Whole]:
    async with whole_rift(database, tmp_path) as made:
        yield made


@pytest.fixture
async def http(whole: Whole) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=whole.url.removesuffix("/mcp"), timeout=30) as client:
        yield client


open_metrics: Any = parser.text_string_to_metric_families


async def numbers(http: httpx2.AsyncClient, name: str) -> dict[frozenset[str], float]:
    """The samples of one metric, by the values of their labels, as a scraper reads them."""
    page = await http.get("/metrics")
    assert page.status_code == 200, page.text
    found = {}
    for family in prometheus(page.text):
        for sample in family.samples:
            if sample.name == name:
                found[frozenset(sample.labels.values())] = sample.value
    return found


async def box(raw: Raw) -> tuple[str, str]:
    """A task's handle and a box in it that runs."""
    await raw.call("rift_watch", {"repo": "acme/app", "ref": "main", "warm": 0})
    task = re.search(r"handle: (\S+)", str((await raw.call("rift_task_new", {"name": "work"})).result))
    assert task
    handle = task[1].split("\\n")[0]
    made = str((await raw.call("rift_vm_new", {"task": handle, "repo": "acme/app", "ref": "main"})).result)
    found = re.search(r"b-[0-9a-f]{24}", made)
    assert found, made
    return handle, found[0]


async def as_owner(database: FreshDatabase, statement: LiteralString, *values: str) -> None:
    """One statement, in a thread: it may wait for a transaction of the server's, which lives in this test's loop."""

    def run() -> None:
        with psycopg.connect(database.owner, autocommit=True) as owner:
            owner.execute(statement, values)

    await asyncio.to_thread(run)


async def test_the_pages_tell_a_stranger_whether_and_nothing_else(whole: Whole, http: httpx2.AsyncClient) -> None:
    assert (await http.get("/healthz")).json() == {"status": "ok"}

    async def ready() -> bool:
        return (await http.get("/readyz")).status_code == 200

    await eventually(ready, within=20)
    told = (await http.get("/readyz")).json()
    assert told == {"status": "ready", "checks": dict.fromkeys(
        ("serving", "database", "signals", "worker", "room"), "ok")}  # fmt: skip


async def test_a_process_that_stops_lives_and_is_no_longer_ready(whole: Whole, http: httpx2.AsyncClient) -> None:
    async def serving() -> str:
        return str((await http.get("/readyz")).json()["checks"]["serving"])

    assert await serving() == "ok"
    whole.deps.signals.close()

    async def failing() -> bool:
        return await serving() == "failing"

    await eventually(failing, within=5)
    assert (await http.get("/readyz")).status_code == 503
    assert (await http.get("/healthz")).status_code == 200


async def test_a_database_at_another_step_is_not_ready(
    whole: Whole, http: httpx2.AsyncClient, database: FreshDatabase
) -> None:
    await as_owner(database, "UPDATE alembic_version SET version_num = '0000'")

    async def failing() -> bool:
        return bool((await http.get("/readyz")).json()["checks"]["database"] == "failing")

    await eventually(failing, within=5)


async def test_every_answer_carries_an_id_of_ours_whatever_came_with_the_request(
    whole: Whole, http: httpx2.AsyncClient
) -> None:
    sent = {"X-Request-Id": "r-000000000000", "traceparent": "00-" + "a" * 5000}
    ids = []
    for method, path in (("GET", "/healthz"), ("GET", "/nowhere"), ("POST", "/mcp"), ("GET", "/mcp"),
                         ("POST", "/agent/v1/b-1/1/work"), ("DELETE", "/metrics")):  # fmt: skip
        answer = await http.request(method, path, headers=sent)
        assert len(answer.headers.get_list("x-request-id")) == 1
        ids.append(answer.headers["x-request-id"])
        if answer.status_code >= 400 and path.startswith(("/mcp", "/agent")):
            assert ids[-1] in answer.text
    assert len(set(ids)) == len(ids)
    assert all(ID.fullmatch(id) for id in ids), ids


async def test_a_call_that_fails_inside_tells_the_id_that_its_answer_carries(
    whole: Whole, http: httpx2.AsyncClient, database: FreshDatabase
) -> None:
    raw = Raw(whole.url, whole.token)
    await as_owner(database, "ALTER TABLE tasks RENAME TO tasks_gone")
    before = meters.CALLS.labels("rift_task_new", "error")._value.get()
    reply = await raw.call("rift_task_new", {"name": "work"})
    assert reply.result["isError"]
    assert reply.headers["x-request-id"] in str(reply.result)
    assert meters.CALLS.labels("rift_task_new", "error")._value.get() == before + 1


async def test_a_request_that_breaks_the_server_is_a_500_with_its_id_and_no_more(
    whole: Whole, http: httpx2.AsyncClient, database: FreshDatabase
) -> None:
    await as_owner(database, "ALTER TABLE boxes RENAME TO boxes_gone")
    answer = await http.post("/agent/v1/b-1/1/work", json={}, headers={"Authorization": "Bearer x"})
    assert answer.status_code == 500
    assert answer.json() == {"error": "Rift failed at this request", "request": answer.headers["x-request-id"]}
    page = await http.get("/metrics")
    assert page.status_code == 200
    assert "rift_database_up 0.0" in page.text
    assert "python_gc_objects_collected_total" in page.text


async def test_the_numbers_follow_what_calls_do(whole: Whole, http: httpx2.AsyncClient) -> None:
    raw = Raw(whole.url, whole.token)
    before = {name: await numbers(http, name) for name in (
        "rift_tool_calls_total", "rift_refusals_total", "rift_commands_ended_total", "rift_box_claim_seconds_count",
        "rift_http_requests_total", "rift_jobs_total", "rift_box_driver_seconds_count",
    )}  # fmt: skip
    task, vm = await box(raw)
    run = {"task": task, "vm": vm, "command": "true", "timeout": 60, "block_for": 20}
    assert (await raw.call("rift_bash", run)).result["structuredContent"]["exit"] == 0
    await raw.call("rift_bash", {**run, "vm": HOSTILE})
    await raw.call("rift_bash", {**run, "timeout": 0})

    risen = (
        ("rift_tool_calls_total", ("rift_bash", "ok")),
        ("rift_tool_calls_total", ("rift_bash", "refused")),
        ("rift_refusals_total", ("rift_bash", "vm_unknown")),
        ("rift_refusals_total", ("rift_bash", "bad_arguments")),
        ("rift_commands_ended_total", ("bash", "ok")),
        ("rift_box_claim_seconds_count", ("cold",)),
        ("rift_http_requests_total", ("POST", "/mcp", "200")),
        ("rift_http_requests_total", ("POST", "/agent/v1/{box}/{incarnation:int}/events", "200")),
        ("rift_jobs_total", ("boxes.start", "ok")),
        ("rift_box_driver_seconds_count", ("start", "ok")),
        ("rift_boxes", ("running", "task")),
        ("rift_tasks_open", ()),
        ("rift_workers", ()),
        ("rift_ledger_unsealed_rows", ()),
        ("rift_agent_polls_open", ()),
        ("rift_database_up", ()),
    )

    async def all_risen() -> bool:
        still = [
            (name, labels)
            for name, labels in risen
            if (await numbers(http, name)).get(frozenset(labels), 0) <= before.get(name, {}).get(frozenset(labels), 0)
        ]
        assert not still
        return True

    await eventually(all_risen, within=10, every=0.2)


async def test_names_that_callers_choose_add_no_series_and_break_no_line(
    whole: Whole, http: httpx2.AsyncClient, database: FreshDatabase
) -> None:
    raw = Raw(whole.url, whole.token)
    before = (await http.get("/metrics")).text.count("\n")
    for n in range(30):
        await raw.call(f"rift_{n}")
        await raw.call("rift_task_attach", {"task": f"task_{n}{HOSTILE}"})
        await http.request(f"METHOD{n}", f"/{n}/metrics?hostile={n}")
        await http.get(f"/{n}/metrics?hostile={n}")
        await http.post(f"/agent/v1/b-{n}/{n}/work")
    await as_owner(
        database,
        "INSERT INTO repos (id, org, owner, name, url, created_at) "
        "SELECT 'r' || n, org, owner, 'app' || n, url, now() FROM repos, generate_series(1, 120) AS n",
    )
    watches = "INSERT INTO watches (repo, ref, warm, created_at) SELECT id, %s, 1, now() FROM repos"
    await as_owner(database, watches, HOSTILE)

    async def all_there() -> bool:
        return len(await numbers(http, "rift_pool_wanted")) == 101

    await eventually(all_there, within=30, every=0.2)
    wanted = await numbers(http, "rift_pool_wanted")
    assert sum(wanted.values()) == 121
    assert wanted[frozenset({"(others)"})] == 21
    text = (await http.get("/metrics")).text
    assert not [line for line in text.splitlines() if line.startswith("rift_fake")]
    assert any("other" in labels for labels in await numbers(http, "rift_http_requests_total"))
    for sample in ("rift_29", "METHOD", "hostile", "b-29", "/29"):
        assert sample not in text
    added = text.count("\n") - before
    assert 0 < added < 1000, added  # of 121 pools two hundred and a few; the rest is the first call of each kind


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "rift.example.com"},
        {"X-Forwarded-For": "127.0.0.1"},
        {"Forwarded": "for=127.0.0.1"},
        {"Via": "1.1 proxy"},
        {"Host": ""},
        {"Host": "localhost:7433@evil.example"},
    ],
    ids=str,
)
async def test_numbers_are_not_for_whoever_comes_through_a_proxy_or_by_another_name(
    whole: Whole, http: httpx2.AsyncClient, headers: dict[str, str]
) -> None:
    answer = await http.get("/metrics", headers=headers)
    assert answer.status_code == 403
    assert "Rift:Telemetry:MetricsToken" in answer.text
    assert "rift_boxes" not in answer.text


async def test_with_a_token_of_its_own_the_numbers_are_for_who_has_it_from_anywhere(whole: Whole) -> None:
    token = "metrics-token-of-prometheus"
    settings = RiftSettings(telemetry=TelemetrySettings(metrics_token=token))
    async with served(web(replace(whole.deps, settings=settings))) as place, httpx2.AsyncClient() as http:
        for wrong in (None, "", "Bearer", "Bearer x", f"Basic {token}", token, f"Bearer {token}x"):
            answer = await http.get(f"{place}/metrics", headers={"Authorization": wrong} if wrong is not None else {})
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
            assert token not in answer.text
        far = {"Authorization": f"Bearer {token}", "Host": "rift.example.com", "X-Forwarded-For": "192.0.2.7"}
        assert (await http.get(f"{place}/metrics", headers=far)).status_code == 200
        # a person's token is none of Prometheus's, and the other way round
        assert (await http.post(f"{place}/mcp", headers={"Authorization": f"Bearer {token}"})).status_code == 401
        person = {"Authorization": f"Bearer {whole.token}"}
        assert (await http.get(f"{place}/metrics", headers=person)).status_code == 401


async def test_a_flood_of_scrapes_and_probes_is_a_handful_of_looks_at_the_database(
    whole: Whole, http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0
    look = whole.deps.db.look

    def counted() -> object:
        nonlocal looks
        looks += 1
        return look()

    from keel import cached
    from rift.health import store

    monkeypatch.setattr(type(whole.deps.db), "look", lambda self: counted())
    began = asyncio.get_running_loop().time()
    answers = await asyncio.gather(*(http.get(path) for path in ("/metrics", "/readyz") for _ in range(150)))
    took = asyncio.get_running_loop().time() - began
    assert {answer.status_code for answer in answers} <= {200, 503}
    assert cached.FRESH_SECONDS == 1.0
    assert store.POOLS_MOST == 100
    assert looks <= 4 + 2 * took + 10 * took  # two readings a second, beside what agents ask


async def test_both_forms_of_the_page_are_read_by_their_own_parsers(whole: Whole, http: httpx2.AsyncClient) -> None:
    accept = {"Accept": "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"}
    page = await http.get("/metrics", headers=accept)
    assert page.headers["content-type"].startswith("application/openmetrics-text")
    names = {family.name for family in open_metrics(page.text)}
    plain = await http.get("/metrics")
    assert plain.headers["content-type"].startswith("text/plain")
    assert {"rift_boxes", "rift_pool_ready", "rift_database_connections", "process_open_fds"} <= names
    assert {family.name for family in prometheus(plain.text)} >= {name for name in names if name.startswith("rift_")}


async def test_an_unknown_token_is_counted_by_status_and_never_by_itself(
    whole: Whole, http: httpx2.AsyncClient
) -> None:
    secret = "rift_" + "s" * 43
    await http.post("/mcp", headers={"Authorization": f"Bearer {secret}"})

    async def told() -> bool:
        return frozenset({"POST", "/mcp", "401"}) in await numbers(http, "rift_http_requests_total")

    await eventually(told, within=5, every=0.2)
    assert secret not in (await http.get("/metrics")).text
    assert await people.authenticate(whole.deps, secret) is None
