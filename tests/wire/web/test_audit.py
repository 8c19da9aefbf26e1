"""The Audit page: what it shows to whom, what it takes in its address, one record with its proof, erasing."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from urllib.parse import quote, urlencode

import pytest
from tests.unit.records.world import World
from tests.wire.web.browsing import Browser

from keel.ledger.proof import parse
from rift.deps import Deps
from rift.records import actions
from rift.records.model import Place
from rift.wire.web.pages.audit import place_told, read_filter, read_place

HOSTILE = "<script>alert(1)</script>'\"&"
SECRET = "task_t3fbd463." + "s" * 43


@pytest.fixture
async def world(deps: Deps) -> World:
    """Ada is admin of red, in which Bob works; Cyd is elsewhere."""
    made = World(deps)
    for name in ("ada", "bob", "cyd"):
        await made.person(name)
    await made.team("red", ada="admin", bob="member")
    await made.task("task_b2345678", "bob")
    await made.box("b-red", "red", "task_b2345678", name="app-main-1")
    return made


async def bobs(world: World, **more: object) -> int:
    """A command of Bob's in a box of red."""
    told = {"text": "make test", "arguments": {"vm": "app-main-1"}, **more}
    return await world.record("rift_bash", "bob", task="task_b2345678", box="b-red", **told)  # type: ignore[arg-type]  # as a test has it


async def at(deps: Deps, name: str) -> Browser:
    browser = Browser(deps)
    await browser.sign_in(f"{name}@example.org")
    return browser


def seqs(html: str) -> list[int]:
    """The records that a page lists."""
    return [int(seq) for seq in re.findall(r'href="/app/audit/(\d+)"', html)]


async def test_the_page_lists_the_newest_first_with_who_what_and_where(world: World, deps: Deps) -> None:
    one, other = await bobs(world), await bobs(world, outcome="vm_unknown")
    page = (await (await at(deps, "ada")).get("/app/audit?tool=rift_bash")).text
    assert seqs(page) == [other, one]
    for told in ("bob@example.org", "by <bdi>Claude", "app-main-1", "refused", "vm_unknown", "done", "5.0 ms"):
        assert told in page
    assert "the task task_b2345678" not in page  # the name of a task is its owner's
    assert "the task task_b2345678" in (await (await at(deps, "bob")).get("/app/audit?tool=rift_bash")).text


async def test_a_push_is_listed_as_begun_and_with_what_became_of_it_and_is_found_by_its_verb(
    world: World, deps: Deps
) -> None:
    told = {"repo": "red/app", "refs": {"refs/heads/fix": "0..1"}}
    outcomes = ("begun", "broken_off", "begun", "unknown", "push_refused")
    made = [
        await world.record("push", "bob", task="task_b2345678", box="b-red", outcome=one, via="box", arguments=told)
        for one in outcomes
    ]
    await bobs(world)
    bob = await at(deps, "bob")
    page = (await bob.get("/app/audit?tool=push")).text
    assert seqs(page) == made[::-1]
    for words in (">begun<", ">broken off<", ">unknown<", ">refused<", "by <bdi>the box&#39;s door"):
        assert words in page
    assert page.count(">refused<") == 1
    assert seqs((await bob.get("/app/audit?tool=push&outcome=refused")).text) == [made[4]]
    assert seqs((await bob.get("/app/audit?tool=push&outcome=begun")).text) == [made[2], made[0]]
    assert "refs/heads/fix" in (await bob.get(f"/app/audit/{made[0]}")).text


async def test_signing_in_and_what_is_done_on_pages_is_listed_as_a_persons_own(world: World, deps: Deps) -> None:
    page = (await (await at(deps, "cyd")).get("/app/audit")).text
    assert "web sign in" in page
    assert "by <bdi>a browser" in page
    assert "cyd@example.org" in page


async def test_a_record_of_others_is_not_there_in_any_way(world: World, deps: Deps) -> None:
    seq = await bobs(world, text=None)
    await actions.seal(deps)
    cyd = await at(deps, "cyd")
    for path in (f"/app/audit/{seq}", f"/app/audit/{seq}/proof"):
        theirs, nobodys = await cyd.get(path), await cyd.get(path.replace(str(seq), "999999"))
        assert (theirs.status_code, nobodys.status_code) == (404, 404)
        assert theirs.text == nobodys.text
    for name, theirs_is, nobodys_is in (
        ("task", "task_b2345678", "task_zzzzzzzz"),
        ("vm", "b-red", "b-none"),
        ("vm", "app-main-1", "app-main-9"),
        ("person", "bob@example.org", "dan@example.org"),
    ):
        there = (await cyd.get(f"/app/audit?{name}={theirs_is}")).text
        nowhere = (await cyd.get(f"/app/audit?{name}={nobodys_is}")).text
        assert seqs(there) == []
        for spelled in (str, quote):
            there, nowhere = there.replace(spelled(theirs_is), "X"), nowhere.replace(spelled(nobodys_is), "X")
        assert there == nowhere


@pytest.mark.parametrize(
    "seq", ["0", "-1", "1e3", "01", "9" * 19, "9" * 400, "1;drop", "%00", "²", "1'--", "%F0%9F%92%A9", "None"]
)
async def test_what_is_no_number_of_a_record_has_no_page(world: World, deps: Deps, seq: str) -> None:
    ada = await at(deps, "ada")
    assert (await ada.get(f"/app/audit/{seq}")).status_code == 404
    assert (await ada.get(f"/app/audit/{seq}/proof")).status_code == 404


async def test_a_record_is_shown_whole_with_its_text_its_seal_and_a_proof_that_holds(world: World, deps: Deps) -> None:
    seq = await bobs(world)
    ada = await at(deps, "ada")
    page = (await ada.get(f"/app/audit/{seq}")).text
    assert "make test" in page
    assert "Not sealed yet" in page
    early = await ada.get(f"/app/audit/{seq}/proof")
    assert (early.status_code, early.headers["retry-after"]) == (409, "30")
    await actions.seal(deps)
    page = (await ada.get(f"/app/audit/{seq}")).text
    assert f"rift audit check record-{seq}.json" in page
    answer = await ada.get(f"/app/audit/{seq}/proof")
    assert answer.headers["content-disposition"] == f'attachment; filename="record-{seq}.json"'
    assert answer.headers["content-type"] == "application/json"
    proof = parse(answer.text)
    assert proof.problem() is None
    assert json.loads(proof.entry)["seq"] == seq
    assert "make test" not in answer.text


async def test_hostile_names_and_arguments_are_text_and_no_markup(world: World, deps: Deps) -> None:
    seq = await bobs(world, arguments={"path": HOSTILE, HOSTILE: [HOSTILE]}, text=HOSTILE, via=f"mcp:{HOSTILE}")
    await world.record(HOSTILE, "ada", outcome=HOSTILE, task=HOSTILE, box=HOSTILE)
    ada = await at(deps, "ada")
    asked = "&".join(f"{name}={quote(HOSTILE)}" for name in ("vm", "person", "tool", "outcome", "since", "task", "x"))
    for path in ("/app/audit", f"/app/audit/{seq}", f"/app/audit/{seq + 1}", f"/app/audit?{asked}",
                 f"/app/audit?tool={quote(HOSTILE)}"):  # fmt: skip
        page = (await ada.get(path)).text
        assert "<script>alert" not in page
        assert "alert(1)" in page
        assert "alert(1)</script>'\"" not in page


async def test_a_command_cannot_be_made_to_look_like_another(world: World, deps: Deps) -> None:
    seq = await bobs(world, text="make\t\u202etset\u2066\r\x1b[8m\u2028", arguments={"path": "a\u202eb\u200b"})
    page = (await (await at(deps, "bob")).get(f"/app/audit/{seq}")).text
    assert "make\t\\u202etset\\u2066\\u000d\\u001b[8m\\u2028" in page
    assert "a\\u202eb\\u200b" in page
    assert not set("\u202e\u2066\u200b\u2028\x1b") & set(page)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"since": "yesterday"}, "2h, 3d, 1w or an instant"),
        ({"until": "2026-13-45"}, "2h, 3d, 1w or an instant"),
        ({"since": "9" * 200 + "d"}, "2h, 3d, 1w or an instant"),
        ({"task": "the parser"}, "A task&#39;s id looks like"),
        ({"tool": "x" * 255}, "longer than 254"),
        ({"vm": "a\x01b"}, "a character that no such value has"),
        ({"person": "a\u202eb"}, "a character that no such value has"),
        ({"after": "7"}, "names no place"),
        ({"after": "1-" + "9" * 19}, "names no place"),
        ({"after": "9" * 18 + "-1"}, "names no place"),
    ],
)
async def test_a_field_that_cannot_be_read_says_what_it_takes_and_keeps_what_was_typed(
    world: World, deps: Deps, asked: dict[str, str], told: str
) -> None:
    answer = await (await at(deps, "ada")).get(f"/app/audit?{urlencode(asked)}&outcome=kept")
    assert answer.status_code == 400
    assert told in answer.text
    assert 'value="kept"' in answer.text
    assert seqs(answer.text) == []


@pytest.mark.parametrize(
    "asked",
    ["since=0001-01-01", "until=0001-01-01", "since=9999-12-31T23:59:59", "since=0001-01-01T00:00%2B14:00",
     "until=9999-12-31T23:59-14:00", "since=999999d", "after=1-1", f"after={'9' * 16}-1", "outcome=' OR 1=1 --",
     "tool=%25", "task=task_b2345678'; DROP TABLE ledger; --", "vm=b-red' OR '1'='1", "outcome=%25s %25(task)s",
     "nothing=of+the+kind", "since=&until=&task="],
)  # fmt: skip
async def test_odd_values_are_answered_and_find_nothing_of_others(world: World, deps: Deps, asked: str) -> None:
    seq = await bobs(world)
    answer = await (await at(deps, "cyd")).get(f"/app/audit?{asked}")
    assert answer.status_code in (200, 400)
    assert seq not in seqs(answer.text)
    assert await bobs(world) > seq


async def test_a_handle_in_the_filter_is_read_as_its_task_and_never_shown(world: World, deps: Deps) -> None:
    ada = await at(deps, "ada")
    for name in ("task", "vm", "person", "tool", "outcome", "since"):
        page = (await ada.get(f"/app/audit?{name}={SECRET}")).text
        assert "s" * 43 not in page, name
    assert 'value="task_t3fbd463"' in (await ada.get(f"/app/audit?task={SECRET}")).text


async def test_pages_lead_on_to_what_is_older_with_the_same_filter(world: World, deps: Deps) -> None:
    made = [await bobs(world) for _ in range(120)]
    ada = await at(deps, "ada")
    found: list[int] = []
    path: str | None = "/app/audit?tool=rift_bash&vm=app-main-1"
    while path:
        page = (await ada.get(path)).text
        found += seqs(page)
        older = re.search(r'rel="next" href="([^"]+)"', page)
        path = older[1].replace("&amp;", "&") if older else None
    assert found == made[::-1]


async def test_what_a_page_shows_is_there_as_json_too(world: World, deps: Deps) -> None:
    seq = await bobs(world)
    answer = await (await at(deps, "ada")).get("/app/audit/export?tool=rift_bash")
    told = answer.json()
    assert [one["seq"] for one in told["records"]] == [seq]
    assert told["next"] is None
    assert "make test" not in answer.text
    assert (await (await at(deps, "cyd")).get("/app/audit/export?tool=rift_bash")).json()["records"] == []
    assert (await (await at(deps, "cyd")).get("/app/audit/export?since=never")).status_code == 400


async def test_texts_are_erased_after_a_second_step_and_the_page_says_so(world: World, deps: Deps) -> None:
    seq = await bobs(world)
    bob, cyd = await at(deps, "bob"), await at(deps, "cyd")
    page = (await bob.get("/app/audit?task=task_b2345678")).text
    assert "1 kept for records" in page
    assert "90 days" in page
    refused = await cyd.submit("/app/audit", "/app/audit/erase", task="task_b2345678")
    other = await cyd.submit("/app/audit", "/app/audit/erase", task="task_zzzzzzzz")
    assert (refused.status_code, other.status_code) == (404, 404)
    assert refused.text.replace("task_b2345678", "X") == other.text.replace("task_zzzzzzzz", "X")
    assert (await bob.post("/app/audit/erase", {"task": "task_b2345678"})).status_code == 403  # no csrf
    assert "make test" in (await bob.get(f"/app/audit/{seq}")).text
    gone = await bob.submit("/app/audit", "/app/audit/erase", task="task_b2345678")
    assert (gone.status_code, gone.headers["location"]) == (303, "/app/audit?task=task_b2345678")
    page = (await bob.get("/app/audit?task=task_b2345678")).text
    assert "web erase texts" in page
    shown = (await bob.get(f"/app/audit/{seq}")).text
    assert "make test" not in shown
    assert "It was erased" in shown
    assert (await bob.submit("/app/audit", "/app/audit/erase", task="what?")).status_code == 404


async def test_what_was_typed_on_a_page_is_recorded_without_secrets_and_cut(world: World, deps: Deps) -> None:
    ada = await at(deps, "ada")
    typed = f"rift_{'t' * 43} {SECRET} https://ada:{'p' * 12}@example.org/ {'x' * 100_000}"
    await ada.submit("/app/account", "/app/account/sessions/end", session=typed)
    page = (await ada.get("/app/audit")).text
    found = [await ada.get(f"/app/audit/{seq}") for seq in seqs(page)]
    assert any("end session" in one.text and "your token" in one.text for one in found)
    for one in found:
        for secret in ("t" * 43, "s" * 43, "p" * 12, "x" * 1000):
            assert secret not in one.text


async def test_who_is_not_signed_in_is_sent_to_sign_in_and_back_to_the_filter(deps: Deps) -> None:
    answer = await Browser(deps).get("/app/audit?task=task_b2345678&vm=b-red")
    assert answer.headers["location"] == "/sign-in?next=%2Fapp%2Faudit%3Ftask%3Dtask_b2345678%26vm%3Db-red"


def test_a_place_in_the_list_is_read_as_it_was_told() -> None:
    for place in (
        Place(datetime(2026, 11, 30, 16, 20, 0, 123456, UTC), 4711),
        Place(datetime(1970, 1, 1, tzinfo=UTC), 1),
    ):
        assert read_place(place_told(place)) == place
    for text in ("", "1", "-1-1", "1-", "a-1", "1-1-1", "1-١", " 1-1"):
        assert read_place(text) is None


def test_a_filter_says_of_every_field_at_once_what_is_wrong() -> None:
    now = datetime(2026, 11, 30, tzinfo=UTC)
    found = read_filter({"since": "soon", "until": "later", "task": "x", "tool": "y" * 300}, now)
    assert set(found.wrong) == {"since", "until", "task", "tool"}
