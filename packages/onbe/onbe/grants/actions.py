"""Exchange and refresh: who asks, for whom, is the person active, and then one transaction that decides and records.

Keys and the directory of people are asked outside any transaction. What was read before it is looked at again inside,
under locks: who disables an agent, blocks a person or ends a task comes before the grant or after it, never between.
"""

from __future__ import annotations

from datetime import datetime

from keel import jose
from keel.db import Tx
from keel.ids import digest, ulid
from keel.refusal import Refusal, Stop
from keel.secrecy import masked
from onbe.audit import Row, recorded, stranger
from onbe.deps import Deps
from onbe.directory.model import Registration
from onbe.drivers.sponsors.protocol import CannotAnswer
from onbe.grants import store
from onbe.grants.decide import (
    claims,
    decide_before_person,
    decide_delegation,
    decide_exchange,
    decide_parent,
    decide_refresh,
    decide_sponsor,
    decide_unended,
    token_ttl,
)
from onbe.grants.model import Clocks, Exchange, Facts, Issued, Line, Mint, Refresh, Status
from onbe.names import ASSERTION_LIFE, GRANT_PREFIX, JTI_PREFIX, SPONSOR_ANSWER_LIFE, TASK_PREFIX
from onbe.secrecy import without_tokens
from onbe.tasks.model import Task
from onbe.tokens import actions as tokens
from onbe.tokens import refusals as unbelieved
from onbe.tokens.decide import names_of
from onbe.tokens.model import Assertion, Presented, Unauthentic


async def exchange(deps: Deps, ask: Exchange, started: float) -> Issued | Refusal:
    """Begin a task for the person whose token is brought, or a child of the task whose token is. `started`: monotonic.

    Source: seed 002, first paragraph; RFC 8693.
    """
    row = Row("token.exchange", started)
    agent_says, subject_says = jose.peek(ask.assertion), jose.peek(ask.subject_token)
    if agent_says is None:
        return await stranger(deps, row, unbelieved.assertion_malformed(Stop()))
    said = subject_says.claims if subject_says else {}
    rules = tokens.subject_rules(deps.settings)
    claimed = said.get(rules.claim)
    async with deps.db.look() as tx:
        facts = await store.look_for_exchange(
            tx, agent_says.issuer or "", claimed if isinstance(claimed, str) else None, names_of(said, rules)
        )
    shown = await tokens.authenticate(deps, ask.assertion, agent_says, facts.agent, ask.client_id)
    if isinstance(shown, Unauthentic):
        return await tokens.unauthentic(deps, row, shown)
    row.agent = shown.agent
    row.facts.update(_asked(ask))
    if subject_says is None:
        return await _denied(deps, row, shown, unbelieved.subject_malformed(Stop()))
    if subject_says.issuer == deps.settings.issuer:
        return await _delegate(deps, ask, row, shown, facts)
    person = await tokens.person(deps, ask.subject_token, subject_says, facts.agents_named)
    if isinstance(person, Refusal):
        return await _denied(deps, row, shown, person)
    row.sponsor = person.sponsor
    status: Status | None = None
    if decide_sponsor(facts.sponsor, None) is None:
        status = await _ask(deps, person.sponsor, deps.clock.now())
    refused = decide_sponsor(facts.sponsor, status)
    if refused is not None:
        return await _denied(deps, row, shown, refused)
    async with recorded(deps, row, few_trips=True) as tx:
        held = await store.hold_for_exchange(tx, _spending(shown), person.sponsor)
        agent = _still(held, facts)
        if isinstance(agent, Refusal):
            return row.said(agent)
        today, now = Facts(agent, held.sponsor), deps.clock.now()
        decision = decide_sponsor(held.sponsor, status) or decide_exchange(ask, agent, person, clocks(deps), now)
        if isinstance(decision, Mint):
            decision = decide_unended(facts, today) or decision
        if isinstance(decision, Refusal):
            return row.said(decision)
        task, grant = await _begin(tx, deps, shown, person.sponsor, decision, Line())
        jti = _tell(deps, row, task, decision)
    return _issue(deps, task, decision, Line(), task.instance, jti, grant)


async def refresh(deps: Deps, ask: Refresh, started: float) -> Issued | Refusal:
    """One more token for a task, against its grant. Source: seed 002, What a task grant will not do."""
    row = Row("token.refresh", started)
    agent_says = jose.peek(ask.assertion)
    if agent_says is None:
        return await stranger(deps, row, unbelieved.assertion_malformed(Stop()))
    async with deps.db.look() as tx:
        facts = await store.look_for_refresh(tx, agent_says.issuer or "", digest(ask.grant))
        line = await store.line_of(tx, facts.task.parent if facts.task else None)
    shown = await tokens.authenticate(deps, ask.assertion, agent_says, facts.agent, ask.client_id)
    if isinstance(shown, Unauthentic):
        return await tokens.unauthentic(deps, row, shown)
    agent, task = facts.agent, facts.task
    assert agent is not None  # its key was found
    row.agent = shown.agent
    row.facts.update(_asked(ask))
    if task is not None and task.agent == agent.agent_id:
        row.task, row.sponsor = task.id, task.sponsor
    status: Status | None = None
    now = deps.clock.now()
    if task is not None and decide_before_person(agent.agent_id, facts, line, now) is None:
        life = min(SPONSOR_ANSWER_LIFE, token_ttl((agent, *line.agents), clocks(deps)), task.expires_at - now)
        status = await _ask(deps, task.sponsor, max(now - life, task.created_at))
    decision = decide_refresh(ask, agent, facts, line, status, clocks(deps), deps.clock.now())
    if isinstance(decision, Refusal) or task is None:
        assert isinstance(decision, Refusal)  # nothing is minted without a task
        return await _denied(deps, row, shown, decision)
    async with recorded(deps, row, few_trips=True) as tx:
        held = await store.hold_for_refresh(tx, _spending(shown), task.sponsor, task.id)
        if task.parent is not None:
            line = await store.line_of(tx, task.parent)
        still = _still(held, facts)
        if isinstance(still, Refusal):
            decision = still
        else:
            today = Facts(still, held.sponsor, task if held.renewals else await store.current(tx, task.id))
            decision = decide_refresh(ask, still, today, line, status, clocks(deps), deps.clock.now())
            if isinstance(decision, Mint):
                decision = decide_unended(facts, today) or decision
        if isinstance(decision, Refusal):
            if held.renewals:
                await store.take_back(tx, task.id)
            return row.said(decision)
        jti = _tell(deps, row, task, decision)
        row.silent = held.renewals > 1
    return _issue(deps, task, decision, line, shown.instance or task.instance, jti)


def clocks(deps: Deps) -> Clocks:
    """The two clocks as set."""
    default, bounds = deps.settings.tokens, deps.settings.agents
    return Clocks(
        default.default_task_ttl,
        default.default_token_ttl,
        (bounds.min_task_ttl, bounds.max_task_ttl),
        (bounds.min_token_ttl, bounds.max_token_ttl),
    )


async def _delegate(deps: Deps, ask: Exchange, row: Row, shown: Assertion, facts: Facts) -> Issued | Refusal:
    brought = tokens.presented(deps, ask.subject_token)
    if isinstance(brought, Refusal):
        return await _denied(deps, row, shown, brought)
    async with deps.db.look() as tx:
        line = await store.line_of(tx, brought.task)
        revoked = await store.is_revoked(tx, brought.jti)
        before = await store.look_for_exchange(tx, shown.agent, line.tasks[0].sponsor if line.tasks else None, ())
    refused = _usable(brought, line, revoked)
    if refused is not None:
        return await _denied(deps, row, shown, refused)
    parent = line.tasks[0]
    row.sponsor, row.facts["parent"] = parent.sponsor, parent.id
    assert facts.agent is not None  # its key was found
    refused = decide_parent(facts.agent, line, deps.clock.now()) or decide_sponsor(before.sponsor, None)
    status: Status | None = None
    if refused is None:
        status = await _ask(deps, parent.sponsor, deps.clock.now())
        refused = decide_sponsor(before.sponsor, status)
    if refused is not None:
        return await _denied(deps, row, shown, refused)
    async with recorded(deps, row, few_trips=True) as tx:
        await store.hold_agents(tx, [shown.agent, *(one.agent_id for one in line.agents)])
        held = await store.hold_for_exchange(tx, _spending(shown), parent.sponsor)
        line = await store.line_of(tx, brought.task)
        agent = _still(held, facts)
        if isinstance(agent, Refusal):
            return row.said(agent)
        refused = _usable(brought, line, await store.is_revoked(tx, brought.jti))
        now = deps.clock.now()
        refused = refused or decide_parent(agent, line, now) or decide_sponsor(held.sponsor, status)
        decision = refused or decide_delegation(ask, agent, brought, line, clocks(deps), now)
        if isinstance(decision, Mint):
            decision = decide_unended(before, Facts(agent, held.sponsor)) or decision
        if isinstance(decision, Refusal):
            return row.said(decision)
        task, grant = await _begin(tx, deps, shown, parent.sponsor, decision, line)
        jti = _tell(deps, row, task, decision)
    return _issue(deps, task, decision, line, task.instance, jti, grant)


def _usable(brought: Presented, line: Line, revoked: bool) -> Refusal | None:
    """Whether a task token that was brought stands for a task that is there."""
    if not line.tasks or not line.complete or line.tasks[0].agent != brought.agent:
        return unbelieved.parent_malformed(Stop())
    return unbelieved.token_revoked(Stop()) if revoked else None


def _still(held: store.Held, before: Facts) -> Registration | Refusal:
    """The agent as it is now, if its assertion was not used before and its keys are those that were asked."""
    if not held.fresh:
        return unbelieved.assertion_replayed(Stop())
    if held.agent is None or before.agent is None:
        return unbelieved.assertion_issuer(Stop())
    if (held.agent.jwks, held.agent.jwks_uri) != (before.agent.jwks, before.agent.jwks_uri):
        return unbelieved.assertion_keys_unavailable(tokens.LATER)
    return held.agent


async def _begin(tx: Tx, deps: Deps, shown: Assertion, sponsor: str, mint: Mint, line: Line) -> tuple[Task, str]:
    """Store a task, and its grant by its digest."""
    now, grant = deps.clock.now(), GRANT_PREFIX + deps.ids.token()
    parent = line.tasks[0] if line.tasks else None
    task = Task(
        id=TASK_PREFIX + ulid(now, deps.ids),
        agent=shown.agent,
        sponsor=sponsor,
        audience=mint.audience,
        scope=mint.scope,
        created_at=now,
        expires_at=mint.task_expires_at,
        parent=parent.id if parent else None,
        depth=parent.depth + 1 if parent else 1,
        chain=(shown.agent, *(parent.chain if parent else ())),
        instance=shown.instance,
    )
    await store.insert_task(tx, task, digest(grant))
    return task, grant


def _issue(
    deps: Deps, task: Task, mint: Mint, line: Line, instance: str | None, jti: str, grant: str | None = None
) -> Issued:
    made = claims(
        mint, issuer=deps.settings.issuer, jti=jti, task=task.id, sponsor=task.sponsor, instance=instance,
        chain=line.tasks, agent=task.agent,
    )  # fmt: skip
    left = int((mint.expires_at - deps.clock.now()).total_seconds())
    return Issued(deps.signing.sign(made), jti, mint.scope, max(left, 0), task.id, mint.task_expires_at, grant)


async def _denied(deps: Deps, row: Row, shown: Assertion, refusal: Refusal) -> Refusal:
    """A denial of an agent, which has used its assertion up. One that it had used before is denied as that."""
    async with recorded(deps, row, few_trips=True) as tx:
        fresh = await store.spend(tx, _spending(shown))
        return row.said(refusal if fresh else unbelieved.assertion_replayed(Stop()))


async def _ask(deps: Deps, sponsor: str, no_older_than: datetime) -> Status:
    try:
        answer = await deps.sponsors.ask(sponsor, no_older_than)
    except CannotAnswer:
        return "unknown"
    return answer.state


def _spending(shown: Assertion) -> store.Spending:
    """Remembered for longer than it can be valid, also where our clock is set back by minutes."""
    return store.Spending(shown.agent, digest(shown.jti), shown.expires_at + ASSERTION_LIFE)


def _asked(ask: Exchange | Refresh) -> dict[str, object]:
    """What was asked for, for the record, which keeps it for good: so no token that was sent in the wrong place."""
    asked: dict[str, object] = {}
    if ask.resource is not None:
        asked["resource"] = masked(without_tokens(ask.resource))[:300]
    if ask.scope is not None:
        asked["scope"] = without_tokens(" ".join(ask.scope))[:300]
    return asked


def _tell(deps: Deps, row: Row, task: Task, mint: Mint) -> str:
    """The id of the token that is given; what it is good for goes on the record."""
    jti = JTI_PREFIX + ulid(mint.issued_at, deps.ids)
    row.task = task.id
    row.facts.update(
        resource=mint.audience, scope=" ".join(mint.scope), token=jti, expires_at=mint.expires_at.isoformat()
    )
    return jti
