"""One question to GitHub over HTTP, within bounds, and what its answer's status means.

Sources: GitHub's REST documentation, "Best practices" (redirects, rate limits), "Rate limits for the REST API".
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx2

from keel.clock import Clock
from keel.db import forbid_in_transaction
from keel.fetching import BadAnswer, body_within, client_for
from keel.sizes import KIB, MIB
from rift.drivers.github.protocol import (
    GitHubBusy,
    GitHubDenied,
    GitHubError,
    GitHubMissing,
    GitHubRefused,
)
from rift.drivers.github.reading import plain

SECONDS = 20.0
"""How long one question may take in all."""
ANSWER_BYTES = 8 * MIB
"""The most of an answer: a page of 100 comments is smaller."""
REDIRECTS = 3
PATIENCE = timedelta(minutes=1)
"""What is waited where GitHub says that it was asked too often, and not for how long."""
PATIENCE_MOST = timedelta(hours=2)


@dataclass(frozen=True, slots=True)
class Said:
    """An answer that is one: its status, its headers, its body."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    def json(self) -> Any:
        """What the body says; None where there is none. Raises GitHubError for what is not JSON."""
        if not self.body.strip():
            return None
        try:
            return json.loads(self.body.decode("utf-8"), parse_constant=_no_number)
        except (ValueError, RecursionError):
            raise GitHubError(f"GitHub answered (status {self.status}) with something else than JSON") from None

    def page(self, rel: str) -> int | None:
        """The number of another page of the same list, from the Link header (RFC 8288); None where there is none."""
        for part in self.headers.get("link", "")[:8192].split(","):
            found = re.fullmatch(r'\s*<([^<>]*)>\s*;\s*rel="(\w+)"\s*', part)
            number = re.search(r"[?&]page=(\d{1,9})(?:&|$)", found[1]) if found and found[2] == rel else None
            if number:
                return int(number[1])
        return None


class Asking:
    """The connections to GitHub. A question is answered in time, or raises GitHubError or one of its kinds."""

    def __init__(self, api: str, clock: Clock, connect: Callable[[], httpx2.AsyncClient] | None = None) -> None:
        self._api, self._clock = api, clock
        self._connect = connect or (lambda: client_for(api, SECONDS, "rift"))
        self._client: httpx2.AsyncClient | None = None

    async def close(self) -> None:
        """Let go of the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def ask(
        self, method: str, url: str, *, auth: str = "", body: object = None, form: Mapping[str, str] | None = None,
        query: Mapping[str, str | int] | None = None, fine: Sequence[int] = (),
    ) -> Said:  # fmt: skip
        """Ask. `auth` is the Authorization header; a status in `fine` is an answer as one of 2xx is.

        A redirect within the API is followed, as that of a renamed repository; none leads anywhere else.
        """
        forbid_in_transaction("GitHub")
        for _ in range(REDIRECTS + 1):
            said = await self._once(method, url, auth, body, form, query)
            if said.status not in (301, 302, 307, 308):
                return self._judged(said, fine)
            url, query = self._onward(url, said), None
            if said.status in (301, 302) and method not in ("GET", "HEAD"):
                raise GitHubError("GitHub sent a change somewhere else, which it does of none")
        raise GitHubError("GitHub sends a question from one address to the next without end")

    async def elsewhere(self, url: str, auth: str) -> str | None:
        """Where an address of the API sends who asks, as it says it; None where it answers with something else."""
        forbid_in_transaction("GitHub")
        said = await self._once("GET", url, auth, None, None, None)
        if said.status in (301, 302, 307, 308):
            return said.headers.get("location")
        self._judged(said, ())
        return None

    async def tail(self, url: str, most: int, through: int) -> bytes | None:
        """The last `most` bytes at an address of somebody else's, without a token; None where it cannot be had.

        What is longer than `through` bytes is not read to its end: its beginning would be told for its end.
        """
        forbid_in_transaction("GitHub")
        kept, seen = bytearray(), 0
        try:
            async with asyncio.timeout(SECONDS), self._connected().stream("GET", url) as response:
                if response.status_code != 200:
                    return None
                if response.headers.get("content-encoding", "identity").lower() != "identity":
                    return None
                async for chunk in response.aiter_raw():
                    kept += chunk
                    seen += len(chunk)
                    if seen > through:
                        return None
                    del kept[:-most]
        except (TimeoutError, httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, ValueError):
            return None
        return bytes(kept)

    def _connected(self) -> httpx2.AsyncClient:
        if self._client is None:
            self._client = self._connect()
        return self._client

    async def _once(
        self, method: str, url: str, auth: str, body: object, form: Mapping[str, str] | None,
        query: Mapping[str, str | int] | None,
    ) -> Said:  # fmt: skip
        headers = {"Accept": "application/json" if form is not None else "application/vnd.github+json"}
        if form is None:
            headers["X-GitHub-Api-Version"] = "2022-11-28"
        if auth:
            headers["Authorization"] = auth
        try:
            async with asyncio.timeout(SECONDS):
                client = self._connected()
                request = client.build_request(method, url, headers=headers, params=query, data=form, json=body)
                response = await client.send(request, stream=True)
                try:
                    read = await body_within(response, ANSWER_BYTES)
                finally:
                    await response.aclose()
                return Said(response.status_code, {k.lower(): v for k, v in response.headers.items()}, read)
        except BadAnswer as error:
            raise GitHubError(f"GitHub's answer cannot be taken: {error}") from None
        except (TimeoutError, httpx2.TimeoutException):
            raise GitHubError(f"GitHub did not answer within {SECONDS:g} s") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, ValueError) as error:
            raise GitHubError(f"GitHub cannot be reached ({type(error).__name__})") from None

    def _onward(self, url: str, said: Said) -> str:
        try:
            target = urljoin(url, said.headers.get("location", ""))
            there, here = urlsplit(target), urlsplit(self._api)
            same = (there.scheme, there.netloc) == (here.scheme, here.netloc)
        except ValueError:
            same, target = False, ""
        if not same or not target.startswith(f"{self._api}/"):
            raise GitHubError("GitHub sent a question to another host, and nobody is followed there")
        return target

    def _judged(self, said: Said, fine: Sequence[int]) -> Said:
        if 200 <= said.status < 300 or said.status in fine:
            return said
        told = _told(said)
        until = self._patience(said, told)
        if until is not None:
            raise GitHubBusy(f"GitHub was asked too often, and may be asked again from {until:%H:%M:%S} UTC on", until)
        words = f": {told}" if told else ""
        match said.status:
            case 401 | 403 | 451:
                raise GitHubDenied(f"GitHub does not allow it (status {said.status}){words}")
            case 404 | 410:
                raise GitHubMissing(f"GitHub has no such thing, or does not show it (status {said.status}){words}")
            case 409 | 422:
                raise GitHubRefused(told or f"GitHub does not take it (status {said.status})")
            case _:
                raise GitHubError(f"GitHub failed (status {said.status}){words}")

    def _patience(self, said: Said, told: str) -> datetime | None:
        """Until when nothing may be asked; None of an answer that is not about that."""
        if said.status not in (403, 429):
            return None
        now = self._clock.now()
        after, reset = said.headers.get("retry-after", ""), said.headers.get("x-ratelimit-reset", "")
        if re.fullmatch(r"\d{1,9}", after, re.ASCII):
            until = now + timedelta(seconds=int(after))
        elif said.headers.get("x-ratelimit-remaining") == "0" and re.fullmatch(r"\d{1,11}", reset, re.ASCII):
            until = datetime.fromtimestamp(int(reset), UTC) + timedelta(seconds=1)
        elif said.status == 429 or "rate limit" in told.lower() or "abuse detection" in told.lower():
            until = now + PATIENCE
        else:
            return None
        return min(max(until, now + timedelta(seconds=1)), now + PATIENCE_MOST)


def _told(said: Said) -> str:
    """What GitHub says of what it does not do: its message, and each of its errors."""
    if len(said.body) > 64 * KIB:
        return ""
    try:
        found = said.json()
    except GitHubError:
        return ""
    if not isinstance(found, Mapping):
        return ""
    words = [plain(found.get("message"))]
    errors = found.get("errors")
    for one in errors[:10] if isinstance(errors, list) else []:
        if isinstance(one, Mapping):
            parts = [plain(one.get(name), 100) for name in ("resource", "field", "code")]
            words.append(plain(one.get("message")) or " ".join(part for part in parts if part))
        else:
            words.append(plain(one))
    return "; ".join(dict.fromkeys(word for word in words if word))


def _no_number(name: str) -> object:
    raise ValueError(f"{name} is no number of JSON")
