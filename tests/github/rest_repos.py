"""The API for repositories: pull requests, issues, what is said of them, checks and their logs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.github import git, shapes
from tests.github import shapes_pulls as show
from tests.github.call import Answer, Call, Refused
from tests.github.events import Events
from tests.github.model import RIGHTS, Comment, Issue, Pull, Repo

Handler = Callable[[Call, Events], Answer]
ROUTES: list[tuple[str, str, Handler]] = []


def route(method: str, template: str) -> Callable[[Handler], Handler]:
    """The handler answers `method` below a repository, at a path of GitHub's document."""

    def note(handler: Handler) -> Handler:
        ROUTES.append((method, f"/repos/{{owner}}/{{repo}}{template}", handler))
        return handler

    return note


@route("GET", "")
def repository(call: Call, events: Events) -> Answer:
    repo = call.repo()
    return Answer(body=shapes.full_repository(call.world, repo, call.world.reach(call.token, repo)))


def _refs(repo: Repo) -> dict[str, str]:
    return git.refs(git.made(repo.folder, repo.default_branch))


# Pull requests ------------------------------------------------------------------------------------------------------


@route("POST", "/pulls")
def open_pull(call: Call, events: Events) -> Answer:
    repo = call.repo("pull_requests", "write")
    head, base = call.words("head", resource="PullRequest"), call.words("base", resource="PullRequest")
    title = call.words("title", resource="PullRequest")
    owner, colon, head_name = head.rpartition(":")
    heads = _refs(repo)
    wrong: list[dict[str, str]] = []
    if f"refs/heads/{base}" not in heads:
        wrong.append({"resource": "PullRequest", "field": "base", "code": "invalid"})
    if f"refs/heads/{head_name}" not in heads or (colon and owner.lower() != repo.owner.login.lower()):
        wrong.append({"resource": "PullRequest", "field": "head", "code": "invalid"})
    if wrong:
        call.invalid(*wrong)
    for other in repo.issues.values():
        if other.pull and other.state == "open" and (other.pull.head, other.pull.base) == (head_name, base):
            said = f"A pull request already exists for {repo.owner.login}:{head_name}."
            call.invalid({"resource": "PullRequest", "code": "custom", "message": said})
    if not git.ahead(repo.folder, f"refs/heads/{base}", f"refs/heads/{head_name}"):
        said = f"No commits between {base} and {head_name}"
        call.invalid({"resource": "PullRequest", "code": "custom", "message": said})
    made = events.open_pull(
        repo, call.author, head=head_name, base=base, title=title, body=call.words("body", needed=False) or None,
        draft=call.body.get("draft") is True,
    )  # fmt: skip
    where = f"{show.api(call.world, repo)}/pulls/{made.number}"
    told = show.whole_pull(call.world, repo, made)
    pull_of(made).looked_at = False
    return Answer(201, told, {"location": where})


@route("GET", "/pulls")
def pulls(call: Call, events: Events) -> Answer:
    repo = call.repo("pull_requests")
    state, head = call.query.get("state", "open"), call.query.get("head", "")
    base = call.query.get("base", "")
    found = [
        one for one in repo.issues.values()
        if one.pull and state in ("all", one.state) and base in ("", one.pull.base)
        # A head without its account is none, and GitHub then looks for all.
        and (":" not in head or head.lower() == f"{repo.owner.login}:{one.pull.head}".lower())
    ]  # fmt: skip
    found.sort(key=lambda one: one.number, reverse=call.query.get("direction", "desc") == "desc")
    part, links = call.page(found)
    return Answer(body=[show.simple_pull(call.world, repo, one) for one in part], headers=links)


def _pull(call: Call, repo: Repo) -> tuple[Issue, Pull]:
    found = repo.issues.get(call.number("pull_number"))
    if found is None or found.pull is None:
        raise Refused(404, "Not Found")
    return found, found.pull


def pull_of(one: Issue) -> Pull:
    assert one.pull is not None
    return one.pull


@route("GET", "/pulls/{pull_number}")
def pull(call: Call, events: Events) -> Answer:
    repo = call.repo("pull_requests")
    return Answer(body=show.whole_pull(call.world, repo, _pull(call, repo)[0]))


@route("PATCH", "/pulls/{pull_number}")
def change_pull(call: Call, events: Events) -> Answer:
    repo = call.repo("pull_requests", "write")
    one, _ = _pull(call, repo)
    one.title = call.words("title", needed=False) or one.title
    one.body = call.words("body", needed=False) or one.body
    state = call.words("state", needed=False)
    if state == "closed" and one.state == "open":
        events.close_pull(repo, one, call.author)
    return Answer(body=show.whole_pull(call.world, repo, one))


@route("GET", "/pulls/{pull_number}/reviews")
def reviews(call: Call, events: Events) -> Answer:
    repo = call.repo("pull_requests")
    one, its = _pull(call, repo)
    part, links = call.page(its.reviews)
    return Answer(body=[show.review(call.world, repo, one, said) for said in part], headers=links)


@route("GET", "/pulls/{pull_number}/comments")
def line_comments(call: Call, events: Events) -> Answer:
    repo = call.repo("pull_requests")
    one, its = _pull(call, repo)
    part, links = call.page(its.lines)
    return Answer(body=[show.line_comment(call.world, repo, one, said) for said in part], headers=links)


# Issues -------------------------------------------------------------------------------------------------------------


def _issue(call: Call, repo: Repo) -> Issue:
    found = repo.issues.get(call.number("issue_number"))
    if found is None:
        raise Refused(404, "Not Found")
    return found


def _for_issue(call: Call, level: str) -> Repo:
    """What is said of a pull request may be read and written by who may with issues, or with pull requests."""
    number = call.named["issue_number"]
    try:
        return call.repo("issues", level)
    except Refused as no:
        if no.status != 403:
            raise
        repo = call.repo("pull_requests", level)
        found = repo.issues.get(int(number)) if number.isdigit() else None
        if found is None or found.pull is None:
            raise no from None
        return repo


@route("GET", "/issues/{issue_number}")
def issue(call: Call, events: Events) -> Answer:
    repo = _for_issue(call, "read")
    return Answer(body=show.issue(call.world, repo, _issue(call, repo)))


@route("GET", "/issues/{issue_number}/comments")
def comments(call: Call, events: Events) -> Answer:
    repo = _for_issue(call, "read")
    one = _issue(call, repo)
    part, links = call.page(one.comments)
    return Answer(body=[show.comment(call.world, repo, one, said) for said in part], headers=links)


@route("POST", "/issues/{issue_number}/comments")
def add_comment(call: Call, events: Events) -> Answer:
    repo = _for_issue(call, "write")
    one = _issue(call, repo)
    body = call.words("body", needed=False)
    if not body.strip():
        call.invalid({"resource": "IssueComment", "code": "missing_field", "field": "body"})
    made = Comment(call.world.id(), call.author, body, call.world.now())
    one.comments.append(made)
    told = show.comment(call.world, repo, one, made)
    about = {"action": "created", "issue": show.issue(call.world, repo, one), "comment": told}
    events.of_repository(repo, "issue_comment", about, call.author)
    return Answer(201, told, {"location": told["url"]})


# Checks -------------------------------------------------------------------------------------------------------------


def _commit(call: Call, repo: Repo) -> str:
    """The commit that a branch, a tag or an id names."""
    ref = call.named["ref"]
    folder = git.made(repo.folder, repo.default_branch)
    for name in (f"refs/heads/{ref}", f"refs/tags/{ref}", ref):
        said = git.git(folder, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", check=False)
        if said.strip():
            return said.decode().strip()
    raise Refused(422, f"No commit found for SHA: {ref}")


def _newest(items: Sequence[Any], name: str) -> list[Any]:
    """The newest of each name, the newest first."""
    return list({getattr(one, name): one for one in items}.values())[::-1]


@route("GET", "/commits/{ref}/check-runs")
def check_runs(call: Call, events: Events) -> Answer:
    repo = call.repo("checks")
    commit = _commit(call, repo)
    found = [one for one in repo.checks if one.commit == commit]
    if call.query.get("filter", "latest") == "latest":
        found = _newest(found, "name")
    part, links = call.page(found)
    shown = (show.check_run(call.world, repo, one) for one in part)
    return Answer(body=shapes.listed("check_runs", shown, len(found)), headers=links)


@route("GET", "/commits/{ref}/status")
def combined_status(call: Call, events: Events) -> Answer:
    repo = call.repo("statuses")
    commit = _commit(call, repo)
    found = _newest([one for one in repo.statuses if one.commit == commit], "context")
    states = {one.state for one in found}
    failed = states & {"failure", "error"}
    whole = "failure" if failed else "success" if states == {"success"} else "pending"
    part, links = call.page(found)
    told = {
        "state": whole, "statuses": [show.simple_status(call.world, repo, one) for one in part], "sha": commit,
        "total_count": len(found), "repository": shapes.minimal_repository(call.world, repo),
        "commit_url": f"{show.api(call.world, repo)}/commits/{commit}",
        "url": f"{show.api(call.world, repo)}/commits/{commit}/status",
    }  # fmt: skip
    return Answer(body=told, headers=links)


@route("GET", "/commits/{ref}/statuses")
def statuses(call: Call, events: Events) -> Answer:
    repo = call.repo("statuses")
    commit = _commit(call, repo)
    part, links = call.page([one for one in reversed(repo.statuses) if one.commit == commit])
    return Answer(body=[show.status(call.world, repo, one) for one in part], headers=links)


@route("GET", "/actions/jobs/{job_id}/logs")
def job_log(call: Call, events: Events) -> Answer:
    """Leads to where the log may be fetched for a minute, without any token. A public repository's too wants one."""
    repo = call.repo("actions")
    right = call.world.reach(call.token, repo)
    if call.token is None or RIGHTS.index(right) < RIGHTS.index("read"):
        raise Refused(403, "Must have admin rights to Repository.")
    number = call.number("job_id")
    found = next((one for one in repo.checks if one.id == number and one.log is not None), None)
    if found is None:
        raise Refused(404, "Not Found")
    return Answer(302, headers={"location": call.world.open_log(found)})
