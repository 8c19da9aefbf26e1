"""The token endpoint's answers, read with suspicion."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from onbe_client.errors import BadAnswer, OnbeError, Unavailable, refusal
from onbe_client.steps import Answer, whole

LEAST_LEFT = 5.0
"""Seconds: a token with less is never handed out, and none is issued (seed: Two clocks, not one)."""
LONGEST_BELIEVED = 3600.0
"""Seconds: a longer `expires_in` is taken for this, which renews earlier and loses nothing."""
YEAR = 366 * 86400.0

_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
"""RFC 6750, 2.1."""
_WORD = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
"""One scope (RFC 6749, 3.3)."""
TOKEN_LENGTH = 16 * 1024


@dataclass(frozen=True, slots=True)
class Issued:
    """A token as it came."""

    access_token: str = field(repr=False)
    expires_in: float
    """Seconds from the answer."""
    scope: tuple[str, ...] | None
    """None where the answer does not say, which means: as asked for (RFC 6749, 5.1)."""
    task_id: str | None
    task_expires_at: datetime | None
    task_left: float | None
    """Seconds from the answer to the end of the task by the server's own clock; None where it cannot be told."""
    grant: str | None = field(default=None, repr=False)


def words(scope: str | tuple[str, ...] | list[str]) -> tuple[str, ...]:
    """The words of a scope, each once, in their order. Raises ValueError on what no scope may hold."""
    found = scope.split() if isinstance(scope, str) else [word for part in scope for word in part.split()]
    if not all(_WORD.fullmatch(word) for word in found):
        raise ValueError("a scope is printable words with spaces between them")
    return tuple(dict.fromkeys(found))


def issued(answer: Answer) -> Issued:
    """The token of a 200. Raises BadAnswer for one that could not be used safely, else the error that it says."""
    if answer.status != 200:
        raise failure(answer)
    document = answer.document()

    def bad(what: str) -> BadAnswer:
        return BadAnswer("bad_answer", f"The token endpoint's answer {what}.", status=200)

    token = document.get("access_token")
    if not isinstance(token, str) or len(token) > TOKEN_LENGTH or not _TOKEN.fullmatch(token):
        raise bad("has no access_token that a header could carry")
    if str(document.get("token_type", "")).lower() not in ("bearer", "n_a"):
        raise bad("has a token of a type that is not Bearer")
    life = whole(document.get("expires_in"), 0, float(10**12))
    if life is None:
        raise bad("does not say in seconds how long the token lives (expires_in)")
    if life <= LEAST_LEFT:
        raise bad("has a token that lives for 5 seconds or less")
    scope = document.get("scope")
    grant = document.get("refresh_token")
    if grant is not None and (not isinstance(grant, str) or not 1 <= len(grant) <= 1024 or not _TOKEN.fullmatch(grant)):
        raise bad("has a refresh_token that is none")
    task = document.get("task_id")
    if task is not None and (not isinstance(task, str) or not re.fullmatch(r"[\w.-]{1,128}", task, re.ASCII)):
        raise bad("has a task_id that is none")
    try:
        granted = words(scope) if isinstance(scope, str) else None
    except ValueError:
        raise bad("has a scope that is none") from None
    ends = _instant(document.get("task_expires_at"))
    return Issued(
        access_token=token,
        expires_in=min(life, LONGEST_BELIEVED),
        scope=granted,
        task_id=task,
        task_expires_at=ends,
        task_left=_task_left(token, life, ends),
        grant=grant,
    )


def failure(answer: Answer) -> OnbeError:
    """The error that an answer other than the one wanted means."""
    if 300 <= answer.status < 400:
        return BadAnswer("redirected", "The server sends elsewhere, which is never followed.", status=answer.status)
    try:
        document: Mapping[str, Any] = answer.document()
    except BadAnswer as bad:
        document = {}
        if answer.status < 500 and answer.status != 429:
            return bad
    error = document.get("error")
    if not isinstance(error, str) or not _WORD.fullmatch(error) or len(error) > 64:
        if answer.status >= 500:
            return Unavailable(
                "server_error", f"HTTP {answer.status}.", status=answer.status, retry_after=answer.retry_after
            )
        if answer.status != 429:
            return BadAnswer("bad_answer", f"A {answer.status} that names no error.", status=answer.status)
        error = "slow_down"
    return refusal(answer.status, error, document.get("error_description"), document.get("reason"), answer.retry_after)


def _instant(value: object) -> datetime | None:
    """An instant in UTC, from seconds since 1970 or ISO 8601 with its zone; None for anything else."""
    if isinstance(value, str):
        try:
            at = datetime.fromisoformat(value)
        except ValueError:
            return None
        return at.astimezone(UTC) if at.tzinfo else None
    seconds = whole(value, 0, 4e9)
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _task_left(token: str, life: float, ends: datetime | None) -> float | None:
    """How long the task lives on, by the server's clock alone: `exp` is `life` from now, its end after that.

    The token's claims are read for this and for nothing else; one that cannot be read says nothing.
    """
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        return None
    if not isinstance(claims, dict):
        return None
    task = claims.get("task")
    end = ends or (_instant(task.get("exp")) if isinstance(task, dict) else None)
    exp = whole(claims.get("exp"), 0, 4e9)
    if end is None or exp is None:
        return None
    left = life + end.timestamp() - exp
    return left if life - 1 <= left <= YEAR else None  # a token never outlives its task
