"""The second part: the task goes on, stays what it was granted, is done in part by another agent, and is ended."""

from __future__ import annotations

from keel.telling import expect
from onbe.demo.scene import NOTES, READ, WRITE, Scene, Step, Task, claims_of

ELSEWHERE = "https://mail.demo.example"


async def refresh(scene: Scene, shown: list[str]) -> None:
    """The grant gives the next token of the same task."""
    before = claims_of(scene.at_work.token)
    body = (await scene.scribe.refresh(scene.at_work.grant)).good("the refresh is granted")
    after = claims_of(str(body["access_token"]))
    expect(after["task"]["id"] == before["task"]["id"], f"the task {before['task']['id']}", after["task"])
    expect(after["jti"] != before["jti"], "a token of its own name", after["jti"])
    expect(after["task"]["exp"] == before["task"]["exp"], "that the task ends when it did", after["task"])
    scene.at_work.token = str(body["access_token"])
    shown.append(f"{after['jti']} follows {before['jti']}; the task's end stays where it is")


async def no_wider(scene: Scene, shown: list[str]) -> None:
    """What the task was not granted it does not get, though the person and the agent are allowed it."""
    said = await scene.scribe.refresh(scene.at_work.grant, scope=f"{READ} {WRITE}")
    shown.append(f"{WRITE}, which the person and the agent both may: {said.denied('invalid_scope')}")
    scene.refused.append((scene.scribe.name, "scope_widened"))
    said = await scene.scribe.refresh(scene.at_work.grant, resource=ELSEWHERE)
    shown.append(f"{ELSEWHERE}: {said.denied('invalid_target')}")
    scene.refused.append((scene.scribe.name, "audience_mismatch"))


async def not_anothers(scene: Scene, shown: list[str]) -> None:
    """The grant is one agent's: another's does not exist."""
    said = await scene.helper.refresh(scene.at_work.grant)
    shown.append(f"{scene.helper.name} with the grant of {scene.scribe.name}: {said.denied('invalid_grant')}")
    scene.refused.append((scene.helper.name, "grant_not_found"))


async def delegate(scene: Scene, shown: list[str]) -> None:
    """Another agent does a part: its own task, inside the first one."""
    said = await scene.helper.exchange(scene.at_work.token, NOTES, READ)
    body = said.good("the delegation is granted")
    claims, parent = claims_of(str(body["access_token"])), claims_of(scene.at_work.token)
    expect(claims["sub"] == scene.person, f"a token for {scene.person}", claims["sub"])
    chain = [claims["act"]["sub"], claims["act"].get("act", {}).get("sub")]
    expect(chain == [scene.helper.name, scene.scribe.name], "both agents in `act`", claims["act"])
    expect(claims["task"]["exp"] <= parent["task"]["exp"], "that it ends no later", claims["task"])
    scene.child = Task(str(body["task_id"]), str(body["refresh_token"]), str(body["access_token"]))
    shown.append(f"{scene.child.id}: {chain[0]}, called by {chain[1]}, for {claims['sub']}")


async def revoke(scene: Scene, shown: list[str]) -> None:
    """The first agent ends its task, and with it the part that it gave away."""
    child = scene.child
    assert child is not None
    active = await scene.helper.introspect(child.token)
    expect(active.good("the token is asked about").get("active") is True, "a token that is good", active.body)
    (await scene.scribe.revoke(scene.at_work.grant)).good("the task is revoked")
    said = await scene.helper.refresh(child.grant)
    shown.append(f"the part that was given away: {said.denied('access_denied', 'parent_revoked')}")
    scene.refused.append((scene.helper.name, "parent_revoked"))
    said = await scene.scribe.refresh(scene.at_work.grant)
    shown.append(f"the task itself: {said.denied('access_denied', 'task_revoked')}")
    scene.refused.append((scene.scribe.name, "task_revoked"))
    after = await scene.helper.introspect(child.token)
    expect(after.body.get("active") is False, "a token that is good no longer", after.body)
    shown.append("its token, asked about: active, and after the revocation not")


STEPS = (
    Step("the task goes on: its grant gives the next token (refresh)", refresh),
    Step("it gets no wider scope and no other resource", no_wider),
    Step("another agent can do nothing with its grant", not_anothers),
    Step("a part of it is given to another agent (delegation)", delegate),
    Step("the task is revoked, and the part with it (revoke, introspect)", revoke),
)
