"""One question to somebody's server over HTTP, within bounds: no redirect, no cookie, no endless or unclear answer."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.cookiejar import DefaultCookiePolicy
from typing import Any
from urllib.parse import urlsplit

import httpx2

from keel.hosts import is_loopback
from keel.sizes import KIB

ANSWER_BYTES = 256 * KIB
"""The most of an answer that is read: a person with very many attributes is smaller."""


class NoAnswer(Exception):
    """The server gave none. The text is for a log; nothing that was sent or received is in it."""

    def __init__(self, text: str, *, anyone: bool = False) -> None:
        super().__init__(text)
        self.anyone = anyone
        """Whether it failed before anything was asked: no connection."""


class BadAnswer(Exception):
    """The answer is none that can be taken. The text is for a log; nothing of the answer is in it."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: its status, and its body as it came."""

    status: int
    body: bytes

    def document(self) -> Mapping[str, Any]:
        """The body as a JSON object. Raises BadAnswer for any other, or one that says a thing twice."""
        if not self.body.strip():
            raise BadAnswer("the answer has no body")
        return self.document_if_any()

    def document_if_any(self) -> Mapping[str, Any]:
        """The same; empty where there is no body at all."""
        if not self.body.strip():
            return {}
        try:
            found = json.loads(self.body.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_number)
        except (ValueError, RecursionError):
            raise BadAnswer(f"the answer (status {self.status}) is not JSON that says each thing once") from None
        if not isinstance(found, dict):
            raise BadAnswer(f"the answer (status {self.status}) is not a JSON object")
        return found


def client_for(url: str, seconds: float, agent: str) -> httpx2.AsyncClient:
    """A client for the server at `url`. It follows no redirect, keeps no cookie, asks for nothing compressed."""
    client = httpx2.AsyncClient(
        headers={"Accept-Encoding": "identity", "User-Agent": agent},
        follow_redirects=False,
        timeout=httpx2.Timeout(seconds),
        trust_env=not is_loopback(urlsplit(url).hostname or ""),  # this machine is not reached through a proxy
    )
    return without_cookies(client)


def without_cookies(client: httpx2.AsyncClient) -> httpx2.AsyncClient:
    """The same client, which from now on keeps none: what one request was given is not told with the next."""
    client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    return client


async def fetched(client: httpx2.AsyncClient, request: httpx2.Request, whom: str) -> Reply:
    """The answer of `whom` to a request, in whatever time it takes: the caller bounds it.

    The body of a redirect, 5xx, 401, 403, 408 or 429 is not read. Raises NoAnswer; BadAnswer for a body that is too
    long or compressed.
    """
    try:
        response = await client.send(request, stream=True)
        try:
            status = response.status_code
            if status >= 500 or 300 <= status < 400 or status in (401, 403, 408, 429):
                return Reply(status, b"")
            return Reply(status, await body_within(response, ANSWER_BYTES))
        finally:
            await response.aclose()
    except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError) as error:
        raise NoAnswer(f"no connection to {whom} ({type(error).__name__})", anyone=True) from None
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
        raise NoAnswer(f"no answer of {whom} ({type(error).__name__})") from None


async def body_within(response: httpx2.Response, most: int) -> bytes:
    """The body of an answer that is being read, as it comes. Raises BadAnswer beyond `most` bytes, or compressed."""
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise BadAnswer("it answered compressed, unasked")
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > most:
            raise BadAnswer(f"it answered with more than {most // KIB} KiB")
    return bytes(body)


def fresh_seconds(response: httpx2.Response) -> float | None:
    """For how long an answer's server says that it is fresh (Cache-Control, RFC 9111); None where it says nothing."""
    control = response.headers.get("cache-control", "")
    if re.search(r"\bno-(store|cache)\b", control, re.IGNORECASE):
        return 0
    found = re.search(r"\bmax-age=(\d{1,9})\b", control, re.IGNORECASE | re.ASCII)
    return float(found[1]) if found else None


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a member stands twice")
    return found


def _no_number(name: str) -> object:
    raise ValueError(f"{name} is no number of JSON")
