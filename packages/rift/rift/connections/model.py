"""MCP clients, what they ask for, and what they are given. Sources: RFC 6749, RFC 7636, RFC 8707, OAuth 2.1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal
from urllib.parse import urlsplit

from keel.refusal import Refusal
from rift.people.model import Caller

Source = Literal["registered", "document"]
"""How a client made itself known: it registered (RFC 7591), or its id is the address of a document about it."""

SCOPE = "rift"
"""The one scope: what a client may do is what its person may."""

CODE_FOR = timedelta(seconds=60)
"""How long an authorization code is good."""
GRACE = timedelta(seconds=60)
"""How long a refresh token that was used gives the same successor again, to a client that never heard the answer."""
UNUSED_MOST = 10_000
"""So many registered clients may there be that never signed anybody in."""
UNUSED_FOR = timedelta(days=7)
"""How long a client that never signed anybody in is remembered."""
UNUSED_LEAST = timedelta(hours=1)
"""How long at least, where there are as many of them as there may be."""
FRESH_LEAST, FRESH_MOST = timedelta(minutes=5), timedelta(days=1)
"""How long a client's document is believed, within which its server may say."""


@dataclass(frozen=True, slots=True)
class Client:
    """A client that a person may sign in: nothing it says of itself is proved, but that it has this document's host."""

    id: str
    source: Source
    name: str
    """As it was declared, fit for a list."""
    redirect_uris: Sequence[str]
    facts: Mapping[str, Any]
    """Of a document: `fresh_until`, until when it is believed, an RFC 3339 instant."""
    created_at: datetime
    used_at: datetime | None
    """When somebody last allowed it something."""

    @property
    def host(self) -> str:
        """Whose client it is, of one with a document: the host that its document was read from."""
        return urlsplit(self.id).netloc if self.source == "document" else ""

    def fresh(self, now: datetime) -> bool:
        """Whether what is known of it may be used without a look: a document is read again from time to time."""
        return self.source == "registered" or now < datetime.fromisoformat(str(self.facts["fresh_until"]))


@dataclass(frozen=True, slots=True)
class Request:
    """An authorization request as it came; what was not said is empty. `state` may be said and empty."""

    client_id: str
    redirect_uri: str
    response_type: str
    code_challenge: str
    code_challenge_method: str
    resource: str
    scope: str
    state: str | None


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that a person may answer."""

    client: Client
    redirect_uri: str
    challenge: str
    resource: str
    state: str | None


@dataclass(frozen=True, slots=True)
class Wrong:
    """A request that is not right, whose client is to hear of it at an address that it registered."""

    client: Client
    redirect_uri: str
    state: str | None
    refusal: Refusal


@dataclass(frozen=True, slots=True)
class Code:
    """An authorization code as it is kept, and whose it is."""

    client: str
    redirect_uri: str
    challenge: str
    resource: str
    expires_at: datetime
    used_at: datetime | None
    token: str | None
    """The token that it was exchanged for."""
    user: str
    email: str
    admin: bool
    disabled: bool
    name: str
    """The client's."""

    @property
    def caller(self) -> Caller:
        """Who acts when it is used."""
        return Caller(self.user, self.email, self.admin, self.token or "", self.name)


@dataclass(frozen=True, slots=True)
class Refresh:
    """A refresh token as it is kept, and whose it is."""

    token: str
    """The token whose secrets it renews."""
    salt: bytes = field(repr=False)
    """Makes its successors, with the secret that is presented."""
    resource: str
    expires_at: datetime
    used_at: datetime | None
    revoked: bool
    client: str
    user: str
    email: str
    admin: bool
    disabled: bool
    name: str

    @property
    def caller(self) -> Caller:
        """Who acts when it is used."""
        return Caller(self.user, self.email, self.admin, self.token, self.name)


@dataclass(frozen=True, slots=True)
class Exchange:
    """A code as a client presents it."""

    client_id: str
    code: str = field(repr=False)
    redirect_uri: str
    verifier: str = field(repr=False)
    resource: str


@dataclass(frozen=True, slots=True)
class Renewal:
    """A refresh token as a client presents it."""

    client_id: str
    refresh: str = field(repr=False)
    resource: str


@dataclass(frozen=True, slots=True)
class Issued:
    """What a client is given: two secrets, and how many seconds the first is good."""

    access: str = field(repr=False)
    refresh: str = field(repr=False)
    expires_in: int


@dataclass(frozen=True, slots=True)
class Connection:
    """One token of a person, as the Connections page shows it."""

    id: str
    client: str
    """The client's name: the holder label without `mcp:`."""
    source: Source | None
    """How its client made itself known; None of a token that was made by hand."""
    client_id: str | None
    created_at: datetime
    used_at: datetime | None
    """At most a minute behind its last call."""

    @property
    def host(self) -> str:
        """Where its client's document is, if it has one."""
        return urlsplit(self.client_id or "").netloc if self.source == "document" else ""
