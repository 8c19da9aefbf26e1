"""Signing in at another place, as one that speaks OpenID Connect."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


class SignOnUnavailable(Exception):
    """The provider cannot be asked, or gave no answer that can be used. The text is for a log; no secret is in it."""


class SignOnRefused(Exception):
    """What came back is not this provider's word about this very sign-in. The text is for a log; no secret is in it."""


@dataclass(frozen=True, slots=True)
class Way:
    """One browser's way there and back. All but `back` come from the browser's secret, and belong together."""

    back: str
    """The address of ours that the provider sends the browser back to."""
    state: str = field(repr=False)
    nonce: str = field(repr=False)
    verifier: str = field(repr=False)
    """Of PKCE: 64 characters."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Whom a provider says that it has signed in."""

    issuer: str
    subject: str
    """The provider's name for the person, which stays the same whatever their address becomes."""
    email: str | None
    """An address of theirs that the provider has verified; None where it names none, or has not."""


class SignOn(Protocol):
    """One provider. Neither call is made inside a transaction."""

    @property
    def issuer(self) -> str:
        """Who the provider is, as its tokens say."""

    async def start(self, way: Way) -> str:
        """The address to send the browser to. Raises SignOnUnavailable."""

    async def finish(self, way: Way, code: str, issuer: str | None) -> Claim:
        """Whom the code is about; `issuer` is what came back beside it (RFC 9207), if anything did.

        Raises SignOnUnavailable, SignOnRefused.
        """
