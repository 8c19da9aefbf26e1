"""A GitHub for tests: what a test makes, changes and looks at. `tests/github/__init__.py` says how it is used."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from tests.github import git
from tests.github.api import Busy, Look, Trouble
from tests.github.browser import Browser
from tests.github.events import Events
from tests.github.git import Content
from tests.github.hooks import Hooks
from tests.github.model import (
    App,
    CheckRun,
    Comment,
    Installation,
    Issue,
    LineComment,
    Owner,
    Repo,
    Review,
    Right,
    Status,
    Token,
)
from tests.github.server import Server, Wire
from tests.github.world import World

Who = Installation | Owner | App | None


class StandIn:
    """A GitHub that serves at `url` between `start` and `stop`, or as a context manager.

    `clock` says what time it is there; a test with a fake clock gives `clock.now`. `look` sees each answer of the API.
    """

    def __init__(self, clock: Callable[[], datetime] = lambda: datetime.now(UTC), look: Look | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="github-"))
        self.world = World(self.folder, clock)
        self.hooks = Hooks()
        self.events = Events(self.world, self.hooks.happened)
        self.wire = Wire(self.world, self.events)
        self.wire.rest.look = look
        self._server = Server(self.wire.app())
        self.world.url = self._server.url

    def start(self) -> None:
        self.hooks.start()
        self._server.start()

    def stop(self) -> None:
        self.hooks.stop()
        self._server.stop()
        shutil.rmtree(self.folder)

    def __enter__(self) -> StandIn:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """What `Rift:GitHub:Url` is set to."""
        return self.world.url

    @property
    def api(self) -> str:
        """Where the API is."""
        return f"{self.url}/api/v3"

    def advance(self, by: timedelta) -> None:
        """Have it be later there: tokens expire, limits end."""
        self.world.later += by

    # Accounts, Apps and installations -----------------------------------------------------------------------------

    def make_user(self, login: str) -> Owner:
        with self.world.lock:
            return self.world.add_owner(login, "User")

    def make_org(self, login: str, *, admins: Iterable[Owner] = (), members: Iterable[Owner] = ()) -> Owner:
        with self.world.lock:
            made = self.world.add_owner(login, "Organization")
            made.members.update({one.id: "member" for one in members})
            made.members.update({one.id: "admin" for one in admins})
            return made

    def rename_account(self, owner: Owner, login: str) -> None:
        self.events.rename_account(owner, login)

    def make_app(self, owner: Owner, name: str = "Rift of tests", **more: Any) -> App:
        """An App as its owner registers it by hand: public, with the device flow. `more` are fields of `App`."""
        with self.world.lock:
            made = self.world.add_app(owner, name)
            for field, value in ({"device_flow": True, "public": True} | more).items():
                if not hasattr(made, field):
                    raise AttributeError(field)
                setattr(made, field, value)
            return made

    def settings(self, app: App) -> dict[str, str]:
        """The settings of a Rift that uses an App, as environment variables."""
        told = {
            "Url": self.url, "AppId": str(app.id), "AppSlug": app.slug, "ClientId": app.client_id,
            "ClientSecret": app.client_secret, "PrivateKey": app.pem.replace("\n", "\\n"),
            "WebhookSecret": app.webhook_secret,
        }  # fmt: skip
        return {f"Rift__GitHub__{name}": value for name, value in told.items()}

    def install(
        self, app: App, account: Owner, repositories: Iterable[Repo] | Literal["all"] = "all", by: Owner | None = None
    ) -> Installation:
        """Install an App, or change what its installation covers."""
        chosen = None if repositories == "all" else {repo.id for repo in repositories}
        return self.events.install(app, account, chosen, by or account)

    cover = install

    def uninstall(self, one: Installation, by: Owner | None = None) -> None:
        self.events.uninstall(one, by or one.account)

    def suspend(self, one: Installation, by: Owner | None = None) -> None:
        self.events.suspend(one, by or one.account)

    def unsuspend(self, one: Installation, by: Owner | None = None) -> None:
        self.events.unsuspend(one, by or one.account)

    def installation_token(self, one: Installation, repositories: Iterable[Repo] | None = None) -> Token:
        """A token of an installation, without the call that asks for it."""
        only = None if repositories is None else frozenset(repo.id for repo in repositories)
        with self.world.lock:
            return self.world.new_installation_token(one, only)

    def user_token(self, app: App, user: Owner) -> Token:
        """A token of a user through an App, without the flow that asks for it."""
        with self.world.lock:
            return self.world.new_user_token(app, user)

    def revoke(self, app: App, user: Owner) -> None:
        """A user takes the authorization of an App back on GitHub's pages."""
        self.events.revoke(app, user)

    def browser(self, user: Owner) -> Browser:
        """A browser in which a user is signed in there; close it, or use it in a `with`."""
        return Browser(self.url, user.login)

    @property
    def device_every(self) -> int:
        """How many seconds apart a device login is asked about, 5 as on GitHub; 0 lets a test hurry."""
        return self.wire.device_every

    @device_every.setter
    def device_every(self, seconds: int) -> None:
        self.wire.device_every = seconds

    def answer_device_login(self, user_code: str, user: Owner | None) -> None:
        """A user types the code and agrees; None says no."""
        with self.world.lock:
            login = next(one for one in self.world.devices.values() if one.user_code == user_code)
            login.answer = user or "denied"

    # Repositories -------------------------------------------------------------------------------------------------

    def make_repo(
        self, full: str, files: Mapping[str, Content] | None = None, *, private: bool = True, branch: str = "main",
        collaborators: Mapping[Owner, Right] | None = None,
    ) -> Repo:  # fmt: skip
        """A repository `OWNER/NAME` with one commit of these files, or a README; `{}` leaves it empty."""
        owner, _, name = full.partition("/")
        with self.world.lock:
            made = self.world.add_repo(self.world.owner(owner), name, private)
            made.default_branch = branch
            made.collaborators = {user.id: right for user, right in (collaborators or {}).items()}
        if files or files is None:
            content = {"README.md": f"# {name}\n"} if files is None else files
            git.commit(
                git.made(made.folder, branch),
                branch,
                content,
                "The first commit",
                self._who(made.owner),
                self.world.now(),
            )
        self.events.create_repository(made, made.owner)
        return made

    def make_repos(self, owner: Owner, count: int, prefix: str = "repo") -> list[Repo]:
        """Many empty repositories at once, of which nobody is told. They are on the disk once somebody uses them."""
        with self.world.lock:
            return [self.world.add_repo(owner, f"{prefix}-{number:05}", True) for number in range(count)]

    def push_from_outside(
        self, repo: Repo, branch: str = "main", files: Mapping[str, Content] | None = None, *,
        message: str = "A commit from outside", by: Owner | None = None, onto: str | None = None,
    ) -> str:  # fmt: skip
        """Somebody pushes one commit; its id. `onto` another commit than the head it is a forced push, "" an orphan."""
        who = by or repo.owner
        content = files if files is not None else {"outside.txt": f"{self.world.id()}\n"}
        folder = git.made(repo.folder, repo.default_branch)
        with self.world.lock_of_git(repo):
            pushed = git.commit(folder, branch, content, message, self._who(who), self.world.now(), onto)
        self.events.push(repo, [pushed], who)
        return pushed.after

    def delete_branch(self, repo: Repo, branch: str, by: Owner | None = None) -> None:
        ref = f"refs/heads/{branch}"
        before = git.refs(repo.folder)[ref]
        git.git(repo.folder, "update-ref", "-d", ref)
        self.events.push(repo, [git.Pushed(ref, before, git.ZERO)], by or repo.owner)

    def head(self, repo: Repo, branch: str = "main") -> str | None:
        """The commit at a branch of a repository; None without it."""
        return self.branches(repo).get(branch)

    def branches(self, repo: Repo) -> dict[str, str]:
        """A repository's branches and their commits."""
        found = git.refs(git.made(repo.folder, repo.default_branch))
        return {name.removeprefix("refs/heads/"): commit for name, commit in found.items()}

    def read(self, repo: Repo, path: str, ref: str = "main") -> bytes:
        """A file of a repository."""
        return git.read_file(repo.folder, ref, path)

    def protect(self, repo: Repo, *branches: str) -> None:
        """Have these branches refuse every push, as protected ones do; none others are protected any more."""
        git.protect(git.made(repo.folder, repo.default_branch), branches)

    def rename(self, repo: Repo, name: str, by: Owner | None = None) -> None:
        self.events.rename_repository(repo, name, by or repo.owner)

    def transfer(self, repo: Repo, to: Owner, by: Owner | None = None) -> None:
        self.events.transfer_repository(repo, to, by or repo.owner)

    def delete(self, repo: Repo, by: Owner | None = None) -> None:
        self.events.delete_repository(repo, by or repo.owner)

    def archive(self, repo: Repo, archived: bool = True, by: Owner | None = None) -> None:
        self.events.archive_repository(repo, archived, by or repo.owner)

    def change_default_branch(self, repo: Repo, branch: str) -> None:
        self.events.change_default_branch(repo, branch, repo.owner)

    def _who(self, one: Owner) -> tuple[str, str]:
        return one.login, one.email

    # Issues, pull requests and checks -----------------------------------------------------------------------------

    def make_issue(
        self, repo: Repo, title: str, body: str = "", by: Owner | None = None, labels: Sequence[str] = ()
    ) -> Issue:
        with self.world.lock:
            number = max(repo.issues, default=0) + 1
            made = Issue(self.world.id(), number, by or repo.owner, title, body, self.world.now(), tuple(labels))
            repo.issues[number] = made
            return made

    def comment(self, issue: Issue, by: Owner, body: str) -> Comment:
        with self.world.lock:
            made = Comment(self.world.id(), by, body, self.world.now())
            issue.comments.append(made)
            return made

    def open_pull(
        self, repo: Repo, head: str, base: str = "main", title: str = "A change", by: Owner | None = None
    ) -> Issue:
        return self.events.open_pull(repo, by or repo.owner, head=head, base=base, title=title)

    def review(
        self, repo: Repo, pull: Issue, by: Owner, state: str, body: str = "",
        lines: Iterable[tuple[str, int | None, str]] = (),
    ) -> Review:  # fmt: skip
        """A review: `APPROVED`, `CHANGES_REQUESTED` or `COMMENTED`, with comments on lines (path, line, words)."""
        assert pull.pull is not None
        with self.world.lock:
            commit = self.branches(repo).get(pull.pull.head, git.ZERO)
            made = Review(self.world.id(), by, body, state, commit, self.world.now())
            pull.pull.reviews.append(made)
            for path, line, words in lines:
                said = LineComment(self.world.id(), made.id, by, words, path, line, commit, self.world.now())
                pull.pull.lines.append(said)
            return made

    def merge(self, repo: Repo, pull: Issue, by: Owner | None = None) -> str:
        """Merge a pull request; the commit."""
        return self.events.merge_pull(repo, pull, by or repo.owner).after

    def set_check(
        self, repo: Repo, commit: str, name: str, conclusion: str | None = None, *, summary: str | None = None,
        log: str | None = None, status: Literal["queued", "in_progress"] = "in_progress",
    ) -> CheckRun:  # fmt: skip
        """A check of a commit, over with a conclusion (`success`, `failure`, `skipped`…), or on its way without."""
        with self.world.lock:
            now = self.world.now()
            made = CheckRun(
                self.world.id(), name, commit, "completed" if conclusion else status, conclusion,
                name if summary else None, summary, log, now, now if conclusion else None,
            )  # fmt: skip
            repo.checks.append(made)
            return made

    def set_status(self, repo: Repo, commit: str, context: str, state: str, description: str | None = None) -> Status:
        """A commit status: `error`, `failure`, `pending` or `success`."""
        with self.world.lock:
            made = Status(self.world.id(), context, commit, state, description, None, self.world.now())
            repo.statuses.append(made)
            return made

    # Limits and trouble -------------------------------------------------------------------------------------------

    def limit_rate(self, who: Who = None, remaining: int = 0, resets_in: timedelta = timedelta(hours=1)) -> None:
        """Leave so many calls to an installation, a user or an App (None: all that called yet) until the reset."""
        with self.world.lock:
            for bucket in [_bucket(who)] if who is not None else list(self.wire.rest.limits):
                limit = self.wire.rest.limit(bucket)
                limit.used, limit.ends = limit.most - remaining, self.world.now() + resets_in

    def limit_secondary(
        self, who: Who = None, retry_after: int | None = 60, status: Literal[403, 429] = 403, times: int | None = None
    ) -> None:
        """Refuse calls as too many at once: so many of them, or all until `calm`."""
        with self.world.lock:
            self.wire.rest.busy.append(Busy(None if who is None else _bucket(who), retry_after, status, times))

    def break_down(self, pattern: str = "", status: int = 502, times: int | None = None) -> None:
        """Answer calls whose path matches with an error of the server, so many of them or until `calm`."""
        with self.world.lock:
            self.wire.rest.trouble.append(Trouble(re.compile(pattern), status, times))

    def calm(self) -> None:
        """No limits that were set, and no trouble."""
        with self.world.lock:
            self.wire.rest.limits.clear()
            self.wire.rest.busy.clear()
            self.wire.rest.trouble.clear()

    def called(self, pattern: str = "") -> list[tuple[str, str, str]]:
        """The calls of the API whose path matches: whose limit they count against, method, path."""
        return [call for call in self.wire.rest.calls if re.search(pattern, call[2])]


def _bucket(who: Installation | Owner | App) -> str:
    kind = {Installation: "installation", Owner: "user", App: "app"}[type(who)]
    return f"{kind}:{who.id}"
