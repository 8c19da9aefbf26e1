"""The server under test: its endpoints, throw-away agents, and what it recorded."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import httpx2

from keel.clock import Clock
from keel.ids import Ids
from onbe import names
from onbe.conformance.case import Failed, NotRun, expect
from onbe.conformance.making import Signer, told
from onbe.conformance.people import OfDevelopment, People
from onbe.settings import is_loopback

SECONDS = 30.0
TOOL, OTHER_TOOL = "https://conformance.invalid/tool", "https://conformance.invalid/other"
READ, WRITE, MORE = "conformance:read", "conformance:write", "conformance:more"
SHORTEST = ("PT8S", "PT15S", "PT30S", "PT1M")
"""Lives of tasks that are tried, to wait for an end no longer than the server's settings demand."""

ERRORS: Mapping[str, tuple[int, str]] = {
    "malformed_request": (400, "invalid_request"), "too_large": (413, "invalid_request"),
    "unsupported_grant": (400, "unsupported_grant_type"), "unsupported_token_type": (400, "invalid_request"),
    "grant_not_found": (400, "invalid_grant"),
    **dict.fromkeys(("audience_mismatch", "audience_not_allowed"), (400, "invalid_target")),
    **dict.fromkeys(("scope_widened", "scope_not_allowed", "scope_empty"), (400, "invalid_scope")),
    **dict.fromkeys(("parent_malformed", "token_revoked"), (400, "invalid_request")),
}  # fmt: skip
"""By reason: status and error. Those that are not here: `assertion_…`, `subject_…`, and `access_denied`."""

Claims = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent that this run registered."""

    id: str
    signer: Signer


@dataclass(slots=True)
class Short:
    """A task that ends soon, begun when the run began."""

    agent: Agent
    given: Claims
    claims: Claims


@dataclass(slots=True)
class Bench:
    """What a case works with. Raises Failed where the server does not answer as it should on the way to a check."""

    http: httpx2.Client
    url: str
    admin_key: str
    clock: Clock
    ids: Ids
    people: People
    metadata: Claims = field(default_factory=dict)
    agents: list[Agent] = field(default_factory=list)
    ids_used: list[str] = field(default_factory=list)
    """Also of registrations that should have been refused, and perhaps were not."""
    left: list[str] = field(default_factory=list)
    short: Short | None = None
    _run: str = ""

    # The server

    @property
    def issuer(self) -> str:
        """As the server names itself."""
        return str(self.metadata["issuer"])

    def discover(self) -> None:
        """Find the endpoints. Raises NotRun where there is no Onbe."""
        try:
            answer = self.http.get(f"{self.url}/.well-known/oauth-authorization-server")
            self.metadata = answer.json() if answer.status_code == 200 else {}
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            raise NotRun(f"{self.url} cannot be reached: {type(error).__name__}") from None
        if not isinstance(self.metadata, dict) or "token_endpoint" not in self.metadata:
            raise NotRun(f"{self.url} does not describe itself as an Onbe does (HTTP {answer.status_code})")
        self._run = self.ids.hex(8)

    def admin(self, method: str, path: str, body: object = None, **options: Any) -> httpx2.Response:
        """A request to the admin API or the audit, with the key."""
        headers = {"Authorization": f"Bearer {self.admin_key}", **options.pop("headers", {})}
        if body is not None:
            options["json"] = body
        return self.http.request(method, f"{self.url}{path}", headers=headers, **options)

    # Agents

    def members(self, signer: Signer, **changed: Any) -> Claims:
        """A registration, as the admin API takes it; None leaves a member out. Its id is one of this run's own."""
        self.ids_used.append(f"conformance-{self._run}-{len(self.ids_used) + 1}")
        made = {
            "agent_id": self.ids_used[-1],
            "display_name": "A throw-away agent of the conformance suite",
            "allowed_scopes": [READ, WRITE],
            "allowed_audiences": [TOOL],
            "jwks": {"keys": [signer.public]},
            **changed,
        }
        return {name: value for name, value in made.items() if value is not None}

    def agent(self, **changed: Any) -> Agent:
        """Register an agent; members can be changed."""
        signer = Signer.new()
        members = self.members(signer, **changed)
        answer = self.admin("POST", "/admin/agents", members)
        expect(answer.status_code == 201, f"an agent could not be registered (HTTP {answer.status_code})")
        made = Agent(str(members["agent_id"]), signer)
        self.agents.append(made)
        return made

    def change(self, agent: Agent, **members: Any) -> None:
        """Change an agent's registration."""
        answer = self.admin("PATCH", f"/admin/agents/{agent.id}", members)
        expect(answer.status_code == 200, f"an agent could not be changed (HTTP {answer.status_code})")

    def alone(self, sponsor: str) -> None:
        """Raise NotRun where a person has tasks that this run did not begin: a block would end them."""
        query = {"sponsor": sponsor, "open": "true", "limit": "200"}
        open_tasks = self.admin("GET", "/admin/tasks", params=query).json()["tasks"]
        if any(not str(task["agent"]).startswith(f"conformance-{self._run}-") for task in open_tasks):
            raise NotRun("the person has tasks of other agents, which this would end")

    def forget(self) -> None:
        """Remove the agents of this run, or disable those that the server keeps; those that stayed on are in `left`."""
        for agent in self.ids_used:
            self.admin("DELETE", f"/admin/agents/{agent}/tasks")
            if self.admin("DELETE", f"/admin/agents/{agent}").status_code in (204, 404):
                continue
            if self.admin("PATCH", f"/admin/agents/{agent}", {"enabled": False}).status_code != 200:
                self.left.append(agent)

    # What agents send

    def claims(self, agent: Agent, **changed: Any) -> Claims:
        """An assertion's claims; None leaves one out."""
        now = int(self.clock.now().timestamp())
        made = {"iss": agent.id, "sub": agent.id, "aud": self.issuer, "iat": now, "exp": now + 60}
        made = {**made, "jti": self.ids.hex(), **changed}
        return {name: value for name, value in made.items() if value is not None}

    def assertion(self, agent: Agent, **changed: Any) -> str:
        """An agent's assertion, good for one request."""
        return agent.signer.jwt(self.claims(agent, **changed))

    def subject(self, scope: str = f"{READ} {WRITE}") -> str:
        """The person's token."""
        return self.people.token(scope)

    def exchange(self, agent: Agent, **changed: Any) -> httpx2.Response:
        """An exchange; parameters can be changed, or left out with None."""
        form = {
            "grant_type": names.EXCHANGE,
            "subject_token_type": names.SUBJECT_TYPES[0],
            "actor_token_type": names.ACTOR_TYPES[0],
            "resource": TOOL,
            **changed,
        }
        if "subject_token" not in form:
            form["subject_token"] = self.subject()
        if "actor_token" not in form:
            form["actor_token"] = self.assertion(agent)
        return self.post("token", form)

    def refresh(self, agent: Agent, grant: str, **changed: Any) -> httpx2.Response:
        """A refresh; parameters can be changed, or left out with None."""
        form = {
            "grant_type": names.REFRESH,
            "refresh_token": grant,
            "client_assertion_type": names.ASSERTION_TYPE,
            **changed,
        }
        if "client_assertion" not in form:
            form["client_assertion"] = self.assertion(agent)
        return self.post("token", form)

    def revoke(self, agent: Agent, token: str) -> httpx2.Response:
        """Give a grant or token back."""
        form = {
            "token": token,
            "client_assertion_type": names.ASSERTION_TYPE,
            "client_assertion": self.assertion(agent),
        }
        return self.post("revocation", form)

    def introspect(self, token: str) -> Claims:
        """What the server says of a token, to the administrator."""
        headers = {"Authorization": f"Bearer {self.admin_key}"}
        answer = self.http.post(str(self.metadata["introspection_endpoint"]), data={"token": token}, headers=headers)
        expect(answer.status_code == 200, f"introspection answers HTTP {answer.status_code}")
        said: Claims = answer.json()
        return said

    def post(self, endpoint: str, form: Mapping[str, Any]) -> httpx2.Response:
        """A form to an endpoint."""
        kept = {name: value for name, value in form.items() if value is not None}
        return self.http.post(str(self.metadata[f"{endpoint}_endpoint"]), data=kept)

    # What comes back

    def given(self, answer: httpx2.Response) -> tuple[Claims, Claims]:
        """A successful answer, and the claims of its token."""
        if answer.status_code != 200:
            raise Failed(f"an honest request is refused: {_said(answer)}")
        body: Claims = answer.json()
        try:
            return body, told(body["access_token"])[1]
        except (KeyError, ValueError):
            raise Failed("the answer holds no access token that is a JWT") from None

    def begin(self, agent: Agent, **changed: Any) -> tuple[Claims, Claims]:
        """An honest exchange."""
        return self.given(self.exchange(agent, **changed))

    def denied(self, answer: httpx2.Response, reason: str, agent: Agent | None = None) -> None:
        """Check that a request was refused for this reason, in the answer and on the record.

        `agent`: whom the record names. Of refusals that name nobody, the first in a minute is a record.
        """
        status, error = expected(reason)
        if answer.status_code == 200:
            raise Failed(f"the request is granted; it should be refused as {reason}")
        body = _json(answer)
        expect(
            (answer.status_code, body.get("error")) == (status, error),
            f"the refusal should be HTTP {status} {error} ({reason}), and is {_said(answer)}",
        )
        if error == "access_denied":
            expect(body.get("reason") == reason, f"the reason should be {reason}, and is {body.get('reason')}")
        else:
            expect("reason" not in body, f"{error} should carry no reason: access_denied alone does")
        self.recorded(reason, agent, since=_minute(answer, self.clock))

    def recorded(self, reason: str, agent: Agent | None = None, *, since: datetime | None = None) -> Claims:
        """The newest record of a denial. Raises Failed where there is none."""
        query = {"decision": reason, "limit": "1"}
        if agent is not None:
            query["agent_id"] = agent.id
        elif since is not None:
            query["from"] = since.isoformat()
        answer = self.admin("GET", "/audit", params=query)
        expect(answer.status_code == 200, f"the audit answers HTTP {answer.status_code}")
        found = answer.json()["records"]
        expect(found, f"the refusal is not on the record under its reason, {reason}")
        record: Claims = found[0]
        return record

    # A task that is about to end

    def begin_short(self) -> None:
        """Begin a task as short as the server lets it be."""
        for life in SHORTEST:
            try:
                agent = self.agent(max_task_ttl=life)
            except Failed:
                continue
            self.short = Short(agent, *self.begin(agent))
            return
        raise Failed(f"no agent of a task life among {', '.join(SHORTEST)} could be registered")

    def ending(self) -> Short:
        """That task; another one where its last seconds have begun already."""
        if self.short is None or self.short.claims["task"]["exp"] - self.clock.now().timestamp() < 6:
            self.begin_short()
        assert self.short is not None
        return self.short

    def wait_until(self, moment: float, ready: Callable[[], bool]) -> None:
        """Wait until an instant (seconds since 1970), and then until something holds. Raises Failed after 20 s more."""
        while self.clock.now().timestamp() < moment:
            threading.Event().wait(min(1.0, max(moment - self.clock.now().timestamp(), 0.01)))
        while not ready():
            expect(self.clock.now().timestamp() < moment + 20, "the server's clock is far behind this one")
            threading.Event().wait(0.2)


def people_of(http: httpx2.Client, url: str) -> People:
    """The development issuer of a server. Raises NotRun where it has none."""
    issuer = f"{url}/development"
    try:
        if http.get(f"{issuer}/.well-known/openid-configuration").status_code == 200:
            return OfDevelopment(http, issuer)
    except httpx2.HTTPError as error:
        raise NotRun(f"{url} cannot be reached: {type(error).__name__}") from None
    raise NotRun("the server has no development issuer: --subject-token-command or --issuer-key say who a person is")


def expected(reason: str) -> tuple[int, str]:
    """Status and error of a reason. Source: 4-onbe, Exchange, refresh; RFC 6749, 5.2; RFC 8693, 2.2.2."""
    if reason.startswith("assertion_"):
        return 401, "invalid_client"
    if reason.startswith("subject_"):
        return 400, "invalid_request"
    return ERRORS.get(reason, (400, "access_denied"))


def _json(answer: httpx2.Response) -> Claims:
    try:
        body = answer.json()
    except ValueError:
        body = None
    return body if isinstance(body, dict) else {}


def _said(answer: httpx2.Response) -> str:
    body = _json(answer)
    told = [str(body[name]) for name in ("error", "reason", "error_description", "detail") if name in body]
    return f"HTTP {answer.status_code} {': '.join(told)}".strip()


def _minute(answer: httpx2.Response, clock: Clock) -> datetime:
    """The minute in which the server answered, by its own clock if it tells it, with a second to spare."""
    try:
        at = parsedate_to_datetime(answer.headers["date"]).astimezone(UTC)
    except (KeyError, ValueError, TypeError):
        at = clock.now()
    return (at - timedelta(seconds=1)).replace(second=0, microsecond=0)


def is_local(url: str) -> bool:
    """Whether a server is on this machine, where no proxy is asked for it."""
    return is_loopback(urlsplit(url).hostname or "")
