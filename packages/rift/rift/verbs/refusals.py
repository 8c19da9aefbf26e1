"""What a request at the door is refused with. A terminal shows it to an agent, so it says what to call."""

from __future__ import annotations

from collections.abc import Mapping

from keel.refusal import YOUR_HANDLE, Ask, Call, Refusal, Retry, Stop, kind
from rift.people.model import OPERATOR
from rift.repos.model import Repo
from rift.verbs.model import Standing

ADMIN = "an admin of the organization"

_CLOSED = kind(
    "verb_task_closed",
    "The VM {vm} is in no open task, and only for an open task does anything go to a forge. "
    "rift_task_new opens one, rift_vm_new claims a VM in it.",
)
_PUT_OUT = kind("verb_put_out", "The account of whoever owns this VM's task is disabled, so nothing is done for it.")
_LEFT = kind(
    "verb_not_member",
    "Whoever owns this VM's task is no longer a member of the organization that {repository} belongs to.",
)
_STATE = kind("verb_vm_not_running", "The VM {vm} is {state}, and a request at the door is taken only while it runs.")
_UNCOVERED = kind(
    "verb_uncovered",
    "{repository} is out of Rift's reach at GitHub: the account is not enabled, is suspended, or no longer covers it. "
    "rift_repos shows how it stands.",
)
_OTHER = kind(
    "verb_other_repository",
    "This VM is one of {repository}, and its door opens no other repository. For {asked}, claim a VM of it.",
)
_PUSH = kind("push_refused", "Nothing was pushed: {reasons}. A branch of another name may be pushed.")
_MALFORMED = kind("verb_malformed", "{verb} was not done: {problem}.")
_ORIGIN = kind("verb_origin_failed", "The origin of {repository} did not do it: {reason}.")

NO_BRANCH = "boxes push branches and tags, by names that git allows"
AMBIGUOUS = "a branch of that name would be taken for something else"


def task_closed(standing: Standing) -> Refusal:
    """Unclaimed, or its task is closed: nobody stands behind it."""
    return _CLOSED(Call("rift_task_new", {"name": "<what the work is>"}), vm=standing.name)


def box_over(name: str) -> Refusal:
    """It was destroyed, or its agent started anew, while something came from it."""
    return _CLOSED(Call("rift_task_new", {"name": "<what the work is>"}), vm=name)


def put_out() -> Refusal:
    """The platform admin has put the owner out."""
    return _PUT_OUT(Ask(OPERATOR, "the account to be enabled again"))


def not_member(repository: str) -> Refusal:
    """Membership is checked at each request."""
    return _LEFT(Ask(ADMIN, "an invitation"), repository=repository)


def not_running(standing: Standing) -> Refusal:
    """It is being parked or destroyed."""
    return _STATE(Retry(5), vm=standing.name, state=standing.state)


def uncovered(repo: Repo, org: str) -> Refusal:
    """GitHub's account or the App's coverage stands in the way."""
    return _UNCOVERED(Call("rift_repos", {"org": org}), Ask(ADMIN, "rift_github_enable"), repository=repo.full)


def other_repository(own: str, asked: str) -> Refusal:
    """Only the box's own repository is behind its door."""
    claim = Call("rift_vm_new", {"task": YOUR_HANDLE, "repo": asked[:200], "ref": "<branch>"})
    return _OTHER(claim, repository=own, asked=asked[:200])


def push(repository: str, reasons: Mapping[str, str]) -> Refusal:
    """Refs outside the rules: the whole push is refused, and each of them told."""
    told = "; ".join(dict.fromkeys(reasons.values()))
    if set(reasons.values()) <= {NO_BRANCH, AMBIGUOUS}:  # for these nobody can make an exception
        return _PUSH(Stop(), reasons=told)
    return _PUSH(Ask(ADMIN, f"an exception for {repository}, on the page Repositories"), reasons=told)


def malformed(verb: str, problem: str) -> Refusal:
    """What came is none of git's requests, or an argument is none."""
    return _MALFORMED(Stop(), verb=verb, problem=problem)


def origin_failed(repository: str, reason: str, again: float | None = 30) -> Refusal:
    """The forge could not be asked, or refused the request as a whole."""
    mend = Stop() if again is None else Retry(again)
    return _ORIGIN(mend, repository=repository, reason=reason.rstrip("."))
