"""Who reads which record: on a real database, as roles, teams, boxes and repositories come and go."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.unit.records.world import World, signed_in

from keel.refusal import Refusal
from rift.audit import Act
from rift.deps import Deps
from rift.records import actions
from rift.records.model import Place


@pytest.fixture
async def world(deps: Deps) -> World:
    """Ada is admin of red and member of blue, Bob the other way round; Cyd is in neither; Root is the platform's."""
    made = World(deps)
    for name in ("ada", "bob", "cyd"):
        await made.person(name)
    await made.person("root", admin=True)
    await made.team("red", ada="admin", bob="member")
    await made.team("blue", ada="member", bob="admin")
    return made


READS = {
    # record                                  ada    bob    cyd    root
    "ada's call":                            (True,  False, False, False),
    "bob's call in a box of red":            (True,  True,  False, False),
    "bob's call in a box of blue":           (False, True,  False, False),
    "ada's call in a box of blue":           (True,  True,  False, False),
    "upkeep of bob's task":                  (False, True,  False, False),
    "a warm box of red failed":              (True,  False, False, False),
    "a box of red in bob's task failed":     (True,  True,  False, False),
    "the operator's command":                (False, False, False, True),
    "the operator's command on cyd's task":  (False, False, True,  False),
    "root's call":                           (False, False, False, True),
    "cyd's call in a box of no repository":  (False, False, True,  False),
}  # fmt: skip
PEOPLE = ("ada", "bob", "cyd", "root")


async def recorded(world: World) -> dict[str, int]:
    """One record of each kind, by what it is."""
    await world.task("task_ada", "ada")
    await world.task("task_bob", "bob")
    await world.task("task_cyd", "cyd")
    await world.box("b-red-bob", "red", "task_bob")
    await world.box("b-blue-bob", "blue", "task_bob")
    await world.box("b-blue-ada", "blue", "task_ada")
    await world.box("b-red-warm", "red")
    made = {
        "ada's call": ("ada", "task_ada", None),
        "bob's call in a box of red": ("bob", "task_bob", "b-red-bob"),
        "bob's call in a box of blue": ("bob", "task_bob", "b-blue-bob"),
        "ada's call in a box of blue": ("ada", "task_ada", "b-blue-ada"),
        "upkeep of bob's task": (None, "task_bob", None),
        "a warm box of red failed": (None, None, "b-red-warm"),
        "a box of red in bob's task failed": (None, "task_bob", "b-red-bob"),
        "the operator's command": (None, None, None),
        "the operator's command on cyd's task": (None, "task_cyd", None),
        "root's call": ("root", None, None),
        "cyd's call in a box of no repository": ("cyd", None, "b-nowhere"),
    }
    return {what: await world.record(what, who, task=task, box=box) for what, (who, task, box) in made.items()}


async def test_each_person_reads_what_is_theirs_and_their_organizations_and_no_more(world: World) -> None:
    seqs = await recorded(world)
    for place, person in enumerate(PEOPLE):
        seen = set(await world.sees(person)) & set(READS)
        assert seen == {what for what, who in READS.items() if who[place]}, person
        assert seen == {what for what, seq in seqs.items() if await world.reads(person, seq)}, person


async def test_a_filter_shows_of_what_one_may_read_what_fits(world: World) -> None:
    await recorded(world)
    for place, person in enumerate(PEOPLE):
        readable = {what for what, who in READS.items() if who[place]}
        for task in ("task_ada", "task_bob", "task_cyd", "task_none"):
            seen = set(await world.sees(person, task=task))
            assert seen <= readable, (person, task)
        for box in ("b-red-bob", "b-blue-bob", "b-blue-ada", "b-red-warm", "b-none"):
            assert set(await world.sees(person, box=box)) <= readable, (person, box)
    assert await world.sees("ada", task="task_bob") == [
        "a box of red in bob's task failed", "bob's call in a box of red"
    ]  # fmt: skip
    assert len(await world.sees("bob", task="task_bob")) == 4
    assert await world.sees("ada", box="b-red-warm") == ["a warm box of red failed"]
    assert await world.sees("ada", whose="bob@example.org") == ["bob's call in a box of red"]
    assert await world.sees("cyd", whose="bob@example.org") == []
    assert await world.sees("ada", whose="nobody@example.org") == []
    assert "ada's call" in await world.sees("ada", whose="ADA@example.org ")
    assert await world.sees("ada", action="ada's call") == ["ada's call"]


async def test_a_role_that_is_taken_is_gone_at_the_next_look(world: World) -> None:
    seqs = await recorded(world)
    of_red = seqs["bob's call in a box of red"]
    assert await world.reads("ada", of_red)
    await world.role("red", "ada", "member")
    assert not await world.reads("ada", of_red)
    assert "bob's call in a box of red" not in await world.sees("ada")
    await world.role("red", "ada", None)
    assert await world.sees("ada", task="task_bob") == []
    assert await world.sees("ada", box="b-red-bob") == []
    await world.role("red", "ada", "admin")
    assert await world.reads("ada", of_red)


async def test_who_moves_to_another_team_takes_their_own_records_along_and_no_others(world: World) -> None:
    seqs = await recorded(world)
    await world.role("red", "bob", None)
    await world.role("blue", "bob", "member")
    assert await world.reads("bob", seqs["bob's call in a box of red"])
    assert await world.reads("ada", seqs["bob's call in a box of red"])
    assert not await world.reads("bob", seqs["ada's call in a box of blue"])


async def test_a_box_that_is_destroyed_and_a_repository_that_is_gone_keep_their_readers(world: World) -> None:
    seqs = await recorded(world)
    of_red = seqs["bob's call in a box of red"]
    await world.run("UPDATE boxes SET state = 'destroyed', ended_at = %(at)s WHERE id = 'b-red-bob'")
    assert await world.reads("ada", of_red)
    assert "bob's call in a box of red" in await world.sees("ada", box="b-red-bob")
    await world.run("DELETE FROM boxes WHERE id IN ('b-red-bob', 'b-red-warm')")
    await world.run("DELETE FROM repos WHERE id = 'repo_red'")
    assert await world.reads("ada", of_red)
    assert "bob's call in a box of red" in await world.sees("ada")


async def test_pages_go_on_from_a_place_and_repeat_and_miss_nothing(world: World) -> None:
    await world.task("task_bob", "bob")
    await world.box("b-red-bob", "red", "task_bob")
    for number in range(23):
        who = ("ada", "bob", None)[number % 3]
        await world.record(f"n{number}", who, task="task_bob", box="b-red-bob" if number % 2 else None)
    for asked in ({}, {"task": "task_bob"}, {"box": "b-red-bob"}, {"outcome": "ok"}):
        whole = [entry.seq for entry in (await world.page("ada", **asked)).entries]
        found: list[int] = []
        before: Place | None = None
        while True:
            page = await world.page("ada", **asked, before=before, limit=4)
            found += [entry.seq for entry in page.entries]
            if page.older is None:
                break
            before = page.older
        assert found == whole, asked
        assert len(set(found)) == len(found) > 5


async def test_a_search_for_what_is_rare_looks_so_far_and_says_how_far(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rift.records.store.LOOKED", 5)
    rare = await world.record("rare", "ada")
    for number in range(11):
        await world.record(f"n{number}", "ada")
    page = await world.page("ada", action="rare")
    assert (page.entries, page.looked) == ((), True)
    pages = 1
    while not page.entries:
        assert page.older is not None
        page = await world.page("ada", action="rare", before=page.older)
        pages += 1
    assert ([entry.seq for entry in page.entries], pages) == ([rare], 3)


async def test_a_period_begins_with_its_first_instant_and_ends_before_its_last(world: World) -> None:
    for number in range(4):
        await world.record(f"n{number}", "ada")
    first = world.at - timedelta(seconds=3)
    seen = await world.sees("ada", since=first + timedelta(seconds=1), until=first + timedelta(seconds=3))
    assert seen == ["n2", "n1"]
    assert await world.sees("ada", since=world.at + timedelta(days=1)) == []
    assert await world.sees("ada", since=world.at, until=first) == []


async def test_a_box_is_found_by_its_name_among_those_one_has_a_stake_in(world: World) -> None:
    await world.task("task_ada", "ada")
    await world.task("task_cyd", "cyd")
    await world.box("b-1", "red", "task_ada", name="app-main-1")
    await world.box("b-2", "blue", "task_cyd", name="app-main-1")
    await world.record("in red", "ada", task="task_ada", box="b-1")
    await world.record("in blue", "cyd", task="task_cyd", box="b-2")
    assert await world.sees("ada", box="app-main-1") == ["in red"]
    assert await world.sees("cyd", box="app-main-1") == ["in blue"]
    assert await world.sees("root", box="app-main-1") == []
    await world.box("b-3", "red", "task_ada", name="app-main-1")
    assert (await world.page("ada", box="app-main-1")).which == ("b-3", "b-1")


async def test_texts_are_erased_by_the_tasks_owner_and_by_an_admin_for_their_own_boxes(world: World) -> None:
    await world.task("task_bob", "bob")
    await world.box("b-red", "red", "task_bob")
    await world.box("b-blue", "blue", "task_bob")
    red = await world.record("rift_bash", "bob", task="task_bob", box="b-red", text="make red")
    blue = await world.record("rift_bash", "bob", task="task_bob", box="b-blue", text="make blue")

    async def erase(person: str, task: str = "task_bob") -> object:
        act = Act(signed_in(world.people[person]), "web erase texts", {"task": task}, 0.0)
        done = await actions.erase_of(world.deps, act, task)
        return done.code if isinstance(done, Refusal) else done.records

    async def kept(seq: int) -> str:
        whole = await actions.one_of(world.deps, signed_in(world.people["bob"]), seq)
        assert whole is not None
        return whole.text_state

    for person in ("cyd", "root"):
        assert await erase(person) == "nothing_to_erase"
    assert await erase("bob", "task_none") == "nothing_to_erase"
    assert (await world.page("ada", task="task_bob")).erasable == 1
    assert (await world.page("bob", task="task_bob")).erasable == 2
    assert (await world.page("cyd", task="task_bob")).erasable is None
    assert await erase("ada") == 1
    assert (await kept(red), await kept(blue)) == ("erased", "kept")
    assert "web erase texts" in await world.sees("bob", task="task_bob")
    assert "web erase texts" in await world.sees("ada", task="task_bob")
    assert await erase("bob") == 1
    assert (await kept(red), await kept(blue)) == ("erased", "erased")
    assert await erase("bob") == 0


async def test_a_proof_is_given_to_who_may_read_the_record(world: World) -> None:
    seqs = await recorded(world)
    seq = seqs["bob's call in a box of red"]
    ada, cyd = signed_in(world.people["ada"]), signed_in(world.people["cyd"])
    young = await actions.proof_of(world.deps, ada, seq)
    assert isinstance(young, Refusal)
    assert young.code == "not_sealed"
    await actions.seal(world.deps)
    proof = await actions.proof_of(world.deps, ada, seq)
    assert proof is not None
    assert not isinstance(proof, Refusal)
    assert proof.problem() is None
    assert await actions.proof_of(world.deps, cyd, seq) is None
    assert await actions.proof_of(world.deps, cyd, 4711) is None
