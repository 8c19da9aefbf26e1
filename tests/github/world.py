"""The stand-in's state, and what follows from it: who may do what to which repository."""

from __future__ import annotations

import functools
import itertools
import secrets
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.github.model import RIGHTS, App, CheckRun, Code, DeviceLogin, Installation, Owner, Repo, Right, Token

USER_FOR = timedelta(hours=8)
REFRESH_FOR = timedelta(seconds=15_897_600)
INSTALLATION_FOR = timedelta(hours=1)


class Missing(LookupError):
    """There is no such thing here."""


class World:
    """Everything that there is. Whoever reads or changes it holds `lock`; nothing slow is done under it."""

    def __init__(self, folder: Path, clock: Callable[[], datetime]) -> None:
        self.folder = folder
        self.url = ""
        """Where it is served, without a slash at its end."""
        self.clock = clock
        self.later = timedelta(0)
        """How far ahead of the clock the stand-in is."""
        self.lock = threading.RLock()
        self.owners: dict[int, Owner] = {}
        self.repos: dict[int, Repo] = {}
        self.moved: dict[str, int] = {}
        """Names that repositories had once: `owner/name` in small letters, and the id."""
        self.apps: dict[int, App] = {}
        self.installations: dict[int, Installation] = {}
        self.tokens: dict[str, Token] = {}
        self.devices: dict[str, DeviceLogin] = {}
        self.codes: dict[str, Code] = {}
        self.manifests: dict[str, tuple[App, datetime]] = {}
        self.sessions: dict[str, Owner] = {}
        """Browsers that are signed in, by their cookie."""
        self.authorized: set[tuple[int, int]] = set()
        """Users who authorized Apps: their ids."""
        self.logs: dict[str, CheckRun] = {}
        """Logs that may be fetched, by the secret part of their address."""
        self._ids = itertools.count(1001)
        self._lock_of_git: dict[int, threading.Lock] = {}

    def now(self) -> datetime:
        return (self.clock() + self.later).astimezone(UTC)

    def id(self) -> int:
        return next(self._ids)

    # Who and what there is ----------------------------------------------------------------------------------------

    def add_owner(self, login: str, kind: Literal["User", "Organization"]) -> Owner:
        if any(one.login.lower() == login.lower() for one in self.owners.values()):
            raise ValueError(f"there is a {login} already")
        made = Owner(self.id(), login, kind, self.now())
        self.owners[made.id] = made
        return made

    def owner(self, login: str) -> Owner:
        for one in self.owners.values():
            if one.login.lower() == login.lower():
                return one
        raise Missing(login)

    def add_repo(self, owner: Owner, name: str, private: bool) -> Repo:
        number = self.id()
        made = Repo(number, owner, name, private, self.folder / "git" / f"{number}.git", self.now())
        self.repos[number] = made
        self.moved.pop(made.full.lower(), None)
        return made

    def repo(self, full: str) -> Repo:
        """A repository by its name of today."""
        for one in self.repos.values():
            if one.full.lower() == full.lower():
                return one
        raise Missing(full)

    def once(self, full: str) -> Repo:
        """A repository by a name that it had once."""
        number = self.moved.get(full.lower())
        if number is None or number not in self.repos:
            raise Missing(full)
        return self.repos[number]

    def add_app(self, owner: Owner, name: str, *, slug: str | None = None, secret: str | None = None) -> App:
        number = self.id()
        slug = slug or "-".join(name.lower().split())
        if any(one.slug == slug for one in self.apps.values()):
            raise ValueError(f"there is an App {slug} already")
        made = App(
            number, slug, name, owner, f"{self.url}/github-apps/{slug}", "https://rift.example.org", self.now(),
            client_id=f"Iv23li{secrets.token_hex(7)}", client_secret=secrets.token_hex(20),
            pem=first_key() if not self.apps else new_key(), webhook_secret=secret or secrets.token_hex(20),
        )  # fmt: skip
        self.apps[number] = made
        return made

    def app_of_client(self, client_id: str | None) -> App:
        for one in self.apps.values():
            if one.client_id == client_id:
                return one
        raise Missing(client_id)

    def installation_of(self, app: App, account: Owner) -> Installation | None:
        found = (one for one in self.installations.values() if one.app is app and one.account is account)
        return next(found, None)

    # Who may --------------------------------------------------------------------------------------------------------

    def right(self, user: Owner, repo: Repo) -> Right:
        """What a user may do to a repository: an organization's admins everything, its members read."""
        if repo.owner is user:
            return "admin"
        role = repo.owner.members.get(user.id)
        if role == "admin":
            return "admin"
        base: Right = "read" if role == "member" or not repo.private else "none"
        return max(base, repo.collaborators.get(user.id, "none"), key=RIGHTS.index)

    def covers(self, installation: Installation, repo: Repo) -> bool:
        """Whether an installation covers a repository, suspended or not."""
        chosen = installation.chosen
        return repo.owner is installation.account and (chosen is None or repo.id in chosen)

    def reach(self, token: Token | None, repo: Repo) -> Right:
        """What the bearer may do to a repository: of a user's token, what the user and the App both may."""
        seen: Right = "none" if repo.private else "read"
        if token is None:
            return seen
        if token.installation is not None:
            within = token.repositories is None or repo.id in token.repositories
            return "write" if within and self.covers(token.installation, repo) else seen
        installation = self.installation_of(token.app, repo.owner)
        if (
            token.user is None
            or installation is None
            or installation.suspended_at
            or not self.covers(installation, repo)
        ):
            return seen
        return self.right(token.user, repo)

    def permitted(self, token: Token | None, repo: Repo, what: str, level: str) -> bool:
        """Whether the App was given `what` (as `pull_requests`) at `level` for a repository."""
        if token is None:
            return level == "read"
        installation = token.installation or self.installation_of(token.app, repo.owner)
        if installation is None:
            return level == "read"  # a public repository, seen as anybody sees it
        given = (token.permissions if token.installation else installation.permissions).get(what)
        return given == "write" or (given == level == "read")

    def repositories(self, installation: Installation, token: Token | None = None) -> list[Repo]:
        """What an installation covers, or a token of it, in the order in which they were made."""
        within = token.repositories if token else None
        found = (one for one in self.repos.values() if self.covers(installation, one))
        return [one for one in found if within is None or one.id in within]

    def administers(self, user: Owner, account: Owner) -> bool:
        return account is user or account.members.get(user.id) == "admin"

    def installations_of(self, token: Token) -> Iterator[Installation]:
        """The installations of the token's App that its user may reach."""
        for one in self.installations.values():
            user = token.user
            if user is None or one.app is not token.app:
                continue
            belongs = one.account is user or user.id in one.account.members
            if belongs or any(user.id in repo.collaborators for repo in self.repositories(one)):
                yield one

    # Tokens ---------------------------------------------------------------------------------------------------------

    def new_installation_token(
        self, installation: Installation, only: frozenset[int] | None, permissions: dict[str, str] | None = None
    ) -> Token:
        value = f"ghs_{secrets.token_urlsafe(27)[:36]}"
        token = Token(
            value, installation.app, self.now() + INSTALLATION_FOR, installation=installation, repositories=only,
            permissions=dict(installation.permissions if permissions is None else permissions),
        )  # fmt: skip
        self.tokens[value] = token
        return token

    def new_user_token(self, app: App, user: Owner, by_device: bool = False) -> Token:
        """A user's token, and what refreshes it where the App's tokens expire."""
        now, expires = self.now(), app.expiring_tokens
        token = Token(
            f"ghu_{secrets.token_urlsafe(27)[:36]}", app, now + USER_FOR if expires else None, user=user,
            refresh=f"ghr_{secrets.token_urlsafe(57)[:76]}" if expires else None,
            refresh_expires_at=now + REFRESH_FOR if expires else None, by_device=by_device,
        )  # fmt: skip
        self.tokens[token.value] = token
        self.authorized.add((app.id, user.id))
        return token

    def token(self, value: str) -> Token | None:
        """A token that is good now, suspended installations' too."""
        found = self.tokens.get(value)
        return found if found and (found.expires_at is None or found.expires_at > self.now()) else None

    def revoke(self, app: App, user: Owner) -> None:
        """Take a user's authorization of an App back."""
        self.authorized.discard((app.id, user.id))
        self.tokens = {k: one for k, one in self.tokens.items() if one.app is not app or one.user is not user}

    def open_log(self, check: CheckRun) -> str:
        """An address where a check's log can be fetched by whoever knows it."""
        secret = secrets.token_urlsafe(24)
        self.logs[secret] = check
        return f"{self.url}/_logs/{secret}"

    def lock_of_git(self, repo: Repo) -> threading.Lock:
        """Who changes a repository's refs holds it."""
        with self.lock:
            return self._lock_of_git.setdefault(repo.id, threading.Lock())


def new_key() -> str:
    """An RSA key in PKCS#1, as GitHub gives it."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    kept = (serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())
    return key.private_bytes(*kept).decode()


first_key = functools.cache(new_key)
"""Of the first App of every stand-in in this process: making one takes a while."""
