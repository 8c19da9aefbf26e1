"""GitHub itself, github.com or a GitHub Enterprise Server, by its REST API and its OAuth endpoints.

Sources: GitHub's REST documentation (version 2022-11-28); "Generating a JSON Web Token for a GitHub App";
"Generating a user access token for a GitHub App"; "Registering a GitHub App from a manifest".
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

import httpx2
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from keel import jose
from keel.clock import Clock
from keel.db import forbid_in_transaction
from keel.hosts import is_loopback
from keel.sizes import KIB, MIB
from rift.drivers.github import reading
from rift.drivers.github.asking import Asking, Said
from rift.drivers.github.keeping import KeptTokens
from rift.drivers.github.protocol import (
    Account,
    App,
    Check,
    Comment,
    DeviceCode,
    GitHubDenied,
    GitHubError,
    GitHubMissing,
    GitHubRefused,
    Installation,
    InstallationToken,
    Issue,
    NoDeviceFlow,
    NoLogin,
    NotYet,
    Pull,
    Repository,
    RepositoryPage,
    UserTokens,
)
from rift.drivers.github.reading import Unreadable

PER_PAGE = 100
PAGES_MOST = 100
"""Pages of one list that are read: 10,000 installations are more than one Rift has."""
TOLD_PAGES = 3
JWT_SECONDS = 540
"""GitHub takes ten minutes at most, and clocks differ."""
JWT_SKEW = 60
LOG_BYTES = 64 * KIB
LOG_THROUGH = 64 * MIB
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
JOB = re.compile(r"/actions/runs/\d{1,19}/job/(\d{1,19})(?:[?#]|$)", re.ASCII)
FULL = re.compile(r"[A-Za-z0-9_-]{1,100}/[A-Za-z0-9._-]{1,100}", re.ASCII)


class HttpGitHub:
    """GitHub at `url`, with its API at `api`. `connect` makes the connections, `close` lets go of them."""

    def __init__(
        self, url: str, api: str, clock: Clock, connect: Callable[[], httpx2.AsyncClient] | None = None
    ) -> None:
        self._url, self._api, self._clock = url, api, clock
        self._asking = Asking(api, clock, connect)
        self._tokens_kept = KeptTokens(clock)

    @property
    def kind(self) -> str:
        """It is asked over HTTP."""
        return "http"

    async def close(self) -> None:
        """Let go of the connections."""
        await self._asking.close()

    # The App itself -----------------------------------------------------------------------------------------------

    async def convert(self, code: str) -> App:
        """The App that was just made from a manifest."""
        said = await self._asking.ask("POST", f"{self._api}/app-manifests/{quote(code, safe='')}/conversions")
        return reading.app(said.json())

    async def installations(self, app: App) -> tuple[Installation, ...]:
        """Every installation, all pages."""
        found = await self._all("/app/installations", _bearer(self._jwt(app)), None)
        return tuple(reading.installations(found))

    async def installation(self, app: App, id: int) -> Installation:
        """One installation."""
        return reading.installation((await self._get(f"/app/installations/{id}", _bearer(self._jwt(app)))).json())

    async def installation_token(self, app: App, id: int, *, fresh: bool = False) -> InstallationToken:
        """A token of an installation that is good for five minutes at least."""
        forbid_in_transaction("GitHub")
        kept = None if fresh else self._tokens_kept.get(app.id, id)
        if kept is not None:
            return kept
        said = await self._asking.ask(
            "POST", f"{self._api}/app/installations/{id}/access_tokens", auth=_bearer(self._jwt(app))
        )
        return self._tokens_kept.keep(app.id, id, reading.installation_token(said.json()))

    async def owns(self, token: str, org: str, login: str) -> bool:
        """Whether a user is an owner of an organization."""
        try:
            said = await self._get(f"/orgs/{quote(org, safe='')}/memberships/{quote(login, safe='')}", _bearer(token))
        except GitHubMissing:
            return False
        except GitHubDenied as error:
            raise GitHubDenied(f"the App needs the permission Members (read) to see who owns {org}: {error}") from None
        found = said.json()
        return isinstance(found, Mapping) and (found.get("role"), found.get("state")) == ("admin", "active")

    async def repositories(self, token: str, page: int) -> RepositoryPage:
        """A page of what an installation covers."""
        said = await self._get("/installation/repositories", _bearer(token), per_page=PER_PAGE, page=page)
        found = said.json()
        items = reading.listed(found, "repositories")
        return RepositoryPage(
            tuple(reading.repository(one) for one in items), reading.number(found, "total_count"),
            said.page("next"),
        )  # fmt: skip

    async def repository(self, token: str, full: str) -> Repository:
        """The repository that has this name now; GitHub leads from a name of before to the one that had it last."""
        return reading.repository((await self._read(token, full, "")).json())

    # People --------------------------------------------------------------------------------------------------------

    async def device_code(self, app: App) -> DeviceCode:
        """Begin a login."""
        said = await self._oauth("/login/device/code", {"client_id": app.client_id})
        _no_error(said)
        return reading.device_code(said)

    async def device_tokens(self, app: App, device_code: str) -> UserTokens | NotYet | NoLogin:
        """Ask whether the person has answered."""
        form = {"client_id": app.client_id, "device_code": device_code, "grant_type": DEVICE_GRANT}
        said = await self._oauth("/login/oauth/access_token", form)
        match said.get("error"):
            case "authorization_pending":
                return NotYet(reading.number(said, "interval") if "interval" in said else 0)
            case "slow_down":
                return NotYet(min(reading.number(said, "interval"), 300) if "interval" in said else 10)
            case "expired_token" | "token_expired" | "incorrect_device_code":
                return NoLogin("expired")
            case "access_denied":
                return NoLogin("denied")
        _no_error(said)
        return reading.user_tokens(said, self._clock.now())

    async def exchange(self, app: App, code: str) -> UserTokens:
        """A person's tokens for the code with which GitHub sent their browser back."""
        return await self._tokens(app, {"code": code})

    async def refresh(self, app: App, refresh: str) -> UserTokens:
        """New tokens for a refresh token, which is used up."""
        return await self._tokens(app, {"grant_type": "refresh_token", "refresh_token": refresh})

    async def revoke(self, app: App, access: str) -> None:
        """Take the person's whole authorization of the App back."""
        basic = base64.b64encode(f"{app.client_id}:{app.client_secret}".encode()).decode()
        await self._asking.ask(
            "DELETE", f"{self._api}/applications/{quote(app.client_id, safe='')}/grant", auth=f"Basic {basic}",
            body={"access_token": access}, fine=(404, 410, 422),
        )  # fmt: skip

    async def user(self, token: str) -> Account:
        """Whose token this is."""
        return reading.account((await self._get("/user", _bearer(token))).json())

    async def user_installations(self, token: str) -> tuple[Installation, ...]:
        """The installations that the person may reach, all pages."""
        return tuple(reading.installations(await self._all("/user/installations", _bearer(token), "installations")))

    # Done as a person ----------------------------------------------------------------------------------------------

    async def open_pull(
        self, token: str, full: str, *, head: str, base: str, title: str, body: str, draft: bool
    ) -> Pull:
        """Open a pull request."""
        asked = {"title": title, "head": head, "base": base, "body": body, "draft": draft}
        said = await self._asking.ask("POST", self._of(full, "/pulls"), auth=_bearer(token), body=asked)
        return reading.pull(said.json())

    async def pull(self, token: str, full: str, number: int) -> Pull:
        """One pull request."""
        return reading.pull((await self._read(token, full, f"/pulls/{number}")).json())

    async def pulls_of(self, token: str, full: str, head: str) -> tuple[Pull, ...]:
        """The open pull requests from a branch of the same repository, the newest first."""
        query: dict[str, str | int] = {
            "state": "open", "head": f"{full.partition('/')[0]}:{head}", "sort": "created", "direction": "desc",
            "per_page": PER_PAGE,
        }  # fmt: skip
        said = await self._read(token, full, "/pulls", **query)
        found = (reading.pull(one) for one in reading.listed(said.json()))
        return tuple(one for one in found if one.head == head)

    async def reviews(self, token: str, full: str, number: int) -> tuple[Comment, ...]:
        """What reviewers said of a pull request, with the comments on its lines."""
        verdicts = [reading.review(one) for one in await self._last(token, full, f"/pulls/{number}/reviews")]
        lines = [reading.line_comment(one) for one in await self._last(token, full, f"/pulls/{number}/comments")]
        found = sorted([*(one for one in verdicts if one), *lines], key=lambda one: one.at)
        return tuple(found[-TOLD_PAGES * PER_PAGE :])

    async def comment(self, token: str, full: str, number: int, body: str) -> Comment:
        """Add a comment to an issue or pull request."""
        where = self._of(full, f"/issues/{number}/comments")
        return reading.comment((await self._asking.ask("POST", where, auth=_bearer(token), body={"body": body})).json())

    async def issue(self, token: str, full: str, number: int) -> Issue:
        """One issue or pull request, as an issue."""
        return reading.issue((await self._read(token, full, f"/issues/{number}")).json())

    async def comments(self, token: str, full: str, number: int) -> tuple[Comment, ...]:
        """Its comments, the oldest first."""
        return tuple(reading.comment(one) for one in await self._last(token, full, f"/issues/{number}/comments"))

    async def checks(self, token: str, full: str, commit: str) -> tuple[Check, ...]:
        """Check runs and statuses of a commit, the newest of each name."""
        where = f"/repos/{_full(full)}/commits/{quote(commit, safe='')}"
        runs = await self._all(f"{where}/check-runs", _bearer(token), "check_runs", filter="latest")
        statuses = await self._all(f"{where}/status", _bearer(token), "statuses")
        newest = sorted(runs, key=_id, reverse=True)
        return _newest([*map(reading.run, newest), *map(reading.status, statuses)])

    async def job_log(self, token: str, full: str, check: Check) -> str | None:
        """The end of a failed check's log; only one of GitHub's own jobs has one."""
        job = JOB.search(check.url)
        if job is None:
            return None
        try:
            where = await self._asking.elsewhere(self._of(full, f"/actions/jobs/{job[1]}/logs"), _bearer(token))
        except (GitHubMissing, GitHubDenied):
            return None
        if where is None or not self._fetchable(where):
            return None
        found = await self._asking.tail(where, LOG_BYTES, LOG_THROUGH)
        return None if found is None else found.decode("utf-8", "replace").replace("\0", "")

    # How it is asked -----------------------------------------------------------------------------------------------

    def _of(self, full: str, path: str) -> str:
        return f"{self._api}/repos/{_full(full)}{path}"

    async def _read(self, token: str, full: str, path: str, **query: str | int) -> Said:
        return await self._get(f"/repos/{_full(full)}{path}", _bearer(token), **query)

    async def _get(self, path: str, auth: str, **query: str | int) -> Said:
        return await self._asking.ask("GET", f"{self._api}{path}", auth=auth, query=query or None)

    async def _all(self, path: str, auth: str, member: str | None, **query: str | int) -> list[Any]:
        """All items of a list, page after page."""
        found: list[Any] = []
        page = 1
        for _ in range(PAGES_MOST):
            said = await self._get(path, auth, **query, per_page=PER_PAGE, page=page)
            found += reading.listed(said.json(), member)
            following = said.page("next")
            if following is None or following <= page:
                return found
            page = following
        raise GitHubError(f"GitHub lists more than {PAGES_MOST * PER_PAGE} of them")

    async def _last(self, token: str, full: str, path: str) -> list[Any]:
        """The last pages of a list that begins with the oldest."""
        said = await self._read(token, full, path, per_page=PER_PAGE)
        last = min(said.page("last") or 1, 100_000)
        found = list(reading.listed(said.json())) if last <= TOLD_PAGES else []
        for page in range(max(2, last - TOLD_PAGES + 1), last + 1):
            more = await self._read(token, full, path, per_page=PER_PAGE, page=page)
            found += reading.listed(more.json())
        return found[-TOLD_PAGES * PER_PAGE :]

    async def _oauth(self, path: str, form: Mapping[str, str]) -> Mapping[str, Any]:
        said = await self._asking.ask("POST", f"{self._url}{path}", form=form, fine=(400,))
        found = said.json()
        if not isinstance(found, Mapping):
            raise Unreadable("GitHub answered with something else than an object")
        return found

    async def _tokens(self, app: App, form: Mapping[str, str]) -> UserTokens:
        known = {"client_id": app.client_id, "client_secret": app.client_secret}
        said = await self._oauth("/login/oauth/access_token", {**known, **form})
        if said.get("error") in ("bad_verification_code", "bad_refresh_token"):
            raise GitHubDenied(f"GitHub does not take it: {reading.plain(said.get('error_description'))}")
        _no_error(said)
        return reading.user_tokens(said, self._clock.now())

    def _jwt(self, app: App) -> str:
        """What acts as the App itself, for nine minutes."""
        now = int(self._clock.now().timestamp())
        parts = [
            jose.encode(json.dumps(one, separators=(",", ":")).encode())
            for one in (
                {"alg": "RS256", "typ": "JWT"},
                {"iat": now - JWT_SKEW, "exp": now + JWT_SECONDS, "iss": str(app.id)},
            )
        ]
        try:
            key = load_pem_private_key(app.private_key.encode(), None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise GitHubError("the App's private key is no key in PEM") from None
        if not isinstance(key, RSAPrivateKey):
            raise GitHubError("the App's private key is no RSA key")
        signed = ".".join(parts)
        signature = key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{jose.encode(signature)}"

    def _fetchable(self, url: str) -> bool:
        """Whether a log may be fetched there: encrypted, but for a GitHub that is on this machine."""
        try:
            there, here = urlsplit(url), urlsplit(self._api)
        except ValueError:
            return False
        if there.username or there.password or not there.hostname:
            return False
        local = here.scheme == "http" and there.scheme == "http" and is_loopback(there.hostname)
        return there.scheme == "https" or local


def _newest(checks: list[Check]) -> tuple[Check, ...]:
    """One of each name, by name. A run that was begun again stands before the older one."""
    found: dict[str, Check] = {}
    for one in checks:
        found.setdefault(one.name, one)
    return tuple(found[name] for name in sorted(found))


def _id(said: object) -> int:
    return reading.number(said, "id") if isinstance(said, Mapping) else 0


def _full(full: str) -> str:
    if not FULL.fullmatch(full) or full.endswith(("/.", "/..")):
        raise GitHubRefused("that is no OWNER/NAME of GitHub's")
    return full


def _bearer(token: str) -> str:
    return f"Bearer {token}"


def _no_error(said: Mapping[str, Any]) -> None:
    error = said.get("error")
    if error == "device_flow_disabled":
        raise NoDeviceFlow("the App does not have the device flow enabled, which its settings page at GitHub does")
    if error is not None:
        words = reading.plain(said.get("error_description")) or reading.plain(error)
        raise GitHubRefused(f"GitHub does not take it: {words}")
