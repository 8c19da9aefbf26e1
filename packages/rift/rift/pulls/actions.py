"""What the verbs do at GitHub, each as the person who owns the box's task."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from keel.refusal import Refusal
from rift.deps import Deps
from rift.drivers.github.protocol import (
    GitHubBusy,
    GitHubDenied,
    GitHubError,
    GitHubMissing,
    GitHubRefused,
)
from rift.logins import actions as logins
from rift.logins.model import Person
from rift.names import VERBS
from rift.pulls import refusals
from rift.pulls.decide import BODY_MOST, TITLE_MOST, Wrong, branch_of, commit_of, number_of, text_of
from rift.pulls.model import Checked, Found, Opened, Read, Said, Status
from rift.verbs import actions as verbs
from rift.verbs.decide import plain
from rift.verbs.model import Admitted, Over, Speaker

LOGS_MOST = 3
"""Of how many failed checks the log is read."""
Given = Mapping[str, object]


async def verb(deps: Deps, speaker: Speaker, name: str, given: Given) -> Found | Refusal | Over:
    """Do one verb for a box; one record, whatever came of it, and one before it of a verb that changes something."""
    began = deps.clock.monotonic()
    who = await verbs.admit(deps, speaker, name if name in VERBS else "verb")
    if not isinstance(who, Admitted):
        return who
    told: dict[str, object] = {"repo": who.repo.full}
    found: Found | Refusal | None = None
    try:
        found = await _done(deps, who, name, given, told)
    finally:
        outcome = "error" if found is None else found.code if isinstance(found, Refusal) else "ok"
        await verbs.record(deps, who, name if name in VERBS else "verb", began, outcome, told)
    return found


async def _done(deps: Deps, who: Admitted, name: str, given: Given, told: dict[str, object]) -> Found | Refusal:
    do = _DO.get(name)
    if do is None:
        return refusals.unknown(who.name, name)
    if who.repo.forge != "github":
        return refusals.none_here(who.repo.full, name)
    person = await logins.person_token(deps, who.owner)
    if isinstance(person, Refusal):
        return person
    what = name
    try:
        if "number" in given and given["number"] is not None:
            told["number"] = number_of(given)
            what = f"#{told['number']}"
        return await do(deps, who, person, given, told)
    except Wrong as wrong:
        return refusals.argument(who.name, name, str(wrong))
    except GitHubBusy as error:
        return refusals.busy(person.login, max(1.0, (error.until - deps.clock.now()).total_seconds()))
    except GitHubDenied as error:
        over = await logins.check_token(deps, who.owner, person.token)
        return over or refusals.denied(person.login, who.repo.full, _short(error))
    except GitHubMissing:
        return refusals.missing(person.login, who.repo.full, what)
    except GitHubRefused as error:
        return refusals.refused(_short(error))
    except GitHubError as error:
        return refusals.away(_short(error))


def _short(error: GitHubError) -> str:
    return plain(error.reason, 1000).strip().rstrip(".") or "it gives no reason"


async def _open(deps: Deps, who: Admitted, as_: Person, given: Given, told: dict[str, object]) -> Found | Refusal:
    title = text_of(given, "title", TITLE_MOST, needed=True)
    body = text_of(given, "body", BODY_MOST, needed=False)
    head, base = branch_of(given, "head"), branch_of(given, "base") or who.repo.default_branch or "main"
    if head is None:
        raise Wrong("HEAD is on no branch")
    told |= {"head": head, "base": base}
    full = who.repo.full
    await verbs.begun(deps, who, "pr-open", told)
    try:
        pull = await deps.github.open_pull(
            as_.token, full, head=head, base=base, title=title, body=body, draft=given.get("draft") is True
        )
    except GitHubRefused:
        there = next((one for one in await deps.github.pulls_of(as_.token, full, head) if one.base == base), None)
        if there is None:
            raise
        told["number"] = there.number
        return Opened(there, before=True)
    told["number"] = pull.number
    return Opened(pull, before=False)


async def _comment(deps: Deps, who: Admitted, as_: Person, given: Given, told: dict[str, object]) -> Found | Refusal:
    number = number_of(given)
    body = text_of(given, "body", BODY_MOST, needed=True)
    await verbs.begun(deps, who, "pr-comment", told)
    return Said(number, await deps.github.comment(as_.token, who.repo.full, number, body))


async def _status(deps: Deps, who: Admitted, as_: Person, given: Given, told: dict[str, object]) -> Found | Refusal:
    full, head = who.repo.full, branch_of(given, "head")
    if given.get("number") is not None:
        pull = await deps.github.pull(as_.token, full, number_of(given))
    else:
        if head is None:
            raise Wrong("it takes a number, or a branch that HEAD is on")
        told["head"] = head
        found = await deps.github.pulls_of(as_.token, full, head)
        if not found:
            return refusals.no_pull(who.name, head)
        pull = await deps.github.pull(as_.token, full, found[0].number)
    told["number"] = pull.number
    return Status(
        pull,
        await deps.github.checks(as_.token, full, pull.head_commit),
        await deps.github.reviews(as_.token, full, pull.number),
        await deps.github.comments(as_.token, full, pull.number),
    )


async def _issue(deps: Deps, who: Admitted, as_: Person, given: Given, told: dict[str, object]) -> Found | Refusal:
    number = number_of(given)
    issue = await deps.github.issue(as_.token, who.repo.full, number)
    comments = await deps.github.comments(as_.token, who.repo.full, number) if issue.comments else ()
    return Read(issue, comments)


async def _checks(deps: Deps, who: Admitted, as_: Person, given: Given, told: dict[str, object]) -> Found | Refusal:
    commit = commit_of(given)
    told["commit"] = commit
    checks = await deps.github.checks(as_.token, who.repo.full, commit)
    failed = [check for check in checks if check.state == "failed"][:LOGS_MOST]
    return Checked(
        commit, checks, tuple([(check, await deps.github.job_log(as_.token, who.repo.full, check)) for check in failed])
    )


_DO: Mapping[str, Callable[..., Awaitable[Found | Refusal]]] = {
    "pr-open": _open, "pr-comment": _comment, "pr-status": _status, "issue-read": _issue, "ci-status": _checks,
}  # fmt: skip
