"""When a token is used, renewed, waited for or given up: the two clocks of a task, as plain values.

No I/O and no clock of its own: every method takes `now`, seconds on a monotonic clock. Not safe across threads by
itself: its owner holds a lock, or lives in one event loop.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from onbe_client.answers import LEAST_LEFT, Issued
from onbe_client.errors import BadAnswer, OnbeError, Over, Retryable, ScopeRefused, TaskEnded

RENEW_AT = 0.6
"""The share of a token's life after which it is renewed (seed: Refresh before you have to)."""
BACKOFF_LEAST, BACKOFF_MOST = 1.0, 60.0
"""Seconds between two tries."""


@dataclass(frozen=True, slots=True)
class Use:
    """This token, at once."""

    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Early:
    """Renew; where that fails, or takes long, this token is still good."""

    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Renew:
    """Renew: there is no token to give."""


@dataclass(frozen=True, slots=True)
class Hold:
    """There is no token to give, and the next try is in so many seconds."""

    seconds: float
    error: OnbeError


@dataclass(frozen=True, slots=True)
class Fail:
    """No token, for this reason."""

    error: OnbeError


Advice = Use | Early | Renew | Hold | Fail


def backoff(failures: int, chance: float, asked: float | None = None) -> float:
    """Seconds to the next try after so many failures in a row: 1 to 60, doubling, the upper half of it by chance.

    `chance` is from 0 to 1; `asked` is what the server asked for (`Retry-After`), obeyed up to 60 s.
    """
    step = min(BACKOFF_MOST, BACKOFF_LEAST * 2.0 ** min(max(failures, 1) - 1, 10))
    return max(BACKOFF_LEAST, min(BACKOFF_MOST, max(step * (0.5 + 0.5 * chance), asked or 0.0)))


class Renewals:
    """One task's token over time."""

    def __init__(self, task_id: str | None = None, scope: tuple[str, ...] | None = None) -> None:
        self.task_id = task_id
        self.scope = scope
        """What the token in hand holds."""
        self._token: str | None = None
        self.good_until = 0.0
        """When the token in hand expires."""
        self._renew_at = 0.0
        self._next_try = 0.0
        self._failures = 0
        self._error: OnbeError | None = None
        self._over: Over | None = None
        self.task_until: float | None = None
        """When the task ends; None where that is not known here."""

    def __repr__(self) -> str:
        return f"Renewals({self.task_id}, good_until={self.good_until:.0f}, over={self._over and self._over.error})"

    @property
    def over(self) -> Over | None:
        """Why there are no more tokens; None while there may be."""
        return self._over

    def advise(self, now: float) -> Advice:
        """What to do for somebody who wants a token."""
        if self._over is not None:
            return Fail(self._over.again())
        token = self._token if self.good_until - now > LEAST_LEFT else None
        if token is not None and (now < self._renew_at or self._lasts()):
            return Use(token)
        if self.task_until is not None and self.task_until - now <= LEAST_LEFT and token is None:
            return Fail(TaskEnded("access_denied", "The task's time is up.", reason="task_ending"))
        if now < self._next_try and self._error is not None:
            if token is not None:
                return Use(token)
            if isinstance(self._error, Retryable):
                return Hold(self._next_try - now, self._error.again())
            return Fail(self._error.again())
        return Renew() if token is None else Early(token)

    def still_good(self, now: float) -> str | None:
        """The token in hand, while it may be handed out."""
        return self._token if self._over is None and self.good_until - now > LEAST_LEFT else None

    def succeeded(self, issued: Issued, asked_at: float) -> None:
        """A token came; `asked_at` is when its request left, from which its life is counted. Raises BadAnswer.

        A token of another task is never taken.
        """
        if self.task_id is not None and issued.task_id is not None and issued.task_id != self.task_id:
            raise BadAnswer("bad_answer", "The answer is a token of another task.", status=200)
        self.task_id = self.task_id or issued.task_id
        self.scope = issued.scope if issued.scope is not None else self.scope
        self._token = issued.access_token
        self.good_until = asked_at + issued.expires_in
        self._renew_at = asked_at + RENEW_AT * issued.expires_in
        if issued.task_left is not None:
            self.task_until = asked_at + issued.task_left
        self._failures, self._error, self._next_try = 0, None, 0.0
        if isinstance(self._over, ScopeRefused):
            self._over = None  # less was asked for, and granted

    def failed(self, error: OnbeError, now: float, chance: float) -> None:
        """A renewal failed: for good, or until the next try."""
        if isinstance(error, Over):
            self.end(error)
            return
        self._failures += 1
        self._error = error
        asked = error.retry_after if isinstance(error, Retryable) else None
        self._next_try = now + backoff(self._failures, chance, asked)

    def end(self, error: Over) -> None:
        """No more tokens; the first reason stays."""
        self._over = self._over or error
        self._token = None

    def _lasts(self) -> bool:
        """Whether the token in hand lives as long as its task: then there is nothing to renew it for."""
        return self.task_until is not None and self.good_until >= self.task_until - 1.0
