"""Whether a token is given, for how long and for what: the two clocks, the seven checks, delegation.

Pure: what is stored and what the directory said come in, a `Mint` or a refusal goes out. Source: seed 002; 4-onbe,
Exchange, refresh and Delegation to sub-agents.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from keel.refusal import Refusal, Retry, Stop
from onbe.directory import refusals as people
from onbe.directory.model import Registration, Sponsor
from onbe.grants import refusals
from onbe.grants.model import Clocks, Exchange, Facts, Line, Mint, Refresh, Status
from onbe.names import RESOURCE_LENGTH, TASK_ENDING
from onbe.tasks import refusals as tasks
from onbe.tasks.decide import decide_alive
from onbe.tasks.model import Task
from onbe.tokens.model import Person, Presented

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[!$-;=?-Z\[\]_a-z~%]+")
"""An absolute URI of the characters of RFC 3986, without `#`."""


def is_resource(text: str) -> bool:
    """Whether a text is an absolute URI without a fragment. Source: RFC 8707, 2."""
    return len(text) <= RESOURCE_LENGTH and _SCHEME.fullmatch(text) is not None


def task_ttl(agent: Registration, clocks: Clocks) -> timedelta:
    """How long a task of this agent lives: what it names or the default, held inside today's bounds."""
    least, most = clocks.task
    return min(max(agent.max_task_ttl or clocks.default_task, least), most)


def token_ttl(agents: Sequence[Registration], clocks: Clocks) -> timedelta:
    """How long a token lives whose task went through these agents: as the strictest of them has it."""
    least, most = clocks.token
    return min(min(max(agent.max_token_ttl or clocks.default_token, least), most) for agent in agents)


def decide_sponsor(sponsor: Sponsor | None, status: Status | None) -> Refusal | None:
    """Check 5. Our own block comes first; `status` is None while the directory has not been asked yet."""
    if sponsor is not None and sponsor.blocked:
        return people.sponsor_blocked(Stop())
    match status:
        case "disabled":
            return people.sponsor_disabled(Stop())
        case "not_found":
            return people.sponsor_not_found(Stop())
        case "unknown":
            return people.sponsor_status_unavailable(Retry(5))
    return None


def decide_exchange(
    ask: Exchange, agent: Registration, person: Person, clocks: Clocks, now: datetime
) -> Mint | Refusal:
    """What a person's token becomes, once the person is known to be active."""
    refused = _registered((agent,), ask.resource)
    if refused is not None:
        return refused
    scope = _meet(ask.scope, person.scope, agent.allowed_scopes)
    if not scope:
        return refusals.scope_empty(Stop())
    return _mint((agent,), ask.resource, scope, whole(now + task_ttl(agent, clocks)), clocks, now)


def decide_delegation(
    ask: Exchange, agent: Registration, brought: Presented, line: Line, clocks: Clocks, now: datetime
) -> Mint | Refusal:
    """What a task token becomes in the hands of another agent. `line` begins with the task of the token.

    Everything narrows: the scope is within the token's, its task's and both registrations', the audience is registered
    for every agent on the way, and neither clock runs longer than the parent's.
    """
    parent, every = line.tasks[0], (agent, *line.agents)
    refused = _registered(every, ask.resource)
    if refused is not None:
        return refused
    if not _deep_enough(every, parent.depth + 1):
        return refusals.delegation_too_deep(Stop())
    allowed = [one.allowed_scopes for one in every]
    scope = _meet(ask.scope, brought.scope, parent.scope, *allowed)
    if not scope:
        return refusals.scope_empty(Stop())
    until = min(whole(now + task_ttl(agent, clocks)), *(task.expires_at for task in line.tasks))
    return _mint(every, ask.resource, scope, until, clocks, now)


def decide_parent(agent: Registration, line: Line, now: datetime) -> Refusal | None:
    """Whether the first task of `line` may have children of this agent at all."""
    parent = line.tasks[0]
    if parent.agent == agent.agent_id:
        return refusals.delegation_to_itself(Stop())
    refused = decide_alive(parent, line.tasks[1:], now)
    if refused is not None and refused.code == tasks.task_revoked.code:
        return tasks.parent_revoked(Stop())
    return refused


def decide_grant(agent: str, task: Task | None, line: Line, now: datetime) -> Refusal | None:
    """Checks 1 to 4 of a refresh."""
    if task is None or task.agent != agent:
        return refusals.grant_not_found(Stop())
    return decide_alive(task, line.tasks, now)


def decide_before_person(agent: str, facts: Facts, line: Line, now: datetime) -> Refusal | None:
    """What refuses a refresh before the directory is asked: checks 1 to 4, and our own block."""
    return decide_grant(agent, facts.task, line, now) or decide_sponsor(facts.sponsor, None)


def decide_unended(before: Facts, today: Facts) -> Refusal | None:
    """Whether all the agent's or the person's tasks were ended while this request was on its way.

    Told by the instant having changed, and not by comparing it with a clock: clocks of hosts differ, and are set.
    """
    for was, now in ((before.agent, today.agent), (before.sponsor, today.sponsor)):
        if (was.tasks_ended_at if was else None) != (now.tasks_ended_at if now else None):
            return tasks.task_revoked(Stop())
    return None


def decide_refresh(
    ask: Refresh, agent: Registration, facts: Facts, line: Line, status: Status | None, clocks: Clocks, now: datetime
) -> Mint | Refusal:
    """The checks of a refresh in their order, the first failure reported. `line` is what the task was delegated from.

    With `status` None the directory is still to be asked: what comes out then is what a yes would give.
    """
    task = facts.task
    refused = decide_grant(agent.agent_id, task, line, now) or decide_sponsor(facts.sponsor, status)
    if refused is not None or task is None:
        return refused or refusals.grant_not_found(Stop())
    if ask.resource is not None and ask.resource != task.audience:
        return refusals.audience_mismatch(Stop())
    scope = task.scope if ask.scope is None else ask.scope
    if not set(scope) <= set(task.scope):
        return refusals.scope_widened(Stop())
    every = (agent, *line.agents)
    refused = _registered(every, task.audience, scope)
    if refused is not None:
        return refused
    if not line.complete or not _deep_enough(every, task.depth):
        return refusals.delegation_too_deep(Stop())
    return _mint(every, task.audience, scope, task.expires_at, clocks, now)


def claims(
    mint: Mint,
    *,
    issuer: str,
    jti: str,
    task: str,
    sponsor: str,
    instance: str | None,
    chain: Sequence[Task],
    agent: str,
) -> dict[str, Any]:
    """The claims of a token. `chain`: the tasks that its own was delegated from, the parent first.

    Source: RFC 9068, 2.2; RFC 8693, 4.1 (`act` nests, the one who acts now outermost); 4-onbe.
    """
    act: dict[str, Any] = {}
    for depth, ancestor in enumerate(reversed(chain), 1):
        act = _act(ancestor.agent, ancestor.instance, depth, act)
    found: dict[str, Any] = {
        "iss": issuer,
        "sub": sponsor,
        "aud": mint.audience,
        "exp": seconds(mint.expires_at),
        "iat": seconds(mint.issued_at),
        "jti": jti,
        "scope": " ".join(mint.scope),
        "client_id": agent,
        "act": _act(agent, instance, len(chain) + 1, act),
        "task": {"id": task, "exp": seconds(mint.task_expires_at), "sponsor": sponsor},
    }
    if mint.introspect:
        found["introspect_required"] = True
    return found


def whole(instant: datetime) -> datetime:
    """An instant in whole seconds, rounded down."""
    return instant.replace(microsecond=0)


def seconds(instant: datetime) -> int:
    """A NumericDate."""
    return int(instant.timestamp())


def _act(agent: str, instance: str | None, depth: int, within: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {"sub": agent, "depth": depth}
    if instance is not None:
        made["instance"] = instance
    if within:
        made["act"] = within
    return made


def _registered(agents: Sequence[Registration], audience: str, scope: Sequence[str] = ()) -> Refusal | None:
    """Check 7: whether today's registrations of all these agents allow it."""
    if not all(agent.enabled for agent in agents):
        return people.agent_disabled(Stop())
    if not all(set(scope) <= set(agent.allowed_scopes) for agent in agents):
        return refusals.scope_not_allowed(Stop())
    if not all(audience in agent.allowed_audiences for agent in agents):
        return refusals.audience_not_allowed(Stop())
    return None


def _deep_enough(agents: Sequence[Registration], depth: int) -> bool:
    return all(depth <= agent.max_delegation_depth for agent in agents)


def _meet(asked: Sequence[str] | None, *allowed: Sequence[str] | None) -> tuple[str, ...]:
    """What is in all of them, in the order of the first that says anything. None narrows nothing."""
    said = [members for members in (asked, *allowed) if members is not None]
    return tuple(member for member in dict.fromkeys(said[0]) if all(member in others for others in said[1:]))


def _mint(
    agents: Sequence[Registration], audience: str, scope: tuple[str, ...], until: datetime, clocks: Clocks,
    now: datetime,
) -> Mint | Refusal:  # fmt: skip
    """A token for the shorter of the two clocks. Source: seed 002, The cap is the task's remaining life."""
    if until - now <= TASK_ENDING:
        return tasks.task_ending(Stop())
    expires = min(whole(now + token_ttl(agents, clocks)), until)
    risky = any(audience in agent.high_risk_audiences for agent in agents)
    return Mint(audience, scope, whole(now), expires, until, risky)
