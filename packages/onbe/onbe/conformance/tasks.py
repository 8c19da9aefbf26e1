"""Cases: what a task gives, to whom, for how long; what a grant will not do; how a task ends."""

from __future__ import annotations

from urllib.parse import quote

from onbe.conformance.bench import MORE, OTHER_TOOL, READ, TOOL, WRITE, Bench
from onbe.conformance.case import case, expect
from onbe.conformance.making import Signer, told

SHORT, HALF_MINUTE, HOUR = "PT45S", "PT30S", "PT1H"

# Exchange


@case("An agent gets a token for its registered audiences alone.")
def audience_not_allowed(bench: Bench) -> None:
    agent = bench.agent()
    for resource in (OTHER_TOOL, f"{TOOL}/", f"{TOOL}/deeper", TOOL.upper()):
        bench.denied(bench.exchange(agent, resource=resource), "audience_not_allowed", agent)


@case("The scope is what the person, the registration and the request all allow.")
def scope_meets(bench: Bench) -> None:
    agent = bench.agent(allowed_scopes=[READ, WRITE])
    _, claims = bench.begin(agent, scope=f"{READ} {MORE}", subject_token=bench.subject(f"{READ} {WRITE} {MORE}"))
    expect(claims["scope"] == READ, "the scope is wider or narrower than what all three allow")
    _, claims = bench.begin(agent, scope=f"{READ} {WRITE}", subject_token=bench.subject(WRITE))
    expect(claims["scope"] == WRITE, "the person's token does not narrow the scope")


@case("A scope of which nothing is left is refused.")
def scope_empty(bench: Bench) -> None:
    agent = bench.agent()
    bench.denied(bench.exchange(agent, scope=MORE), "scope_empty", agent)


@case("A disabled agent gets nothing.")
def agent_disabled(bench: Bench) -> None:
    agent = bench.agent()
    bench.change(agent, enabled=False)
    bench.denied(bench.exchange(agent), "agent_disabled", agent)


@case("Nothing begins for a person whom the administrator has blocked.", when="first")
def sponsor_blocked(bench: Bench) -> None:
    agent = bench.agent()
    _, claims = bench.begin(agent)
    bench.alone(str(claims["sub"]))
    path = f"/admin/sponsors/{quote(str(claims['sub']), safe='')}/block"
    try:
        answer = bench.admin("PUT", path, {"reason": "The conformance suite; lifted at once."})
        expect(answer.status_code == 200, f"a person cannot be blocked (HTTP {answer.status_code})")
        bench.denied(bench.exchange(agent), "sponsor_blocked", agent)
    finally:
        bench.admin("DELETE", path)
    bench.begin(agent)


@case("Nothing begins for a person who is disabled at the identity provider.")
def sponsor_disabled(bench: Bench) -> None:
    agent, token = bench.agent(), bench.subject()
    try:
        bench.people.enable(False)
        bench.denied(bench.exchange(agent, subject_token=token), "sponsor_disabled", agent)
    finally:
        bench.people.enable(True)


@case("A token for a high-risk audience says that it is to be introspected, and no other does.")
def high_risk(bench: Bench) -> None:
    agent = bench.agent(allowed_audiences=[TOOL, OTHER_TOOL], high_risk_audiences=[TOOL])
    expect(bench.begin(agent)[1].get("introspect_required") is True, "introspect_required is not true")
    expect("introspect_required" not in bench.begin(agent, resource=OTHER_TOOL)[1], "introspect_required is there")


# Two clocks


@case("A token is good for the registration's max_token_ttl, and not for the task's life.")
def token_clock(bench: Bench) -> None:
    agent = bench.agent(max_token_ttl=SHORT, max_task_ttl="PT20M")
    body, claims = bench.begin(agent)
    expect(claims["exp"] - claims["iat"] <= 45, "the token lives longer than max_token_ttl")
    expect(1199 <= claims["task"]["exp"] - claims["iat"] <= 1200, "the task lives longer or shorter than max_task_ttl")
    again, claims = bench.given(bench.refresh(agent, body["refresh_token"]))
    expect(claims["exp"] - claims["iat"] <= 45 and again["expires_in"] <= 45, "a refreshed token lives longer")


@case("A token never outlives its task, at issue.")
def token_within_task(bench: Bench) -> None:
    agent = bench.agent(max_task_ttl="PT1M", max_token_ttl=HOUR)
    body, claims = bench.begin(agent)
    expect(claims["exp"] <= claims["task"]["exp"], "the token outlives its task")
    expect(body["expires_in"] <= 60, "expires_in outlives the task")


@case("A token never outlives its task, at refresh.")
def token_within_task_at_refresh(bench: Bench) -> None:
    agent = bench.agent(max_task_ttl="PT2M", max_token_ttl=HALF_MINUTE)
    body, first = bench.begin(agent)
    bench.change(agent, max_token_ttl=HOUR, max_task_ttl="PT2H")
    _, claims = bench.given(bench.refresh(agent, body["refresh_token"]))
    expect(claims["task"]["exp"] == first["task"]["exp"], "a refresh moves the task's end")
    expect(claims["exp"] <= first["task"]["exp"], "the token outlives its task")


# Refresh


@case("A refresh gives a new token of the same task, and the grant stays good.")
def refresh_same_task(bench: Bench) -> None:
    agent = bench.agent()
    body, first = bench.begin(agent)
    seen = {first["jti"]}
    for _ in range(3):
        _, claims = bench.given(bench.refresh(agent, body["refresh_token"]))
        expect(claims["task"]["id"] == body["task_id"], "a refresh changes the task")
        expect(claims["jti"] not in seen, "a token's id comes twice")
        seen.add(claims["jti"])


@case("A grant that does not exist is refused.")
def grant_unknown(bench: Bench) -> None:
    agent = bench.agent()
    for grant in (f"task_grant_{bench.ids.token()}", "x", bench.assertion(agent)):
        bench.denied(bench.refresh(agent, grant), "grant_not_found", agent)


@case("A grant in the hands of another agent does not exist.")
def grant_of_another(bench: Bench) -> None:
    body, _ = bench.begin(bench.agent())
    thief = bench.agent()
    bench.denied(bench.refresh(thief, body["refresh_token"]), "grant_not_found", thief)


@case("A grant alone is worth nothing: the agent shows itself at a refresh as at an exchange.")
def grant_alone(bench: Bench) -> None:
    agent = bench.agent()
    body, _ = bench.begin(agent)
    bench.denied(bench.refresh(agent, body["refresh_token"], client_assertion=None), "malformed_request")
    forged = Signer.new(agent.signer.kid).jwt(bench.claims(agent))
    answer = bench.refresh(agent, body["refresh_token"], client_assertion=forged)
    bench.denied(answer, "assertion_signature")


@case("A refresh may narrow the scope, and never widens it.")
def scope_widened(bench: Bench) -> None:
    agent = bench.agent()
    body, _ = bench.begin(agent, scope=READ)
    answer = bench.refresh(agent, body["refresh_token"], scope=f"{READ} {WRITE}")
    bench.denied(answer, "scope_widened", agent)


@case("A refresh is for the task's own audience.")
def audience_changed(bench: Bench) -> None:
    agent = bench.agent(allowed_audiences=[TOOL, OTHER_TOOL])
    body, _ = bench.begin(agent)
    bench.denied(bench.refresh(agent, body["refresh_token"], resource=OTHER_TOOL), "audience_mismatch", agent)


@case("A scope that today's registration does not allow is refused at the next refresh.")
def registration_narrowed(bench: Bench) -> None:
    agent = bench.agent()
    body, _ = bench.begin(agent, scope=f"{READ} {WRITE}")
    bench.change(agent, allowed_scopes=[READ])
    bench.denied(bench.refresh(agent, body["refresh_token"]), "scope_not_allowed", agent)
    bench.given(bench.refresh(agent, body["refresh_token"], scope=READ))


@case("An audience that today's registration does not allow is refused at the next refresh.")
def audience_withdrawn(bench: Bench) -> None:
    agent = bench.agent()
    body, _ = bench.begin(agent)
    bench.change(agent, allowed_audiences=[OTHER_TOOL])
    bench.denied(bench.refresh(agent, body["refresh_token"]), "audience_not_allowed", agent)


@case("An agent that was disabled is refused at the next refresh.")
def agent_disabled_at_refresh(bench: Bench) -> None:
    agent = bench.agent()
    body, _ = bench.begin(agent)
    bench.change(agent, enabled=False)
    bench.denied(bench.refresh(agent, body["refresh_token"]), "agent_disabled", agent)


# Ends


@case("A task that the administrator ended gives nothing more, whatever else is wrong with the request.")
def task_revoked(bench: Bench) -> None:
    agent = bench.agent()
    body, _ = bench.begin(agent)
    expect(bench.admin("DELETE", f"/admin/tasks/{body['task_id']}").status_code == 200, "the task cannot be ended")
    for wrong in ({}, {"scope": MORE}, {"resource": OTHER_TOOL}):
        bench.denied(bench.refresh(agent, body["refresh_token"], **wrong), "task_revoked", agent)


@case("A grant that its agent gives back ends the task.")
def grant_given_back(bench: Bench) -> None:
    agent = bench.agent()
    body, _ = bench.begin(agent)
    expect(bench.revoke(agent, body["refresh_token"]).status_code == 200, "a grant cannot be given back")
    bench.denied(bench.refresh(agent, body["refresh_token"]), "task_revoked", agent)


@case("What an agent cannot give back is answered like what it can: with the same empty 200, and nothing happens.")
def foreign_given_back(bench: Bench) -> None:
    owner, thief = bench.agent(), bench.agent()
    body, _ = bench.begin(owner)
    own = bench.revoke(owner, bench.begin(owner)[0]["refresh_token"])
    for token in (body["refresh_token"], body["access_token"], "x"):
        answer = bench.revoke(thief, token)
        same = (answer.status_code, answer.content) == (own.status_code, own.content) == (200, b"")
        expect(same, "the answers differ, and tell whose it is")
    bench.given(bench.refresh(owner, body["refresh_token"]))


@case("Introspection says of a good token what it is good for, and of a revoked one that it is not active.")
def introspection(bench: Bench) -> None:
    agent = bench.agent()
    body, claims = bench.begin(agent)
    said = bench.introspect(body["access_token"])
    expect(said.get("active") is True and said.get("jti") == claims["jti"], "a good token is not active")
    bench.revoke(agent, body["access_token"])
    expect(bench.introspect(body["access_token"])["active"] is False, "a revoked token is active")
    again, _ = bench.given(bench.refresh(agent, body["refresh_token"]))
    bench.admin("DELETE", f"/admin/tasks/{body['task_id']}")
    expect(bench.introspect(again["access_token"])["active"] is False, "a token of a revoked task is active")


@case("Introspection of anything that is no token of ours is a bare no.")
def introspection_bare(bench: Bench) -> None:
    body, _ = bench.begin(bench.agent())
    header, claims = told(body["access_token"])
    forged = Signer.new(str(header["kid"])).jwt(claims, {"typ": header["typ"]})
    for token in ("x", body["refresh_token"], forged, bench.subject()):
        expect(bench.introspect(token) == {"active": False}, "the answer says more than that it is not active")


# Delegation


@case("A delegated task narrows: the chain is told, scope and end stay within the parent's.")
def delegated(bench: Bench) -> None:
    parent = bench.agent(max_delegation_depth=2, max_task_ttl="PT2M")
    child = bench.agent(max_delegation_depth=2, max_task_ttl="PT1H")
    body, above = bench.begin(parent, scope=READ)
    _, claims = bench.begin(child, subject_token=body["access_token"], scope=f"{READ} {WRITE}")
    expect(claims["scope"] == READ, "the scope is wider than the parent's")
    expect(claims["task"]["exp"] <= above["task"]["exp"] and claims["exp"] <= above["task"]["exp"], "it ends later")
    expect((claims["act"]["sub"], claims["act"]["depth"]) == (child.id, 2), "act is not the child's")
    expect(claims["act"].get("act", {}).get("sub") == parent.id and claims["sub"] == above["sub"], "no chain is told")


@case("A delegation deeper than any agent on the way allows is refused.")
def delegation_too_deep(bench: Bench) -> None:
    for depths in ((1, 2), (2, 1)):
        parent, child = (bench.agent(max_delegation_depth=depth) for depth in depths)
        body, _ = bench.begin(parent)
        bench.denied(bench.exchange(child, subject_token=body["access_token"]), "delegation_too_deep", child)


@case("An agent does not delegate to itself.")
def delegation_to_itself(bench: Bench) -> None:
    agent = bench.agent(max_delegation_depth=2)
    body, _ = bench.begin(agent)
    bench.denied(bench.exchange(agent, subject_token=body["access_token"]), "delegation_to_itself", agent)


@case("A task token that another key signed begins nothing.")
def parent_forged(bench: Bench) -> None:
    parent, child = bench.agent(max_delegation_depth=2), bench.agent(max_delegation_depth=2)
    header, claims = told(bench.begin(parent)[0]["access_token"])
    token = Signer.new(str(header["kid"])).jwt(claims, {"typ": header["typ"]})
    bench.denied(bench.exchange(child, subject_token=token), "parent_malformed", child)


@case("With a task, all that was delegated from it ends.")
def parent_revoked(bench: Bench) -> None:
    parent, child = bench.agent(max_delegation_depth=2), bench.agent(max_delegation_depth=2)
    above, _ = bench.begin(parent)
    below, _ = bench.begin(child, subject_token=above["access_token"])
    bench.admin("DELETE", f"/admin/tasks/{above['task_id']}")
    bench.denied(bench.refresh(child, below["refresh_token"]), "parent_revoked", child)
    bench.denied(bench.exchange(child, subject_token=above["access_token"]), "parent_revoked", child)


# The end of a task, which is waited for


@case("A task with five seconds left or less is refused a token, as task_ending.", when="last")
def task_ending(bench: Bench) -> None:
    short, answers = bench.ending(), []

    def refused() -> bool:
        answers.append(bench.refresh(short.agent, short.given["refresh_token"]))
        if answers[-1].status_code == 200:
            claims = bench.given(answers[-1])[1]
            expect(claims["exp"] <= short.claims["task"]["exp"], "the last token outlives its task")
        return answers[-1].status_code != 200

    bench.wait_until(short.claims["task"]["exp"] - 5.5, refused)
    bench.denied(answers[-1], "task_ending", short.agent)


@case("A task that has expired gives nothing more, and is not called revoked.", when="last")
def task_expired(bench: Bench) -> None:
    short = bench.short or bench.ending()
    bench.wait_until(short.claims["task"]["exp"] + 0.5, lambda: True)
    answer = bench.refresh(short.agent, short.given["refresh_token"])
    bench.denied(answer, "task_expired", short.agent)
    task = bench.admin("GET", f"/admin/tasks/{short.given['task_id']}").json()
    expect(task.get("state") == "expired" and task.get("end_reason") is None, "the task is not told as expired")
