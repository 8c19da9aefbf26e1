"""Which redirect addresses are taken and which match; what a client may say of itself; what a code or a token is worth.

Sources: RFC 6749, RFC 7591, RFC 7636, RFC 8252, RFC 8707, RFC 9700; OAuth Client ID Metadata Document (draft).
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal
from urllib.parse import SplitResult, urlsplit

from keel.ids import same_digest
from keel.refusal import Refusal
from rift.connections import refusals
from rift.connections.model import (
    FRESH_LEAST,
    FRESH_MOST,
    GRACE,
    Asked,
    Client,
    Code,
    Exchange,
    Refresh,
    Renewal,
    Request,
    Wrong,
)
from rift.people.decide import client_of

URI_MOST = 2000
URIS_MOST = 20
STATE_MOST = 4096

LOOPBACK = re.compile(r"http://(127\.0\.0\.1|\[::1\]|localhost)(?::([0-9]{1,5}))?((?:[/?][^#]*)?)")
"""A redirect address on the person's own computer: its host, its port, the rest (RFC 8252, 7.3)."""
_PLAIN = re.compile(r"[!-~]+")
_NEVER_IN_A_URI = frozenset('"<>\\^`{|}*')
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")
_HOST = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?", re.IGNORECASE)
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")
_NOBODYS = frozenset(
    [
        "about",
        "blob",
        "chrome",
        "cid",
        "content",
        "data",
        "file",
        "filesystem",
        "ftp",
        "gopher",
        "intent",
        "jar",
        "javascript",
        "mailto",
        "mid",
        "resource",
        "sftp",
        "smb",
        "sms",
        "ssh",
        "tel",
        "urn",
        "vbscript",
        "view-source",
        "ws",
        "wss",
        "xmpp",
    ]
)
"""Schemes that no application has for itself: a browser or a system does something of its own with them."""
_SYSTEMS = ("ms-", "search-ms", "x-apple", "moz-", "microsoft-edge")


def is_plain(text: str) -> bool:
    """Whether a text is one that an id of ours, or an address, can be: short, and of visible ASCII."""
    return len(text) <= URI_MOST and _PLAIN.fullmatch(text) is not None


def redirect_problem(uri: str) -> str | None:
    """Why no code is sent to an address; None where one may be.

    Taken are https to any host, http to this computer, and a scheme of an application's own.
    """
    if not 0 < len(uri) <= URI_MOST:
        return f"it has not 1 to {URI_MOST} characters"
    if not _PLAIN.fullmatch(uri) or _NEVER_IN_A_URI & set(uri):
        return "it has characters that stand in no redirect address"
    if "#" in uri:
        return "it has a fragment"
    scheme, colon, rest = uri.partition(":")
    if not colon or not rest or not _SCHEME.fullmatch(scheme):
        return "it has no scheme in lower case"
    if scheme == "http":
        met = LOOPBACK.fullmatch(uri)
        return None if met and int(met[2] or 1) < 65536 else "http is taken for the person's own computer alone"
    if scheme == "https":
        parts = _split(uri)
        if parts is None or not _HOST.fullmatch(parts.hostname or "") or parts.username is not None:
            return "it names no host"
        return None
    if scheme in _NOBODYS or scheme.startswith(_SYSTEMS):
        return "its scheme is no application's own"
    return None


def redirect_allowed(known: Sequence[str], uri: str) -> bool:
    """Whether a client that made these addresses known may have its answer sent to this one.

    Character by character the same; on the person's own computer the port may be any.
    """
    if redirect_problem(uri) is not None:
        return False
    if uri in known:
        return True
    asked = LOOPBACK.fullmatch(uri)
    mine = [met for one in known if (met := LOOPBACK.fullmatch(one))]
    return asked is not None and any((met[1], met[3]) == (asked[1], asked[3]) for met in mine)


def is_here(uri: str) -> bool:
    """Whether an address leads to the person's own computer."""
    return LOOPBACK.fullmatch(uri) is not None


def place_of(uri: str) -> str:
    """Where an address leads, for a person to read: `this computer`, a host, or an application."""
    if is_here(uri):
        return "this computer"
    parts = urlsplit(uri)
    return parts.netloc if parts.scheme == "https" else f"the application that has {parts.scheme}:"


def form_action(uri: str) -> str:
    """What the consent page's policy has to name, so that its form may lead on to this address and from there.

    A client's program on the person's own computer may send the browser on to a page of its makers. To other places
    the form does not lead: a page of ours goes on there.
    """
    met = LOOPBACK.fullmatch(uri)
    if met is None:
        return ""
    if met[1] == "[::1]":
        return "http: https:"  # a policy has no way to name an address of IPv6
    return f"http://{met[1]}{f':{met[2]}' if met[2] else ''} https:"


def document_problem(url: str) -> str | None:
    """Why a client's id is no address of a document; None where it is one."""
    if not _PLAIN.fullmatch(url) or _NEVER_IN_A_URI & set(url) or len(url) > URI_MOST:
        return "it is no address"
    parts = _split(url)
    if parts is None or not url.startswith("https://") or not _HOST.fullmatch(parts.hostname or ""):
        return "it names no host"
    if parts.username is not None or "#" in url:
        return "it has a user or a fragment"
    if not parts.path.strip("/") or {".", ".."} & set(parts.path.replace("%2e", ".").replace("%2E", ".").split("/")):
        return "it has no path of its own"
    return None


def registration(said: Mapping[str, Any]) -> tuple[str, list[str]] | Refusal:
    """The name and the redirect addresses of a client that registers."""
    uris = _uris(said)
    if isinstance(uris, Refusal):
        return uris
    name = said.get("client_name", "")
    if not isinstance(name, str):
        return refusals.invalid_client_metadata("client_name is to be a text")
    return client_of(name) or f"a client at {place_of(uris[0])}"[:64], uris


def document(url: str, said: Mapping[str, Any]) -> tuple[str, list[str]] | Refusal:
    """The name and the redirect addresses of a client by its document, which says that it is the one of this id."""
    if said.get("client_id") != url:
        return refusals.client_unreadable(url, "its client_id is not its own address")
    if said.get("token_endpoint_auth_method", "none") != "none" or "client_secret" in said:
        return refusals.client_unreadable(url, "it wants to sign in with a secret or a key of its own, not with PKCE")
    read = registration(said)
    if isinstance(read, Refusal):
        return refusals.client_unreadable(url, read.sentence.rstrip("."))
    name = said.get("client_name", "")
    return (read[0] if isinstance(name, str) and client_of(name) else urlsplit(url).netloc[:64]), read[1]


def fresh_for(seconds: float | None) -> timedelta:
    """How long a document is believed whose server says so many seconds; None where it says nothing."""
    said = FRESH_LEAST if seconds is None else timedelta(seconds=min(seconds, FRESH_MOST.total_seconds()))
    return max(FRESH_LEAST, said)


def asked(request: Request, client: Client, resource: str) -> Asked | Wrong | Refusal:
    """What a person may answer. A Refusal, where nothing may be sent to the address that the request names."""
    if not redirect_allowed(client.redirect_uris, request.redirect_uri):
        return refusals.redirect_refused(client.name, request.redirect_uri)
    wrong = _wrong(request, resource)
    if wrong is not None:
        return Wrong(client, request.redirect_uri, request.state, wrong)
    return Asked(client, request.redirect_uri, request.code_challenge, resource, request.state)


def same_resource(said: str, resource: str) -> bool:
    """Whether a client means this server. Nothing said means it; a slash at the end is forgiven."""
    return not said or said.removesuffix("/") == resource


def proves(verifier: str, challenge: str) -> bool:
    """Whether a verifier is the one whose hash the client sent first (RFC 7636, S256)."""
    if not _VERIFIER.fullmatch(verifier):
        return False
    made = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=")
    return same_digest(made, challenge.encode())


def exchange(code: Code, presented: Exchange, now: datetime, resource: str) -> Refusal | None:
    """Whether a code that nobody used is worth a token to who presents it. All that is wrong is told alike."""
    good = (
        now < code.expires_at
        and not code.disabled
        and code.client == presented.client_id
        and code.redirect_uri == presented.redirect_uri
        and proves(presented.verifier, code.challenge)
    )
    if not good:
        return refusals.invalid_grant()
    fits = code.resource == resource and same_resource(presented.resource, resource)
    return None if fits else refusals.invalid_target(resource)


Verdict = Literal["rotate", "again", "reused"]


def renewal(refresh: Refresh, presented: Renewal, now: datetime, resource: str) -> Verdict | Refusal:
    """What a refresh token is worth: `rotate`, a successor; `again`, the one it has; `reused`, the end of all of them.

    One that was used is asked with again by a client that never heard the answer, for GRACE; later by a thief, or by
    the client after a thief.
    """
    if refresh.revoked or refresh.disabled or refresh.client != presented.client_id or now >= refresh.expires_at:
        return refusals.invalid_grant()
    if not same_resource(presented.resource, resource) or refresh.resource != resource:
        return refusals.invalid_target(resource)
    if refresh.used_at is None:
        return "rotate"
    return "again" if now < refresh.used_at + GRACE else "reused"


def _wrong(request: Request, resource: str) -> Refusal | None:
    if request.response_type != "code":
        return (
            refusals.unsupported_response_type()
            if request.response_type
            else refusals.invalid_request("response_type is missing")
        )
    if not request.code_challenge:
        return refusals.invalid_request("code_challenge is missing: PKCE is needed")
    if request.code_challenge_method != "S256":
        return refusals.invalid_request("code_challenge_method is to be S256")
    if not _CHALLENGE.fullmatch(request.code_challenge):
        return refusals.invalid_request("code_challenge is no SHA-256 in base64url")
    if len(request.state or "") > STATE_MOST:
        return refusals.invalid_request(f"state is longer than {STATE_MOST} characters")
    return None if same_resource(request.resource, resource) else refusals.invalid_target(resource)


def _uris(said: Mapping[str, Any]) -> list[str] | Refusal:
    uris = said.get("redirect_uris")
    if not isinstance(uris, list) or not 0 < len(uris) <= URIS_MOST or not all(isinstance(uri, str) for uri in uris):
        return refusals.invalid_client_metadata(f"redirect_uris is to be a list of 1 to {URIS_MOST} addresses")
    for uri in uris:
        why = redirect_problem(uri)
        if why is not None:
            return refusals.invalid_redirect_uri(uri[:200], why)
    return list(dict.fromkeys(uris))


def _split(uri: str) -> SplitResult | None:
    try:
        parts = urlsplit(uri)
        _ = parts.port
    except ValueError:
        return None
    return parts
