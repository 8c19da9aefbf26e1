"""Secrets on their way to a box's agent: with the commands that are to have them, and in no record."""

from __future__ import annotations

from dataclasses import replace

from tests.behaviour.machines.harness import Place, silent
from tests.behaviour.machines.jails import NEW, NONE, Jail
from tests.behaviour.machines.test_verbs import ask, at_github

from keel.refusal import Refusal
from rift.agents import actions as agents
from rift.commands import actions as commands
from rift.commands.actions import Wanted
from rift.commands.model import Told
from rift.deadline import Deadline
from rift.secrets import actions as secrets
from rift.secrets.model import Changed, Delivery, Removed

VALUE = "sk_live_4242424242424242"


async def test_a_command_that_was_queued_after_a_change_comes_with_it_until_its_agent_knows(rift: Place) -> None:
    task = (await rift.open_task()).handle
    box = (await rift.running_box(task)).id
    await rift.bash(task, box)
    work = await agents.work(rift.deps, rift.agent(box), Told(), None, 0)
    assert work is not None
    assert work.delivery is None
    assert isinstance(await secrets.operator_put(rift.deps, "acme/app", "API_KEY", VALUE), Changed)
    idle = await agents.work(rift.deps, rift.agent(box), Told(frozenset({1})), None, 0)
    assert idle is not None
    assert idle.delivery is None
    await rift.bash(task, box)
    for _ in range(2):  # an answer may be lost
        work = await agents.work(rift.deps, rift.agent(box), Told(frozenset({1})), None, 0)
        assert work is not None
        assert work.delivery == Delivery(1, {"API_KEY": VALUE})
        assert VALUE not in repr(work)
    known = await agents.work(rift.deps, rift.agent(box), Told(frozenset({1}), secrets=1), None, 0)
    assert known is not None
    assert known.delivery is None
    assert isinstance(await secrets.operator_remove(rift.deps, "acme/app", "API_KEY"), Removed)
    await rift.bash(task, box)
    work = await agents.work(rift.deps, rift.agent(box), Told(frozenset({1, 2}), secrets=1), None, 0)
    assert work is not None
    assert work.delivery == Delivery(2, {})


async def test_a_command_whose_text_holds_a_secret_runs_whole_and_is_shown_without_it(rift: Place) -> None:
    task = (await rift.open_task()).handle
    box = (await rift.running_box(task)).id
    assert isinstance(await secrets.operator_put(rift.deps, "acme/app", "API_KEY", VALUE), Changed)
    await rift.bash(task, box, f"curl -H 'key: {VALUE}'")
    work = await agents.work(rift.deps, rift.agent(box), Told(), None, 0)
    assert work is not None
    assert work.commands[0]["command"] == f"curl -H 'key: {VALUE}'"
    rows = await rift.rows("SELECT input FROM commands")
    assert [row["input"] for row in rows] == ["curl -H 'key: ***'"]


async def test_a_refused_command_is_on_record_without_a_secret_too(rift: Place) -> None:
    task = (await rift.open_task()).handle
    box = (await rift.running_box(task)).id
    assert isinstance(await secrets.operator_put(rift.deps, "acme/app", "API_KEY", VALUE), Changed)
    told = replace(rift.act(tool="rift_bash"), text=f"curl -H 'key: {VALUE}'")
    wanted, deadline = Wanted("bash", f"curl -H 'key: {VALUE}'", 60), Deadline(rift.deps.clock, 60)
    unknown = await commands.run(rift.deps, told, deadline, task, "no-such-vm", wanted, 0, silent)
    await rift.rows("DELETE FROM members RETURNING org")
    left = await commands.run(rift.deps, told, deadline, task, box, wanted, 0, silent)
    assert isinstance(unknown, Refusal)
    assert isinstance(left, Refusal)
    assert [unknown.code, left.code] == ["vm_unknown", "vm_not_member"]
    texts = [row["text"] for row in await rift.rows("SELECT text FROM ledger_texts")]
    assert texts == ["curl -H 'key: ***'"] * 2


async def test_what_a_box_does_at_its_door_is_on_record_without_the_values_of_its_secrets(
    rift: Place, jail: Jail
) -> None:
    assert isinstance(await secrets.operator_put(rift.deps, "acme/app", "API_KEY", VALUE), Changed)
    await jail.push(f"{NONE} {NEW} refs/heads/{VALUE}")
    await at_github(rift)
    await ask(jail, "pr-open", title="Fix it", head=f"fix-{VALUE}")
    rows = await rift.rows("SELECT action, arguments FROM ledger WHERE via = 'box' ORDER BY seq")
    assert [row["action"] for row in rows] == [
        "push",
        "push",
        "pr-open",
        "pr-open",
    ]  # each begun, and what became of it
    assert [list(row["arguments"]["refs"]) for row in rows[:2]] == [["refs/heads/***"]] * 2
    assert [row["arguments"]["head"] for row in rows[2:]] == ["fix-***"] * 2
    assert VALUE not in str(await rift.rows("SELECT * FROM ledger"))
