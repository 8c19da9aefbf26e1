"""How GitHub's API shows issues, pull requests, what is said of them, and the checks of a commit."""

from __future__ import annotations

from typing import Any

from tests.github import git, shapes
from tests.github.model import CheckRun, Comment, Issue, LineComment, Owner, Repo, Review, Status
from tests.github.shapes import API, Shape, account, node, stamp
from tests.github.world import World


def api(world: World, repo: Repo) -> str:
    return f"{world.url}{API}/repos/{repo.full}"


def html(world: World, repo: Repo) -> str:
    return f"{world.url}/{repo.full}"


def association(world: World, repo: Repo, who: Owner) -> str:
    if repo.owner is who:
        return "OWNER"
    if who.id in repo.owner.members:
        return "MEMBER"
    return "COLLABORATOR" if who.id in repo.collaborators else "NONE"


def reactions(where: str) -> Shape:
    """Nobody reacts here."""
    kinds = ("+1", "-1", "laugh", "hooray", "confused", "heart", "rocket", "eyes")
    return {"url": f"{where}/reactions", "total_count": 0, **dict.fromkeys(kinds, 0)}


def label(world: World, repo: Repo, name: str) -> Shape:
    number = sum(map(ord, name))
    return {
        "id": number, "node_id": node("Label", number), "url": f"{api(world, repo)}/labels/{name}", "name": name,
        "description": None, "color": "ededed", "default": False,
    }  # fmt: skip


def issue(world: World, repo: Repo, one: Issue) -> Shape:
    """An `issue`; a pull request is one too."""
    where = f"{api(world, repo)}/issues/{one.number}"
    page = f"{html(world, repo)}/{'pull' if one.pull else 'issues'}/{one.number}"
    told: Shape = {
        "url": where, "repository_url": api(world, repo), "labels_url": f"{where}/labels{{/name}}",
        "comments_url": f"{where}/comments", "events_url": f"{where}/events", "html_url": page, "id": one.id,
        "node_id": node("Issue", one.id), "number": one.number, "title": one.title, "user": account(world, one.author),
        "labels": [label(world, repo, name) for name in one.labels], "state": one.state, "locked": False,
        "assignee": None, "assignees": [], "milestone": None, "comments": len(one.comments),
        "created_at": stamp(one.at), "updated_at": stamp(one.at), "closed_at": stamp(one.closed_at),
        "author_association": association(world, repo, one.author), "active_lock_reason": None, "body": one.body,
        "closed_by": None, "timeline_url": f"{where}/timeline", "performed_via_github_app": None, "state_reason": None,
        "reactions": reactions(where),
    }  # fmt: skip
    if one.pull:
        pull = f"{api(world, repo)}/pulls/{one.number}"
        told["draft"] = one.pull.draft
        told["pull_request"] = {
            "url": pull, "html_url": page, "diff_url": f"{page}.diff", "patch_url": f"{page}.patch",
            "merged_at": stamp(one.pull.merged_at),
        }  # fmt: skip
    return told


def comment(world: World, repo: Repo, below: Issue, one: Comment) -> Shape:
    """An `issue-comment`."""
    where = f"{api(world, repo)}/issues/comments/{one.id}"
    page = f"{html(world, repo)}/{'pull' if below.pull else 'issues'}/{below.number}"
    return {
        "url": where, "html_url": f"{page}#issuecomment-{one.id}",
        "issue_url": f"{api(world, repo)}/issues/{below.number}", "id": one.id, "node_id": node("Comment", one.id),
        "user": account(world, one.author), "created_at": stamp(one.at), "updated_at": stamp(one.at),
        "author_association": association(world, repo, one.author), "body": one.body,
        "performed_via_github_app": None, "reactions": reactions(where),
    }  # fmt: skip


def _end(world: World, repo: Repo, branch: str, commit: str) -> Shape:
    return {
        "label": f"{repo.owner.login}:{branch}", "ref": branch, "sha": commit, "user": account(world, repo.owner),
        "repo": shapes.repository(world, repo),
    }  # fmt: skip


def ends(repo: Repo, one: Issue) -> tuple[str, str]:
    """The commits at a pull request's head and base."""
    assert one.pull is not None
    heads = git.refs(repo.folder, "refs/")
    base = heads.get(f"refs/heads/{one.pull.base}", git.ZERO)
    return heads.get(f"refs/pull/{one.number}/head", git.ZERO), base


def simple_pull(world: World, repo: Repo, one: Issue) -> Shape:
    """A `pull-request-simple`, as lists have it."""
    pull = one.pull
    assert pull is not None
    where, page = f"{api(world, repo)}/pulls/{one.number}", f"{html(world, repo)}/pull/{one.number}"
    below = f"{api(world, repo)}/issues/{one.number}"
    head, base = ends(repo, one)
    links = {
        "self": where, "html": page, "issue": below, "comments": f"{below}/comments",
        "review_comments": f"{where}/comments", "review_comment": f"{api(world, repo)}/pulls/comments{{/number}}",
        "commits": f"{where}/commits", "statuses": f"{api(world, repo)}/statuses/{head}",
    }  # fmt: skip
    return {
        "url": where, "id": pull.id, "node_id": node("PullRequest", pull.id), "html_url": page,
        "diff_url": f"{page}.diff", "patch_url": f"{page}.patch", "issue_url": below, "number": one.number,
        "state": one.state, "locked": False, "title": one.title, "user": account(world, one.author), "body": one.body,
        "created_at": stamp(one.at), "updated_at": stamp(one.at), "closed_at": stamp(one.closed_at),
        "merged_at": stamp(pull.merged_at), "merge_commit_sha": pull.merge_commit, "assignee": None, "assignees": [],
        "requested_reviewers": [], "requested_teams": [],
        "labels": [label(world, repo, name) for name in one.labels], "milestone": None, "draft": pull.draft,
        "commits_url": links["commits"], "review_comments_url": links["review_comments"],
        "review_comment_url": links["review_comment"], "comments_url": links["comments"],
        "statuses_url": links["statuses"], "head": _end(world, repo, pull.head, head),
        "base": _end(world, repo, pull.base, base), "_links": {name: {"href": to} for name, to in links.items()},
        "author_association": association(world, repo, one.author), "auto_merge": None, "active_lock_reason": None,
    }  # fmt: skip


def whole_pull(world: World, repo: Repo, one: Issue) -> Shape:
    """A `pull-request`. Whether it can be merged GitHub finds out when first asked, and says at the next time."""
    pull = one.pull
    assert pull is not None
    head, base = ends(repo, one)
    known = git.ZERO not in (head, base)
    mergeable: bool | None = None
    if pull.looked_at and one.state == "open":
        mergeable = known and git.merges(repo.folder, base, head) is not None
    pull.looked_at = True
    state = {None: "unknown", True: "clean", False: "dirty"}[mergeable]
    return simple_pull(world, repo, one) | {
        "merged": pull.merged_at is not None, "mergeable": mergeable, "rebaseable": mergeable, "mergeable_state": state,
        "merged_by": account(world, pull.merged_by) if pull.merged_by else None, "comments": len(one.comments),
        "review_comments": len(pull.lines), "maintainer_can_modify": False,
        "commits": git.ahead(repo.folder, base, head) if known else 0, "additions": 0, "deletions": 0,
        "changed_files": 0,
    }  # fmt: skip


def review(world: World, repo: Repo, one: Issue, said: Review) -> Shape:
    """A `pull-request-review`."""
    page = f"{html(world, repo)}/pull/{one.number}#pullrequestreview-{said.id}"
    where = f"{api(world, repo)}/pulls/{one.number}"
    return {
        "id": said.id, "node_id": node("Review", said.id), "user": account(world, said.author), "body": said.body,
        "state": said.state, "html_url": page, "pull_request_url": where,
        "_links": {"html": {"href": page}, "pull_request": {"href": where}}, "submitted_at": stamp(said.at),
        "commit_id": said.commit, "author_association": association(world, repo, said.author),
    }  # fmt: skip


def line_comment(world: World, repo: Repo, one: Issue, said: LineComment) -> Shape:
    """A `pull-request-review-comment`."""
    page = f"{html(world, repo)}/pull/{one.number}#discussion_r{said.id}"
    pull, where = f"{api(world, repo)}/pulls/{one.number}", f"{api(world, repo)}/pulls/comments/{said.id}"
    links = {"self": where, "html": page, "pull_request": pull}
    return {
        "url": where, "pull_request_review_id": said.review, "id": said.id, "node_id": node("LineComment", said.id),
        "diff_hunk": "@@ -1 +1 @@", "path": said.path, "commit_id": said.commit, "original_commit_id": said.commit,
        "user": account(world, said.author), "body": said.body, "created_at": stamp(said.at),
        "updated_at": stamp(said.at), "html_url": page, "pull_request_url": pull,
        "author_association": association(world, repo, said.author),
        "_links": {name: {"href": to} for name, to in links.items()},
        "original_line": said.line or 1, "side": "RIGHT", "subject_type": "line" if said.line else "file",
    } | ({"line": said.line, "position": said.line, "original_position": said.line} if said.line else {})  # fmt: skip


def check_run(world: World, repo: Repo, one: CheckRun) -> Shape:
    """A `check-run` of the Actions."""
    where = f"{api(world, repo)}/check-runs/{one.id}"
    page = f"{html(world, repo)}/actions/runs/{one.id - 1}/job/{one.id}"
    maker: dict[str, Any] = {
        "id": 15368, "slug": "github-actions", "node_id": node("Integration", 15368), "name": "GitHub Actions",
        "client_id": "Iv1.05c79e9ad1f6bdfa", "owner": account(world, repo.owner), "description": "Automate it",
        "external_url": "https://help.github.com/en/actions", "html_url": f"{world.url}/apps/github-actions",
        "created_at": stamp(repo.created_at), "updated_at": stamp(repo.created_at),
        "permissions": {"checks": "write", "actions": "write"}, "events": ["check_run"],
    }  # fmt: skip
    return {
        "id": one.id, "name": one.name, "node_id": node("CheckRun", one.id), "head_sha": one.commit, "external_id": "",
        "url": where, "html_url": page, "details_url": page, "status": one.status, "conclusion": one.conclusion,
        "started_at": stamp(one.at), "completed_at": stamp(one.ended_at),
        "output": {
            "title": one.title, "summary": one.summary, "text": None, "annotations_count": 0,
            "annotations_url": f"{where}/annotations",
        },
        "check_suite": {"id": one.id - 2}, "app": maker, "pull_requests": [],
    }  # fmt: skip


def simple_status(world: World, repo: Repo, one: Status) -> Shape:
    """A `simple-commit-status`."""
    return {
        "url": f"{api(world, repo)}/statuses/{one.commit}", "avatar_url": f"{world.url}/avatars/oa/1?", "id": one.id,
        "node_id": node("Status", one.id), "state": one.state, "description": one.description,
        "target_url": one.target_url, "context": one.context, "created_at": stamp(one.at), "updated_at": stamp(one.at),
    }  # fmt: skip


def status(world: World, repo: Repo, one: Status) -> Shape:
    """A `status`."""
    return simple_status(world, repo, one) | {"creator": account(world, repo.owner)}
