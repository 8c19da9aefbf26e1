"""`/audit…` over HTTP: pages, sums, checkpoints, proofs; all of it behind the admin key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.unit.onbe.records.conftest import KEY, Build, House

from keel.db import Database
from keel.ledger.proof import parse
from onbe.migrations import in_schema
from onbe.records import actions, jobs
from onbe.serving import web
from onbe.settings import OnbeSettings

PATHS = ("/audit", "/audit/summary?by=agent", "/audit/checkpoints", "/audit/records/1/proof")


async def get(house: House, path: str, key: str | None = KEY, **query: str) -> httpx2.Response:
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(web(house.deps)), base_url="http://onbe") as client:
        return await client.get(path, params=query or None, headers=headers)


async def told(house: House, path: str, **query: str) -> Any:
    answer = await get(house, path, **query)
    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "no-store"
    return answer.json()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("key", [None, "", "x" * 40, KEY[:-1], f"{KEY}x", "é" * 40])
async def test_nothing_is_read_without_the_admin_key(house: House, path: str, key: str | None) -> None:
    if key and not key.isascii():
        headers = {b"Authorization": f"Bearer {key}".encode()}
        transport = httpx2.ASGITransport(web(house.deps))
        async with httpx2.AsyncClient(transport=transport, base_url="http://onbe") as client:
            answer = await client.get(path, headers=headers)
    else:
        answer = await get(house, path, key)
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"
    assert KEY not in answer.text
    (record,) = (await told(house, "/audit"))["records"]
    assert (record["action"], record["reason"]) == ("admin.denied", "admin_key_wrong")


async def test_reading_with_the_key_leaves_no_record(house: House) -> None:
    for path in PATHS:
        await get(house, path)
    assert (await told(house, "/audit"))["records"] == []


async def test_without_a_key_in_the_settings_there_is_no_audit(build: Build) -> None:
    async with build(OnbeSettings()) as house:
        assert {(await get(house, path)).status_code for path in PATHS} == {503}


async def test_a_record_is_told_by_the_names_of_the_contract(house: House) -> None:
    await house.record(facts={"scope": "tickets:read", "depth": 1})
    await house.record(outcome="task_revoked")
    denied, allowed = (await told(house, "/audit"))["records"]
    assert allowed == {
        "seq": 1, "at": "2026-01-02T04:04:06.000000+00:00", "sponsor": "ada", "agent_id": "planner",
        "task_id": "task_1", "action": "token.refresh", "decision": "allow", "reason": None, "duration_ms": 1.5,
        "facts": {"scope": "tickets:read", "depth": 1},
    }  # fmt: skip
    assert (denied["decision"], denied["reason"]) == ("deny", "task_revoked")


async def test_pages_go_through_everything_once_whatever_comes_in_meanwhile(house: House) -> None:
    for number in range(23):
        await house.record(outcome="ok" if number % 3 else "task_expired", sponsor=f"person {number % 2}")
    for query in ({}, {"decision": "deny"}, {"decision": "task_expired"}, {"sponsor": "person 1"}):
        whole = [one["seq"] for one in (await told(house, "/audit", **query, limit="200"))["records"]]
        found: list[int] = []
        page = await told(house, "/audit", **query, limit="4")
        while True:
            found += [one["seq"] for one in page["records"]]
            if page["next"] is None:
                break
            await house.record(sponsor="somebody else")
            page = await told(house, "/audit", **query, limit="4", cursor=page["next"])
        assert found == whole
        assert found == sorted(found, reverse=True)


async def test_records_of_one_instant_are_each_on_one_page(house: House) -> None:
    for _ in range(9):
        await house.record()
    house.attack("UPDATE ledger SET at = '2026-01-02T05:00:00Z'")
    found: list[int] = []
    page = await told(house, "/audit", limit="2")
    while page["next"]:
        found += [one["seq"] for one in page["records"]]
        page = await told(house, "/audit", limit="2", cursor=page["next"])
    assert found + [one["seq"] for one in page["records"]] == list(range(9, 0, -1))


async def test_records_are_found_by_everything_they_name(house: House) -> None:
    await house.record("ada", "planner", "task_1")
    await house.record("ada", "coder", "task_2", "task_revoked")
    await house.record("bob", "coder", "task_3", "sponsor_disabled")
    await house.record(None, None, None, "assertion_signature")
    middle = "2026-01-02T04:04:07Z"
    asked: list[tuple[dict[str, str], list[int]]] = [
        ({"sponsor": "ada"}, [2, 1]), ({"agent_id": "coder"}, [3, 2]), ({"task_id": "task_3"}, [3]),
        ({"sponsor": "ada", "agent_id": "coder"}, [2]), ({"decision": "allow"}, [1]), ({"decision": "deny"}, [4, 3, 2]),
        ({"decision": "sponsor_disabled"}, [3]), ({"decision": "task_ending"}, []), ({"from": middle}, [4, 3, 2]),
        ({"to": middle}, [1]), ({"sponsor": "ada", "decision": "deny", "from": middle}, [2]), ({"sponsor": "eve"}, []),
    ]  # fmt: skip
    for query, seqs in asked:
        page = await told(house, "/audit", **query)
        assert [one["seq"] for one in page["records"]] == seqs, query


async def test_a_wrong_query_is_a_problem_that_names_every_fault(house: House) -> None:
    answer = await get(house, "/audit", sponsor="", limit="9999", decision="<script>", nothing="1")
    assert answer.status_code == 400
    document = answer.json()
    assert document["type"] == "urn:onbe:refusal:invalid_query"
    assert [one["parameter"] for one in document["errors"]] == ["nothing", "sponsor", "decision", "limit"]
    assert "<script>" not in answer.text
    for path in ("/audit/summary", "/audit/checkpoints?after=-1", "/audit/records/x/proof", "/audit/records/0/proof"):
        assert (await get(house, path)).status_code == 400, path


async def test_the_sums_are_by_agent_by_sponsor_and_by_reason(house: House) -> None:
    for sponsor, agent, outcome in (
        ("ada", "planner", "ok"), ("ada", "planner", "ok"), ("ada", "coder", "task_revoked"),
        ("bob", "coder", "task_revoked"), (None, None, "assertion_signature"),
    ):  # fmt: skip
        await house.record(sponsor, agent, outcome=outcome)
    house.clock.advance(1)

    async def sums(by: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await told(house, "/audit/summary", by=by))["sums"]
        return found

    assert await sums("sponsor") == [
        {"sponsor": "ada", "allow": 2, "deny": 1}, {"sponsor": "bob", "allow": 0, "deny": 1},
        {"sponsor": None, "allow": 0, "deny": 1},
    ]  # fmt: skip
    assert {one["agent"]: (one["allow"], one["deny"]) for one in await sums("agent")} == {
        "planner": (2, 0), "coder": (0, 2), None: (0, 1),
    }  # fmt: skip
    assert {one["reason"]: one["deny"] for one in await sums("reason")} == {
        "task_revoked": 2, "assertion_signature": 1,
    }  # fmt: skip


async def test_checkpoints_are_told_in_their_order_with_the_newest(house: House) -> None:
    empty = await told(house, "/audit/checkpoints")
    assert empty == {"checkpoints": [], "next": None, "newest": None}
    for _ in range(7):
        await house.record()
    await house.seal(3)
    first = await told(house, "/audit/checkpoints", limit="2")
    rest = await told(house, "/audit/checkpoints", limit="2", after=str(first["next"]))
    assert [one["number"] for one in first["checkpoints"] + rest["checkpoints"]] == [1, 2, 3]
    assert (rest["next"], rest["newest"]["number"]) == (None, 3)


async def test_a_record_is_proved_to_whoever_has_nothing_else(house: House) -> None:
    for _ in range(5):
        await house.record()
    early = await get(house, "/audit/records/3/proof")
    assert (early.status_code, early.headers["retry-after"]) == (409, "60")
    assert early.json()["type"] == "urn:onbe:refusal:record_unsealed"
    await jobs.seal(house.deps)
    proof = parse(json.dumps(await told(house, "/audit/records/3/proof")))
    assert proof.problem() is None
    assert json.loads(proof.entry)["seq"] == 3
    none = await get(house, "/audit/records/99/proof")
    assert (none.status_code, none.json()["type"]) == (404, "urn:onbe:refusal:record_unknown")


async def test_the_proof_of_an_archived_record_is_in_its_months_file(house: House, tmp_path: Path) -> None:
    for _ in range(3):
        await house.record()
    await house.seal()
    house.clock.advance(40 * 86400)
    await jobs.months(house.deps)
    async with Database(in_schema(house.owner)) as owner:
        await actions.archive(house.deps, owner, "2026-01", tmp_path, drop=True, tell=lambda step: None)
    gone = await get(house, "/audit/records/2/proof")
    assert gone.json()["type"] == "urn:onbe:refusal:record_archived"
    assert (gone.status_code, gone.json()["detail"]) == (
        410, "Record 2 went to the archive of 2026-01; that file proves it.",
    )  # fmt: skip
    assert [one["action"] for one in (await told(house, "/audit"))["records"]] == ["ledger.archived"]
    report = await actions.verify(house.deps, archives=[tmp_path / "ledger-2026-01.jsonl.gz"])
    assert (report.problems, report.archived, report.unseen) == ([], 3, 0)


async def test_sealing_goes_on_when_a_key_that_was_away_is_back(house: House) -> None:
    await house.record()
    (house.deps.data / "audit").write_text("in the way")
    await jobs.seal(house.deps)  # logged, and no more than that
    (house.deps.data / "audit").unlink()
    await jobs.seal(house.deps)
    assert (await told(house, "/audit/checkpoints"))["newest"]["last"] == 1


async def test_the_months_are_there_before_they_begin(house: House) -> None:
    house.clock.advance(28 * 86400)
    await jobs.months(house.deps)
    await jobs.months(house.deps)
    await house.record()
    async with house.deps.db.look() as tx:
        row = await tx.row("SELECT to_regclass('ledger_2026_02') AS this, tableoid::regclass::text AS of FROM ledger")
    assert row is not None
    assert row["of"] == "ledger_2026_01"
    assert row["this"] is not None
