"""What happens on GitHub: each changes the world and tells the Apps that are concerned, as a webhook says it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tests.github import git, shapes
from tests.github import shapes_pulls as show
from tests.github.git import ZERO, Commit, Pushed
from tests.github.model import App, Installation, Issue, Owner, Pull, Repo
from tests.github.shapes import Shape, stamp
from tests.github.world import World

ALWAYS = ("installation", "installation_repositories", "installation_target", "github_app_authorization")
"""What every App hears, whatever it subscribed to."""
Send = Callable[[App, str, Shape], None]


class Events:
    """The world's changes. Each is made under its lock; the webhook waits in a queue of its own."""

    def __init__(self, world: World, send: Send) -> None:
        self.world = world
        self._send = send

    # Installations --------------------------------------------------------------------------------------------------

    def install(self, app: App, account: Owner, chosen: set[int] | None, by: Owner) -> Installation:
        """The App in an account; an installation that is there stays, with what it covers changed."""
        with self.world.lock:
            there = self.world.installation_of(app, account)
            if there is not None:
                self.cover(there, chosen, by)
                return there
            number = self.world.id()
            made = Installation(number, app, account, self.world.now(), dict(app.permissions), app.events, chosen)
            self.world.installations[number] = made
            self._of_installation(made, "created", by, repositories=True)
            return made

    def uninstall(self, one: Installation, by: Owner) -> None:
        with self.world.lock:
            self._of_installation(one, "deleted", by, repositories=True)
            del self.world.installations[one.id]
            tokens = self.world.tokens
            self.world.tokens = {value: token for value, token in tokens.items() if token.installation is not one}

    def suspend(self, one: Installation, by: Owner) -> None:
        with self.world.lock:
            if one.suspended_at is None:
                one.suspended_at, one.suspended_by = self.world.now(), by
                self._of_installation(one, "suspend", by)

    def unsuspend(self, one: Installation, by: Owner) -> None:
        with self.world.lock:
            if one.suspended_at is not None:
                one.suspended_at = one.suspended_by = None
                self._of_installation(one, "unsuspend", by)

    def cover(self, one: Installation, chosen: set[int] | None, by: Owner) -> None:
        """Have an installation cover all repositories (None) or these."""
        with self.world.lock:
            before = {repo.id for repo in self.world.repositories(one)}
            one.chosen = chosen
            after = {repo.id for repo in self.world.repositories(one)}
            self._covered(one, "added", after - before, by)
            self._covered(one, "removed", before - after, by)

    def _covered(self, one: Installation, action: str, ids: Iterable[int], by: Owner) -> None:
        names = [shapes.small_repository(self.world.repos[number]) for number in sorted(ids)]
        if names:
            self._tell(one, "installation_repositories", {
                "action": action, "installation": shapes.installation(self.world, one),
                "repository_selection": one.selection, "repositories_added": names if action == "added" else [],
                "repositories_removed": names if action == "removed" else [], "requester": None,
                "sender": shapes.account(self.world, by),
            })  # fmt: skip

    def _of_installation(self, one: Installation, action: str, by: Owner, repositories: bool = False) -> None:
        body: Shape = {"action": action, "installation": shapes.installation(self.world, one)}
        if repositories:
            covered = self.world.repositories(one)
            body["repositories"] = [shapes.small_repository(repo) for repo in covered]
        if action == "created":
            body["requester"] = None
        self._tell(one, "installation", body | {"sender": shapes.account(self.world, by)})

    # People ---------------------------------------------------------------------------------------------------------

    def revoke(self, app: App, user: Owner) -> None:
        """A person takes their authorization of an App back."""
        with self.world.lock:
            self.world.revoke(app, user)
            told = {"action": "revoked", "sender": shapes.account(self.world, user)}
            self._send(app, "github_app_authorization", told)

    # Repositories ---------------------------------------------------------------------------------------------------

    def create_repository(self, repo: Repo, by: Owner) -> None:
        """A repository is new; installations that cover all of an account have one more."""
        with self.world.lock:
            self.of_repository(repo, "repository", {"action": "created"}, by)
            for one in self._covering(repo):
                if one.chosen is None:
                    self._covered(one, "added", [repo.id], by)

    def rename_repository(self, repo: Repo, name: str, by: Owner) -> None:
        with self.world.lock:
            before = repo.name
            self.world.moved[repo.full.lower()] = repo.id
            repo.name = name
            self.world.moved.pop(repo.full.lower(), None)
            changes = {"repository": {"name": {"from": before}}}
            self.of_repository(repo, "repository", {"action": "renamed", "changes": changes}, by)

    def transfer_repository(self, repo: Repo, to: Owner, by: Owner) -> None:
        """A repository moves to another account; installations that chose it lose it."""
        with self.world.lock:
            before, losing = repo.owner, self._covering(repo)
            self.world.moved[repo.full.lower()] = repo.id
            repo.owner = to
            self.world.moved.pop(repo.full.lower(), None)
            kind = "user" if before.kind == "User" else "organization"
            shown = shapes.account(self.world, before) if kind == "user" else shapes.organization(self.world, before)
            changes = {"owner": {"from": {kind: shown}}}
            for one in losing:
                if one.chosen is not None:
                    one.chosen.discard(repo.id)
                self._covered(one, "removed", [repo.id], by)
            self.of_repository(repo, "repository", {"action": "transferred", "changes": changes}, by)
            for one in self._covering(repo):
                self._covered(one, "added", [repo.id], by)

    def delete_repository(self, repo: Repo, by: Owner) -> None:
        with self.world.lock:
            losing = self._covering(repo)
            self.of_repository(repo, "repository", {"action": "deleted"}, by)
            for one in losing:
                self._covered(one, "removed", [repo.id], by)
            for one in self.world.installations.values():
                if one.chosen is not None:
                    one.chosen.discard(repo.id)
            del self.world.repos[repo.id]

    def archive_repository(self, repo: Repo, archived: bool, by: Owner) -> None:
        with self.world.lock:
            repo.archived = archived
            self.of_repository(repo, "repository", {"action": "archived" if archived else "unarchived"}, by)

    def change_default_branch(self, repo: Repo, branch: str, by: Owner) -> None:
        with self.world.lock:
            before, repo.default_branch = repo.default_branch, branch
            changes = {"default_branch": {"from": before}}
            self.of_repository(repo, "repository", {"action": "edited", "changes": changes}, by)

    def rename_account(self, owner: Owner, login: str) -> None:
        """A user or an organization changes its name, and with it its repositories'."""
        with self.world.lock:
            before = owner.login
            for repo in self.world.repos.values():
                if repo.owner is owner:
                    self.world.moved[repo.full.lower()] = repo.id
            owner.login = login
            for one in self.world.installations.values():
                if one.account is owner:
                    told = {
                        "action": "renamed", "account": shapes.account(self.world, owner),
                        "changes": {"login": {"from": before}}, "target_type": owner.kind,
                        "installation": self._brief(one), "sender": shapes.account(self.world, owner),
                    }  # fmt: skip
                    self._tell(one, "installation_target", told)

    # Pull requests --------------------------------------------------------------------------------------------------

    def open_pull(
        self, repo: Repo, by: Owner, *, head: str, base: str, title: str, body: str | None = None, draft: bool = False
    ) -> Issue:
        with self.world.lock:
            number = max(repo.issues, default=0) + 1
            pull = Pull(self.world.id(), head, base, draft)
            made = Issue(self.world.id(), number, by, title, body, self.world.now(), pull=pull)
            repo.issues[number] = made
            self._keep_head(repo, made)
            self._of_pull(repo, made, "opened", by)
            return made

    def close_pull(self, repo: Repo, one: Issue, by: Owner) -> None:
        with self.world.lock:
            one.state, one.closed_at = "closed", self.world.now()
            self._of_pull(repo, one, "closed", by)

    def merge_pull(self, repo: Repo, one: Issue, by: Owner) -> Pushed:
        """Merge by a merge commit; the push to the base is told too."""
        with self.world.lock:
            assert one.pull is not None
            head, base = show.ends(repo, one)
            who, now = (by.login, by.email), self.world.now()
            pushed = git.merge(repo.folder, one.pull.base, base, head, f"Merge pull request #{one.number}", who, now)
            one.pull.merged_at, one.pull.merged_by, one.pull.merge_commit = now, by, pushed.after
            self.close_pull(repo, one, by)
            self.push(repo, [pushed], by)
            return pushed

    def _of_pull(self, repo: Repo, one: Issue, action: str, by: Owner, **more: Any) -> None:
        assert one.pull is not None
        looked = one.pull.looked_at
        told = {"action": action, "number": one.number, "pull_request": show.whole_pull(self.world, repo, one), **more}
        one.pull.looked_at = looked
        self.of_repository(repo, "pull_request", told, by)

    def _keep_head(self, repo: Repo, one: Issue) -> None:
        """A pull request's commits stay when its branch goes, under a ref of its own."""
        assert one.pull is not None
        head = git.refs(repo.folder).get(f"refs/heads/{one.pull.head}")
        if head is not None:
            git.git(repo.folder, "update-ref", f"refs/pull/{one.number}/head", head)

    # Pushes ---------------------------------------------------------------------------------------------------------

    def push(self, repo: Repo, pushed: Sequence[Pushed], by: Owner) -> None:
        """Refs of a repository changed."""
        with self.world.lock:
            repo.pushed_at = self.world.now()
            for one in pushed:
                self.of_repository(repo, "push", self._push(repo, one, by), by)
                for issue in list(repo.issues.values()):
                    if issue.pull and issue.state == "open" and one.ref == f"refs/heads/{issue.pull.head}":
                        self._head_moved(repo, issue, one, by)

    def _head_moved(self, repo: Repo, issue: Issue, pushed: Pushed, by: Owner) -> None:
        if pushed.after == ZERO:
            self.close_pull(repo, issue, by)
            return
        self._keep_head(repo, issue)
        self._of_pull(repo, issue, "synchronize", by, before=pushed.before, after=pushed.after)

    def _push(self, repo: Repo, one: Pushed, by: Owner) -> Shape:
        base = f"{self.world.url}/{repo.full}"
        commits = [_commit(base, commit) for commit in one.commits]
        created, deleted = one.before == ZERO, one.after == ZERO
        short = one.ref.removeprefix("refs/heads/").removeprefix("refs/tags/")
        span = short if created or deleted else f"{one.before[:12]}...{one.after[:12]}"
        return {
            "ref": one.ref, "before": one.before, "after": one.after, "created": created, "deleted": deleted,
            "forced": one.forced, "base_ref": None, "compare": f"{base}/compare/{span}",
            "commits": commits if one.ref.startswith("refs/heads/") else [],
            "head_commit": None if deleted else _commit(base, one.head) if one.head else None,
            "pusher": {"name": by.login, "email": by.email},
        }  # fmt: skip

    # Telling ----------------------------------------------------------------------------------------------------------

    def of_repository(self, repo: Repo, event: str, body: Shape, by: Owner) -> None:
        """Tell every App that covers a repository and asked for such events."""
        for one in self._covering(repo):
            shown = shapes.repository(self.world, repo) | {"custom_properties": {}}
            if event == "push":
                shown = _of_push(shown, repo)
            told = body | {
                "repository": shown,
                "sender": shapes.account(self.world, by),
                "installation": self._brief(one),
            }
            if repo.owner.kind == "Organization":
                told["organization"] = shapes.organization(self.world, repo.owner)
            self._tell(one, event, told)

    def _covering(self, repo: Repo) -> list[Installation]:
        return [one for one in self.world.installations.values() if self.world.covers(one, repo)]

    def _brief(self, one: Installation) -> dict[str, Any]:
        return {"id": one.id, "node_id": shapes.node("Integration", one.id)}

    def _tell(self, one: Installation, event: str, body: Shape) -> None:
        """A suspended installation hears of nothing but its own ups and downs."""
        if event in ALWAYS or (event in one.events and one.suspended_at is None):
            self._send(one.app, event, body)


def _of_push(shown: Shape, repo: Repo) -> Shape:
    """A push shows times as seconds since 1970, and says some things twice. Source: webhooks' examples."""
    return shown | {
        "created_at": int(repo.created_at.timestamp()),
        "pushed_at": int((repo.pushed_at or repo.created_at).timestamp()), "stargazers": 0,
        "master_branch": repo.default_branch,
        "owner": {**shown["owner"], "name": repo.owner.login, "email": repo.owner.email},
    }  # fmt: skip


def _commit(base: str, one: Commit) -> Shape:
    who = {"name": one.name, "email": one.email, "username": one.name}
    return {
        "id": one.id, "tree_id": one.tree, "distinct": True, "message": one.message,
        "timestamp": stamp(one.at), "url": f"{base}/commit/{one.id}", "author": who, "committer": who,
        "added": list(one.added), "removed": list(one.removed), "modified": list(one.modified),
    }  # fmt: skip
