"""What can go wrong, in one tree. Nothing in it repeats a token, a grant, an assertion or a key.

```
OnbeError
├─ Retryable           may be tried again; a session does so by itself, 1 to 60 s apart
│  ├─ Unavailable      503 temporarily_unavailable, or any other 5xx
│  ├─ SlowDown         429 slow_down
│  ├─ Unreachable      no connection, no answer in time
│  └─ BadAnswer        what came is no answer of Onbe's: a proxy's page, a redirect, a token without its life
├─ Over                the task gives no more tokens: stop, and do not try again
│  ├─ TaskEnded        task_ending, task_expired: its time is up
│  ├─ TaskRevoked      task_revoked, parent_revoked: somebody stopped it
│  ├─ SponsorGone      sponsor_…: the person it acts for is no longer active
│  ├─ AgentDisabled    agent_disabled
│  ├─ GrantUnknown     invalid_grant: the grant does not exist, or is another agent's
│  ├─ ScopeRefused     invalid_scope: narrow it (`TaskSession.narrow`), or stop
│  ├─ TargetRefused    invalid_target: the agent may not have tokens for this resource
│  └─ SessionClosed    this session was closed, or its task finished
└─ Refused             asking again the same way is refused again
   ├─ AgentUnknown     invalid_client: the agent could not be authenticated
   ├─ RequestRefused   invalid_request and the like: the subject token is not taken, a parameter is wrong
   └─ Misconfigured    found on this side: an address that is not https, a key that cannot sign, an issuer not its own
```

Sources: RFC 6749, 5.2; RFC 8693, 2.2.2; RFC 8707, 2; seed 002 ("What a task grant will not do", "The sponsor check").
"""

from __future__ import annotations

import re
from typing import ClassVar, Self

_LONG = re.compile(r"[A-Za-z0-9_\-+/=.~]{32,}")
"""A run this long in a text is more likely a credential than a word."""
_DESCRIPTION_LENGTH = 300


class OnbeError(Exception):
    """What went wrong: `error` (of OAuth, or of ours), `reason` (of Onbe's closed list, or None), `description`.

    `advice` is a sentence that says what to do; `status` the HTTP status of the answer, where there was one.
    """

    advice: ClassVar[str] = "Look at the description."

    def __init__(
        self, error: str, description: str = "", *, reason: str | None = None, status: int | None = None
    ) -> None:
        self.error = shown(error) or "unknown_error"
        self.reason = shown(reason) if reason else None
        self.description = shown(description)
        self.status = status
        super().__init__(error)

    def again(self) -> Self:
        """The same error as a value of its own, so that each caller raises one with a traceback of its own."""
        fresh = type(self).__new__(type(self), *self.args)
        fresh.__dict__.update(self.__dict__)
        return fresh

    def __str__(self) -> str:
        name = f"{self.error} ({self.reason})" if self.reason and self.reason != self.error else self.error
        return " ".join(part for part in (f"{name}:", self.description, self.advice) if part)


class Retryable(OnbeError):
    """May be tried again. `retry_after`: the seconds that the server asked to wait, None where it did not."""

    advice = "Try again a little later."

    def __init__(
        self,
        error: str,
        description: str = "",
        *,
        reason: str | None = None,
        status: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(error, description, reason=reason, status=status)
        self.retry_after = retry_after


class Unavailable(Retryable):
    """The server, or what it must ask, cannot answer at this moment. Nothing was granted."""


class SlowDown(Retryable):
    """Too many requests from here."""

    advice = "Wait as long as the server asks, then try again."


class Unreachable(Retryable):
    """No connection, or no answer in time."""


class BadAnswer(Retryable):
    """What came is no answer of Onbe's."""

    advice = "Check the issuer's address, and what stands between here and there."


class Over(OnbeError):
    """The task gives no more tokens."""

    advice = "Stop: this task gives no more tokens."


class TaskEnded(Over):
    """The task's time is up, or nearly."""

    advice = "Stop: the task's time is up. Further work is a new task, by a new exchange."


class TaskRevoked(Over):
    """The task, or the one it was delegated from, was revoked."""

    advice = "Stop: somebody ended this task."


class SponsorGone(Over):
    """The person it acts for is blocked, disabled or deleted."""

    advice = "Stop: the person this task acts for is no longer active."


class AgentDisabled(Over):
    """The agent's registration is switched off."""

    advice = "Stop, and ask who runs Onbe to enable the agent."


class GrantUnknown(Over):
    """The grant does not exist, or belongs to another agent."""

    advice = "Stop: begin a new task by an exchange."


class ScopeRefused(Over):
    """The scope is more than the task, the person or the agent's registration has."""

    advice = "Ask for less: narrow() a session, or exchange with a smaller scope."


class TargetRefused(Over):
    """The resource is not the task's, or not among the agent's audiences."""

    advice = "Ask who runs Onbe whether the agent is registered for this resource."


class SessionClosed(Over):
    """The session was closed by this program."""

    advice = "Resume the task, or begin a new one."


class Refused(OnbeError):
    """Asking again the same way is refused again."""

    advice = "Change the request: the same one is refused again."


class AgentUnknown(Refused):
    """The agent could not be authenticated: its id, its key, the issuer's name, or this machine's clock."""

    advice = "Check the agent id, that its registration has this public key, and this machine's clock."


class RequestRefused(Refused):
    """The request, or the subject token in it, is not taken."""


class Misconfigured(Refused):
    """Found on this side, before or instead of asking."""

    advice = "Correct the configuration."


_OVER: dict[str, type[Over]] = {
    "task_ending": TaskEnded,
    "task_expired": TaskEnded,
    "parent_expired": TaskEnded,
    "task_revoked": TaskRevoked,
    "parent_revoked": TaskRevoked,
    "agent_disabled": AgentDisabled,
}
_BY_ERROR: dict[str, type[OnbeError]] = {
    "invalid_grant": GrantUnknown,
    "invalid_scope": ScopeRefused,
    "invalid_target": TargetRefused,
    "invalid_client": AgentUnknown,
    "unauthorized_client": AgentUnknown,
}


def shown(text: object) -> str:
    """A text of the server's as an error may carry it: one bounded printable line, nothing that may be a credential."""
    if not isinstance(text, str):
        return ""
    line = "".join(letter if letter.isprintable() else " " for letter in text[: 4 * _DESCRIPTION_LENGTH])
    return _LONG.sub("…", line).strip()[:_DESCRIPTION_LENGTH]


def refusal(
    status: int, error: str, description: object = "", reason: object = None, retry_after: float | None = None
) -> OnbeError:
    """The error that an OAuth error answer means. A status of 429 or 5xx may be tried again, whatever it says."""
    said = shown(description)
    why = shown(reason) or None
    if status == 429 or error == "slow_down":
        return SlowDown(error or "slow_down", said, reason=why, status=status, retry_after=retry_after)
    if status >= 500 or error in ("temporarily_unavailable", "server_error"):
        return Unavailable(error, said, reason=why, status=status, retry_after=retry_after)
    if error == "access_denied":
        kind = _OVER.get(why or "", SponsorGone if (why or "").startswith("sponsor_") else Over)
        return kind(error, said, reason=why, status=status)
    return _BY_ERROR.get(error, RequestRefused)(error, said, reason=why, status=status)
