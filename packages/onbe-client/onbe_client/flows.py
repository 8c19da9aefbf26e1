"""Every conversation with Onbe, as generators of steps: the async and the blocking client run the same ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from onbe_client import metadata
from onbe_client.answers import Issued, failure, issued
from onbe_client.clock import World
from onbe_client.errors import AgentUnknown, BadAnswer, Misconfigured, Retryable
from onbe_client.keys import AgentKey
from onbe_client.metadata import Metadata
from onbe_client.renewal import backoff
from onbe_client.steps import Answer, Ask, Flow, Wait

EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
SUBJECT_ACCESS = "urn:ietf:params:oauth:token-type:access_token"
"""The type of a task token, and of a person's access token."""
SUBJECT_ID = "urn:ietf:params:oauth:token-type:id_token"
SUBJECT_JWT = "urn:ietf:params:oauth:token-type:jwt"
ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

CLOCKS_APART = 30.0
"""Seconds: where the server's clock differs by more, an assertion that it refused is made again by its own."""
METADATA_LIFE = 3600.0

T = TypeVar("T")


@dataclass
class Core:
    """Who is asked, who asks, and what is known of both."""

    issuer: str
    agent_id: str
    key: AgentKey
    world: World
    instance: str | None = None
    insecure: bool = False
    timeout: float = 10.0
    known: Metadata | None = field(default=None, repr=False)
    known_at: float = 0.0
    ahead: float = 0.0
    """How far the server's clock is ahead of this machine's, in seconds; 0 until it refused one of our assertions."""


@dataclass(frozen=True, slots=True)
class Came:
    """A token, and when its request left on the monotonic clock."""

    issued: Issued
    asked_at: float


@dataclass(frozen=True, slots=True)
class Begun:
    """A task that an exchange began."""

    came: Came
    task_id: str
    resource: str
    scope: tuple[str, ...] | None
    grant: str = field(repr=False)
    task_expires_at: datetime | None = None


def discover(core: Core, within: float) -> Flow[Metadata]:
    """The issuer's metadata, kept for an hour; older ones serve on while they cannot be fetched."""
    now = core.world.monotonic()
    if core.known is not None and now - core.known_at < METADATA_LIFE:
        return core.known
    try:
        core.known = yield from fetch_metadata(core.issuer, within, insecure=core.insecure)
    except Retryable:
        if core.known is None:
            raise
    core.known_at = now
    return core.known


def fetch_metadata(issuer: str, within: float, *, insecure: bool) -> Flow[Metadata]:
    """The metadata, from the first of its two places that has them."""
    first, second = metadata.places(issuer)
    answer: Answer = yield Ask(first, within)
    if answer.status == 404:
        answer = yield Ask(second, within)
    if answer.status != 200:
        raise failure(answer)
    return metadata.read(answer.document(), issuer, insecure=insecure)


def _authenticated(
    core: Core, url: str, form: Mapping[str, str], within: float, *, actor: bool = False
) -> Flow[Answer]:
    """POST with a fresh assertion. Refused by a clock that differs from ours, once more by that clock."""
    name, kind = ("actor_token", SUBJECT_JWT) if actor else ("client_assertion", ASSERTION)
    for last in (False, True):
        assertion = core.key.assertion(core.agent_id, core.issuer, core.world, ahead=core.ahead, instance=core.instance)
        answer: Answer = yield Ask(url, within, {**form, name: assertion, f"{name}_type": kind})
        if last or answer.status != 401 or answer.date is None:
            return answer
        apart = answer.date - core.world.now()
        if abs(apart - core.ahead) <= CLOCKS_APART or not isinstance(failure(answer), AgentUnknown):
            return answer
        core.ahead = apart
    raise AssertionError("not reached")


def exchange(
    core: Core, subject_token: str, resource: str, scope: tuple[str, ...] | None, *, kind: str, patience: float
) -> Flow[Begun]:
    """A new task. What may be retried is, until `patience` seconds have passed."""
    form = {
        "grant_type": EXCHANGE,
        "subject_token": subject_token,
        "subject_token_type": kind,
        "resource": resource,
        **({} if scope is None else {"scope": " ".join(scope)}),
    }

    def attempt() -> Flow[Begun]:
        known = yield from discover(core, core.timeout)
        asked_at = core.world.monotonic()
        answer = yield from _authenticated(core, known.token_endpoint, form, core.timeout, actor=True)
        got = issued(answer)
        if got.grant is None or got.task_id is None:
            raise BadAnswer(
                "bad_answer", "The exchange's answer has no task_id or no grant (refresh_token).", status=200
            )
        return Begun(
            came=Came(got, asked_at),
            task_id=got.task_id,
            resource=resource,
            scope=got.scope if got.scope is not None else scope,
            grant=got.grant,
            task_expires_at=got.task_expires_at,
        )

    return (yield from _patiently(core, attempt, patience))


def refresh(core: Core, grant: str, scope: tuple[str, ...] | None, within: float) -> Flow[Came]:
    """The next token of a task; one try. `scope` narrows it, None is all that the task has."""
    form = {"grant_type": "refresh_token", "refresh_token": grant}
    if scope is not None:
        form["scope"] = " ".join(scope)
    known = yield from discover(core, within)
    asked_at = core.world.monotonic()
    answer = yield from _authenticated(core, known.token_endpoint, form, within)
    return Came(issued(answer), asked_at)


def narrow(core: Core, grant: str, scope: tuple[str, ...], *, patience: float) -> Flow[Came]:
    """The first token of a task with a smaller scope; what may be retried is."""
    return (yield from _patiently(core, lambda: refresh(core, grant, scope, core.timeout), patience))


def revoke(core: Core, token: str, hint: str, *, patience: float) -> Flow[None]:
    """End a task by its grant, or one token (RFC 7009)."""

    def attempt() -> Flow[None]:
        known = yield from discover(core, core.timeout)
        if known.revocation_endpoint is None:
            raise Misconfigured("no_revocation_endpoint", "The issuer names no revocation endpoint.")
        form = {"token": token, "token_type_hint": hint}
        answer = yield from _authenticated(core, known.revocation_endpoint, form, core.timeout)
        if answer.status != 200:
            raise failure(answer)

    yield from _patiently(core, attempt, patience)


def introspect(core: Core, token: str, within: float) -> Flow[Mapping[str, object]]:
    """What the server says of a token now (RFC 7662): an object with `active`. One try."""
    known = yield from discover(core, within)
    if known.introspection_endpoint is None:
        raise Misconfigured("no_introspection_endpoint", "The issuer names no introspection endpoint.")
    answer = yield from _authenticated(core, known.introspection_endpoint, {"token": token}, within)
    if answer.status != 200:
        raise failure(answer)
    said = answer.document()
    if not isinstance(said.get("active"), bool):
        raise BadAnswer(
            "bad_answer", "The introspection's answer does not say whether the token is active.", status=200
        )
    return said


def _patiently(core: Core, attempt: Callable[[], Flow[T]], patience: float) -> Flow[T]:
    """Until it is done, refused, or the patience is over: what may be retried is, 1 to 60 s apart.

    An answer that makes no sense is not asked for again: the server may have done what was asked.
    """
    world = core.world
    until = world.monotonic() + patience
    failures = 0
    while True:
        try:
            return (yield from attempt())
        except Retryable as error:
            failures += 1
            pause = backoff(failures, world.chance(), error.retry_after)
            if isinstance(error, BadAnswer) or world.monotonic() + pause > until:
                raise
        yield Wait(pause)
