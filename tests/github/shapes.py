"""How GitHub's API shows things: accounts, repositories, Apps, installations."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from tests.github.model import App, Installation, Owner, Repo, Right
from tests.github.world import World

Shape = dict[str, Any]

API = "/api/v3"
OF_REPO = {
    "archive_url": "/{archive_format}{/ref}", "assignees_url": "/assignees{/user}", "blobs_url": "/git/blobs{/sha}",
    "branches_url": "/branches{/branch}", "collaborators_url": "/collaborators{/collaborator}",
    "comments_url": "/comments{/number}", "commits_url": "/commits{/sha}", "compare_url": "/compare/{base}...{head}",
    "contents_url": "/contents/{+path}", "contributors_url": "/contributors", "deployments_url": "/deployments",
    "downloads_url": "/downloads", "events_url": "/events", "forks_url": "/forks",
    "git_commits_url": "/git/commits{/sha}", "git_refs_url": "/git/refs{/sha}", "git_tags_url": "/git/tags{/sha}",
    "hooks_url": "/hooks", "issue_comment_url": "/issues/comments{/number}",
    "issue_events_url": "/issues/events{/number}", "issues_url": "/issues{/number}", "keys_url": "/keys{/key_id}",
    "labels_url": "/labels{/name}", "languages_url": "/languages", "merges_url": "/merges",
    "milestones_url": "/milestones{/number}", "notifications_url": "/notifications{?since,all,participating}",
    "pulls_url": "/pulls{/number}", "releases_url": "/releases{/id}", "stargazers_url": "/stargazers",
    "statuses_url": "/statuses/{sha}", "subscribers_url": "/subscribers", "subscription_url": "/subscription",
    "tags_url": "/tags", "teams_url": "/teams", "trees_url": "/git/trees{/sha}",
}  # fmt: skip
"""Where a repository's parts are, below its own address in the API."""
OF_USER = {
    "followers_url": "/followers", "following_url": "/following{/other_user}", "gists_url": "/gists{/gist_id}",
    "starred_url": "/starred{/owner}{/repo}", "subscriptions_url": "/subscriptions", "organizations_url": "/orgs",
    "repos_url": "/repos", "events_url": "/events{/privacy}", "received_events_url": "/received_events",
}  # fmt: skip


def stamp(when: datetime | None) -> str | None:
    """A time as GitHub writes it."""
    return None if when is None else when.strftime("%Y-%m-%dT%H:%M:%SZ")


def node(kind: str, number: int) -> str:
    """What GraphQL would call it."""
    return base64.b64encode(f"0:{kind}{number}".encode()).decode().rstrip("=")


def account(world: World, one: Owner) -> Shape:
    """A `simple-user`, which an organization is too."""
    api = f"{world.url}{API}/users/{one.login}"
    return {
        "login": one.login, "id": one.id, "node_id": node(one.kind, one.id),
        "avatar_url": f"{world.url}/avatars/u/{one.id}?", "gravatar_id": "", "url": api,
        "html_url": f"{world.url}/{one.login}", **{name: api + rest for name, rest in OF_USER.items()},
        "type": one.kind, "user_view_type": "public", "site_admin": False,
    }  # fmt: skip


def whole_user(world: World, one: Owner) -> Shape:
    """A `public-user`, as it is told of oneself."""
    own = [repo for repo in world.repos.values() if repo.owner is one]
    return account(world, one) | {
        "name": one.login, "company": None, "blog": "", "location": None, "email": None, "notification_email": None,
        "hireable": None, "bio": None, "twitter_username": None, "public_repos": sum(not repo.private for repo in own),
        "public_gists": 0, "followers": 0, "following": 0, "created_at": stamp(one.created_at),
        "updated_at": stamp(one.created_at),
    }  # fmt: skip


def organization(world: World, one: Owner) -> Shape:
    """An `organization-simple`, as webhooks have it."""
    api = f"{world.url}{API}/orgs/{one.login}"
    return {
        "login": one.login, "id": one.id, "node_id": node(one.kind, one.id), "url": api, "repos_url": f"{api}/repos",
        "events_url": f"{api}/events", "hooks_url": f"{api}/hooks", "issues_url": f"{api}/issues",
        "members_url": f"{api}/members{{/member}}", "public_members_url": f"{api}/public_members{{/member}}",
        "avatar_url": f"{world.url}/avatars/u/{one.id}?", "description": "",
    }  # fmt: skip


def small_repository(repo: Repo) -> Shape:
    """What webhooks of installations say of a repository."""
    return {
        "id": repo.id, "node_id": node("Repository", repo.id), "name": repo.name, "full_name": repo.full,
        "private": repo.private,
    }  # fmt: skip


def minimal_repository(world: World, repo: Repo) -> Shape:
    """A `minimal-repository`."""
    api, html = f"{world.url}{API}/repos/{repo.full}", f"{world.url}/{repo.full}"
    return small_repository(repo) | {
        "owner": account(world, repo.owner), "html_url": html, "description": None, "fork": False, "url": api,
        **{name: api + rest for name, rest in OF_REPO.items()},
    }  # fmt: skip


def repository(world: World, repo: Repo, right: Right | None = None) -> Shape:
    """A `repository`; with what the asking user may do where it is one."""
    host = world.url.partition("://")[2].partition(":")[0]
    open_ones = sum(issue.state == "open" for issue in repo.issues.values())
    told = minimal_repository(world, repo) | {
        "created_at": stamp(repo.created_at), "updated_at": stamp(repo.pushed_at or repo.created_at),
        "pushed_at": stamp(repo.pushed_at or repo.created_at), "git_url": f"git://{host}/{repo.full}.git",
        "ssh_url": f"git@{host}:{repo.full}.git", "clone_url": f"{world.url}/{repo.full}.git",
        "svn_url": f"{world.url}/{repo.full}", "homepage": None, "size": 0, "stargazers_count": 0,
        "watchers_count": 0, "language": None, "has_issues": True, "has_projects": True, "has_downloads": True,
        "has_wiki": True, "has_pages": False, "has_discussions": False, "forks_count": 0, "mirror_url": None,
        "archived": repo.archived, "disabled": False, "open_issues_count": open_ones, "license": None,
        "allow_forking": True, "is_template": False, "web_commit_signoff_required": False, "topics": [],
        "visibility": "private" if repo.private else "public", "forks": 0, "open_issues": open_ones, "watchers": 0,
        "default_branch": repo.default_branch,
    }  # fmt: skip
    if right is not None:
        steps = {"admin": "admin", "maintain": "admin", "push": "write", "triage": "write", "pull": "read"}
        order = ("none", "read", "write", "admin")
        told["permissions"] = {name: order.index(right) >= order.index(least) for name, least in steps.items()}
    return told


def full_repository(world: World, repo: Repo, right: Right) -> Shape:
    """A `full-repository`: asked for alone."""
    return repository(world, repo, right) | {"network_count": 0, "subscribers_count": 0, "custom_properties": {}}


def app(world: World, one: App) -> Shape:
    """An `integration`."""
    count = sum(each.app is one for each in world.installations.values())
    return {
        "id": one.id, "client_id": one.client_id, "slug": one.slug, "node_id": node("Integration", one.id),
        "owner": account(world, one.owner), "name": one.name, "description": "", "external_url": one.external_url,
        "html_url": one.html_url, "created_at": stamp(one.created_at), "updated_at": stamp(one.created_at),
        "permissions": one.permissions, "events": list(one.events), "installations_count": count,
    }  # fmt: skip


def installation(world: World, one: Installation) -> Shape:
    """An `installation`."""
    where = f"organizations/{one.account.login}/" if one.account.kind == "Organization" else ""
    return {
        "id": one.id, "client_id": one.app.client_id, "account": account(world, one.account),
        "repository_selection": one.selection,
        "access_tokens_url": f"{world.url}{API}/app/installations/{one.id}/access_tokens",
        "repositories_url": f"{world.url}{API}/installation/repositories",
        "html_url": f"{world.url}/{where}settings/installations/{one.id}", "app_id": one.app.id,
        "app_slug": one.app.slug, "target_id": one.account.id, "target_type": one.account.kind,
        "permissions": one.permissions, "events": list(one.events), "created_at": stamp(one.created_at),
        "updated_at": stamp(one.created_at), "single_file_name": None, "has_multiple_single_files": False,
        "single_file_paths": [], "suspended_at": stamp(one.suspended_at),
        "suspended_by": account(world, one.suspended_by) if one.suspended_by else None,
    }  # fmt: skip


def listed(name: str, items: Iterable[Shape], total: int) -> Shape:
    """A page of the lists that say how many there are."""
    return {"total_count": total, name: list(items)}
