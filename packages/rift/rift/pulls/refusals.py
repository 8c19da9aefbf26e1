"""What a verb about pull requests, issues or checks is refused with."""

from __future__ import annotations

from keel.refusal import YOUR_HANDLE, Ask, Call, Refusal, Retry, Stop, kind
from rift.verbs.refusals import ADMIN

_NONE = kind(
    "verb_none_here",
    "{repository} comes from a plain git origin, which has no pull requests, issues or checks, so there is no {verb}. "
    "fetch and push work.",
)
_UNKNOWN = kind("verb_unknown", "There is no verb {verb}. `verbs` lists them.")
_ARGUMENT = kind("verb_argument", "{verb} did not run: {problem}. `{verb} --help` shows an example.")
_DENIED = kind("verb_denied", "GitHub does not let {login} do this in {repository}: {reason}.")
_MISSING = kind("verb_missing", "{repository} has no such thing that {login} may see: {what}.")
_REFUSED = kind("verb_refused", "GitHub did not take it: {reason}.")
_AWAY = kind("verb_github_away", "GitHub could not be asked: {reason}.")
_BUSY = kind("verb_github_busy", "GitHub asks {login} for patience: too much was asked.")
_NO_PULL = kind("verb_no_pull", "No pull request is open from {head}. `pr-open --title '…'` opens one.")


def none_here(repository: str, verb: str) -> Refusal:
    """A plain git origin has repositories, and nothing around them."""
    return _NONE(Stop(), repository=repository, verb=verb)


def unknown(vm: str, verb: str) -> Refusal:
    """A name that is no verb's."""
    return _UNKNOWN(_bash(vm, "verbs"), verb=verb[:40])


def argument(vm: str, verb: str, problem: str) -> Refusal:
    """An argument is missing or none."""
    return _ARGUMENT(_bash(vm, f"{verb} --help"), verb=verb, problem=problem)


def denied(login: str, repository: str, reason: str) -> Refusal:
    """The person may not, or the App may not for them."""
    ask = Ask(ADMIN, f"the right for {login} at GitHub")
    return _DENIED(Call("rift_github_login"), ask, login=login, repository=repository, reason=reason)


def missing(login: str, repository: str, what: str) -> Refusal:
    """Not there, or not to be seen."""
    return _MISSING(Stop(), login=login, repository=repository, what=what)


def refused(reason: str) -> Refusal:
    """GitHub's own reasons, each of them."""
    return _REFUSED(Stop(), reason=reason)


def away(reason: str) -> Refusal:
    """It did not answer, or not as it should."""
    return _AWAY(Retry(30), reason=reason)


def busy(login: str, seconds: float) -> Refusal:
    """A rate limit."""
    return _BUSY(Retry(seconds), login=login)


def no_pull(vm: str, head: str) -> Refusal:
    """Asked without a number, from a branch that has none."""
    return _NO_PULL(_bash(vm, "pr-open --title '<what it does>'"), head=head)


def _bash(vm: str, command: str) -> Call:
    """What to type in the box."""
    return Call("rift_bash", {"task": YOUR_HANDLE, "vm": vm, "command": command, "timeout": 60, "block_for": 45})
