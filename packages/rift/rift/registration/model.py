"""The App as it may be shown, and as it lies sealed."""

from __future__ import annotations

from dataclasses import dataclass, field

ABOUT = "github app"
"""What its sealed secrets are about."""


@dataclass(frozen=True, slots=True)
class Registered:
    """The App that was made from here; its secrets are sealed."""

    app_id: int
    slug: str
    html_url: str
    client_id: str
    sealed: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Standing:
    """The App in words: no secret is in it."""

    app_id: int
    slug: str
    html_url: str
    client_id: str
    webhooks: bool
    """Whether GitHub's webhooks can be believed: there is a secret to check them with."""
    set: bool
    """Whether the settings name it, in place of the one that was made from here."""


@dataclass(frozen=True, slots=True)
class Making:
    """What the page that makes an App sends to GitHub."""

    url: str
    state: str = field(repr=False)
    manifest: str
    """As JSON."""
    replaces: str | None
    """The App that there is, which the new one replaces."""
