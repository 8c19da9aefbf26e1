"""Every refusal there is: each code is produced here or where it says, and each mend is a call that can be made."""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest
from tests.behaviour.machines.elsewhere import ELSEWHERE
from tests.behaviour.machines.harness import HEAD, URL, Place, silent
from tests.unit.people.house import act

import rift as package
from keel.refusal import CATALOGUE, YOUR_HANDLE, Call, Refusal
from rift.agents import actions as agents
from rift.audit import SystemAct
from rift.boxes import actions as boxes
from rift.boxes.model import Box
from rift.commands import actions as commands
from rift.commands.actions import Wanted
from rift.commands.model import End
from rift.deadline import Deadline
from rift.hosts import actions as hosts
from rift.invites import actions as invites
from rift.limits import actions as limits
from rift.limits.model import Change
from rift.origins import actions as origins
from rift.people import actions as people
from rift.records import actions as records
from rift.repos import actions as repos
from rift.repos.model import Network
from rift.tasks import actions as tasks
from rift.wire.mcp.arguments import read_arguments
from rift.wire.mcp.tools import TOOLS

ROOT = Path(__file__).parents[3]
OTHER = "https://example.org/other/app.git"
BY_NAME = {tool.name: tool for tool in TOOLS}

NOT_IN_THE_ROW = {"bad_arguments", "no_such_record"}
"""Decided before any action begins, or by a look on the command line, which is no record."""

Produced = AsyncIterator[object]


def catalogue() -> set[str]:
    """Every code, once every room with refusals has been entered."""
    for module in pkgutil.walk_packages(package.__path__, "rift."):
        if module.name.endswith(".refusals"):
            importlib.import_module(module.name)
    return set(CATALOGUE)


async def of_tasks(rift: Place) -> Produced:
    lease = await rift.open_task()
    yield await tasks.open_task(rift.deps, rift.act(), " \x07 ")
    yield await tasks.open_task(rift.deps, rift.act(), "x" * 201)
    for text in ("", "what?", lease.task.id, "task_zzzz2222.secret", f"{lease.task.id}.guess"):
        yield await boxes.list_boxes(rift.deps, rift.act(), text)
    yield await boxes.list_boxes(rift.deps, rift.act(rift.bob), lease.handle)
    yield await tasks.attach(rift.deps, rift.act(rift.cursor), lease.task.id, False)
    yield await tasks.attach(rift.deps, rift.act(), "nothing of the kind", True)
    await tasks.release(rift.deps, rift.act(), lease.handle)
    yield await boxes.list_boxes(rift.deps, rift.act(), lease.handle)
    again = await tasks.attach(rift.deps, rift.act(), lease.task.id, False)
    assert not isinstance(again, Refusal)
    await rift.close_task(again.handle)
    yield await boxes.list_boxes(rift.deps, rift.act(), again.handle)


async def of_boxes(rift: Place) -> Produced:
    task = (await rift.open_task()).handle
    yield await rift.suspend(task, "app-main-1")
    box = await rift.new_box(task)
    assert isinstance(box, Box)
    yield await rift.suspend(task, "app-main-7")
    yield await rift.suspend(task, box.id)
    await rift.work()
    assert await rift.up(box.id)
    for _ in range(4):
        await rift.bash(task, box.id)
    yield await rift.bash(task, box.id)
    yield await rift.suspend(task, box.id)
    rift.forge.repositories[OTHER] = {"main": HEAD}
    assert not isinstance(await origins.add_repo(rift.deps, None, "other/app", OTHER), Refusal)
    await origins.watch(rift.deps, rift.act(), "other/app", "main", 0)
    twin = await boxes.new_box(rift.deps, rift.act(), task, "other/app", "main", silent)
    assert isinstance(twin, Box)
    assert twin.name == box.name
    yield await rift.suspend(task, box.name)
    yield await boxes.new_box(rift.deps, rift.act(), task, "app", "main", silent)
    rift.driver.fail_starts.append("the checkout could not be made")
    await rift.work()
    yield await rift.bash(task, twin.id)
    yield await boxes.new_box(rift.deps, rift.act(), task, "other/app", "main", silent)
    await rift.destroy(task, twin.id)
    yield await rift.suspend(task, twin.id)
    await rift.work()
    yield await rift.bash(task, twin.id)
    async with rift.deps.db.tx() as tx:
        await tx.run("UPDATE members SET user_id = %(bob)s", {"bob": rift.bob.user})
    yield await rift.bash(task, box.id)
    async with rift.deps.db.tx() as tx:
        await tx.run("UPDATE members SET user_id = %(ada)s", {"ada": rift.ada.user})


async def of_limits(rift: Place) -> Produced:
    settings, task = rift.deps.settings, (await rift.open_task()).handle

    def bounded(**most: int) -> Place:
        given = settings.boxes.model_copy(update=most)
        return replace(rift, deps=replace(rift.deps, settings=settings.model_copy(update={"boxes": given})))

    one = settings.model_copy(update={"tasks": settings.tasks.model_copy(update={"per_person": 1})})
    yield await tasks.open_task(replace(rift.deps, settings=one), rift.act(), "one more")
    assert isinstance(await rift.new_box(task), Box)
    there = len(await rift.all_boxes())  # the destroyed ones too: more than count
    yield await bounded(per_person=1).new_box(task)
    yield await bounded(per_organization=1).new_box(task)
    yield await bounded(most=1).new_box(task)
    rift.driver.host = replace(rift.driver.host, disk_free=0)
    await hosts.report(rift.deps)
    yield await rift.new_box(task)
    assert len(await rift.all_boxes()) == there
    yield await origins.watch(bounded(per_organization=1).deps, rift.act(), "acme/app", "main", 2)
    rift.driver.host = replace(rift.driver.host, disk_free=2**40)
    rift.clock.advance(1)
    await hosts.report(rift.deps)


async def of_commands(rift: Place) -> Produced:
    task = (await rift.open_task()).handle
    box = (await rift.running_box(task)).id
    for tool, wanted in (
        ("rift_bash", Wanted("bash", "a\0b")),
        ("rift_bash", Wanted("bash", " ")),
        ("rift_bash", Wanted("bash", "x" * 131_073)),
        ("rift_bash", Wanted("bash", "\ud800")),
        ("rift_read", Wanted("read", "a\0b")),
        ("rift_read", Wanted("read", "../../../../x")),
        ("rift_write", Wanted("write", "a", content="\0")),
        ("rift_write", Wanted("write", "", content="x")),
    ):
        deadline = Deadline(rift.deps.clock, 53)
        yield await commands.run(rift.deps, rift.act(tool=tool), deadline, task, box, wanted, 0, silent)
    await rift.bash(task, box)
    await rift.poll(rift.agent(box))
    assert await agents.events(rift.deps, rift.agent(box), [End(1, 0, None, 3, b"abc")])
    yield await rift.output(task, (f"{box}.1", 4))
    yield await rift.output(task, (f"{box}.1", 0), (f"{box}.1", 1))
    yield await rift.output(task, (f"{box}.1", 0), ("b-other.1", 0), (f"{box}.2", 0))
    yield await rift.output(task, ("what?", 0))
    yield await rift.output(task, ("b-other.1", 0))
    yield await rift.stop(task, "what?")
    yield await rift.stop(task, "b-other.1")


async def of_repositories(rift: Place) -> Produced:
    deps, task = rift.deps, (await rift.open_task()).handle
    yield await boxes.new_box(deps, rift.act(), task, "acme/none", "main", silent)
    yield await boxes.new_box(deps, rift.act(), task, "acme/app", "dev", silent)
    yield await origins.watch(deps, rift.act(), "acme/app", "mian", 1)
    yield await origins.watch(deps, rift.act(), "acme/app", "main", 101)
    yield await repos.unwatch(deps, rift.act(), "acme/app", "dev")
    yield await repos.list_org(deps, rift.act(), "nobody's")
    yield await origins.add_repo(deps, None, "no name", URL)
    yield await origins.add_repo(deps, None, "acme/new", "/there/is/nothing/here")
    yield await origins.add_repo(deps, None, "acme/app", URL)
    yield await origins.add_repo(deps, None, "acme/new", "https://example.org/nothing.git")
    yield await origins.add_repo(deps, "nobody@example.org", "acme/new", URL)
    yield await origins.sync(deps, "acme/none")
    yield await repos.set_network(deps, "acme/app", Network(None, ("https://pypi.org",), ()))
    yield await limits.set_limits(deps, "acme/app", Change({"memory": "8 bananas"}))
    del rift.forge.repositories[URL]["main"]
    await origins.sync_repo(deps, rift.repo.id)
    yield await boxes.new_box(deps, rift.act(), task, "acme/app", "main", silent)
    await rift.move_head(HEAD)
    async with deps.db.tx() as tx:
        await tx.run(
            "INSERT INTO members (org, user_id, role) VALUES (%(org)s, %(bob)s, 'member')",
            {"org": rift.repo.org, "bob": rift.bob.user},
        )
    yield await origins.watch(deps, rift.act(rift.bob), "acme/app", "main", 2)


async def of_people(rift: Place) -> Produced:
    yield await people.add_user(rift.deps, "nobody", False)
    yield await people.add_user(rift.deps, "ada@example.org", False)
    yield await people.new_token(rift.deps, "nobody@example.org", "Claude")
    yield await people.new_token(rift.deps, "ada@example.org", "\x07")
    yield await people.revoke_token(rift.deps, "tok_nothing")
    async with rift.deps.db.tx() as tx:
        await tx.run("UPDATE users SET admin = false")
    yield await origins.add_repo(rift.deps, None, "acme/new", URL)


async def of_accounts(rift: Place) -> Produced:
    deps, ada, bob = rift.deps, rift.act(), rift.act(rift.bob)
    async with deps.db.tx() as tx:
        await tx.run("UPDATE users SET admin = id = %(ada)s", {"ada": rift.ada.user})
    yield await invites.invite_account(deps, bob, "eve@example.org")
    yield await people.disable(deps, ada, rift.ada.email)
    yield await people.new_team(deps, ada, "personal")
    assert not isinstance(await people.new_team(deps, ada, "lovelace"), Refusal)
    yield await people.new_team(deps, bob, "Lovelace")
    yield await people.leave(deps, ada, "personal")
    yield await people.leave(deps, ada, "lovelace")
    yield await people.remove_member(deps, ada, "lovelace", rift.bob.email)
    yield await invites.invite(deps, ada, "lovelace", rift.ada.email)
    yield await invites.invite(deps, ada, "lovelace", "nobody")
    yield await invites.invite(deps, SystemAct("rift org invite", {}, 1000.0), "turing", rift.bob.email)
    yield await invites.accept(deps, bob, "lovelace")
    yield await invites.withdraw(deps, ada, "lovelace", "inv_nothing")
    yield await invites.withdraw_account(deps, ada, "eve@example.org")
    yield await invites.waitlist(deps, ada, "yesterday")
    assert not isinstance(await invites.invite(deps, ada, "lovelace", rift.bob.email), Refusal)
    yield await invites.accept(deps, bob, "turing")


async def of_the_wire(rift: Place) -> Produced:
    for tool in TOOLS:
        for given in ({}, {"no": "such"}, {**tool.example, "more": 1}, "[", None):
            if isinstance(refused := read_arguments(tool, given), Refusal):
                yield refused


async def of_records(rift: Place) -> Produced:
    yield await records.show(rift.deps, 4711)


STORIES: list[Callable[[Place], Produced]] = [
    of_tasks,
    of_boxes,
    of_limits,
    of_commands,
    of_repositories,
    of_accounts,
    of_people,
    of_records,
    of_the_wire,
]


async def produced(rift: Place) -> list[Refusal]:
    """One of each and more."""
    found = []
    for story in STORIES:
        number = 0
        async for refused in story(rift):
            number += 1
            assert isinstance(refused, Refusal), f"step {number} of {story.__name__} gave {refused}"
            found.append(refused)
    return found


async def test_every_refusal_is_produced_and_recorded_and_every_mend_is_a_call_that_can_be_made(rift: Place) -> None:
    found = await produced(rift)
    assert {refused.code for refused in found} | set(ELSEWHERE) == catalogue()
    rows = await rift.rows("SELECT outcome FROM ledger WHERE outcome <> 'ok'")
    recorded = Counter(row["outcome"] for row in rows)
    assert recorded == Counter(refused.code for refused in found if refused.code not in NOT_IN_THE_ROW)
    handle = (await rift.open_task()).handle
    for refused in found:
        assert refused.sentence
        assert refused.mends
        for mend in refused.mends:
            if not isinstance(mend, Call):
                continue
            assert mend.tool in BY_NAME, refused
            given = json.loads(json.dumps(dict(mend.arguments)).replace(YOUR_HANDLE, handle))
            assert read_arguments(BY_NAME[mend.tool], given) == given, refused
            jsonschema.validate(given, BY_NAME[mend.tool].input_schema)


async def test_no_refusal_repeats_a_handle_or_tells_of_what_is_not_the_callers(rift: Place) -> None:
    lease = await rift.open_task()
    for who, text in ((rift.bob, lease.handle), (rift.ada, f"{lease.task.id}.{'x' * 43}")):
        refused = await boxes.list_boxes(rift.deps, act(who), text)
        assert isinstance(refused, Refusal)
        told = json.dumps([refused.sentence, refused.note, [repr(mend) for mend in refused.mends]])
        assert text.partition(".")[2] not in told
    theirs = await boxes.list_boxes(rift.deps, act(rift.bob), lease.handle)
    absent = await boxes.list_boxes(rift.deps, act(rift.bob), lease.handle.replace(lease.task.id, "task_zzzz2222"))
    assert isinstance(theirs, Refusal)
    assert isinstance(absent, Refusal)
    assert theirs.sentence.replace(lease.task.id, "task_zzzz2222") == absent.sentence
    assert theirs.mends == absent.mends


@pytest.mark.parametrize("code", ELSEWHERE)
def test_a_code_of_a_running_server_is_shown_where_it_says(code: str) -> None:
    place, name = ELSEWHERE[code]
    assert f"def {name}(" in (ROOT / place).read_text()
