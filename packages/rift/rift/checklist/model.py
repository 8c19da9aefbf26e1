"""What rift_whoami answers."""

from __future__ import annotations

from dataclasses import dataclass

from keel.refusal import Call, Mend
from rift.invites.model import Invitation
from rift.repos.model import OrgView


@dataclass(frozen=True, slots=True)
class Gap:
    """Something between a person and a box, and what closes it."""

    text: str
    mend: Mend


@dataclass(frozen=True, slots=True)
class AtGitHub:
    """How somebody stands at GitHub."""

    app: bool = False
    """Whether this Rift has an App."""
    login: str | None = None
    """Who they are there."""
    over: bool = False
    """Whether GitHub takes that login no more."""


@dataclass(frozen=True, slots=True)
class WhoAmI:
    """The agent's checklist: who, what is there, what is missing, and what to call when nothing is."""

    email: str
    platform_admin: bool
    client: str
    """The label that tasks show for this token, `mcp:` and the client's name."""
    github: str
    """Whether GitHub is connected for pushes, as a sentence."""
    invitations: tuple[Invitation, ...]
    """Those to teams that wait for them, the oldest first."""
    orgs: tuple[OrgView, ...]
    """The personal one first."""
    gaps: tuple[Gap, ...]
    ready: tuple[Call, ...]
    """Once any watched ref can give a box: the calls that take one, in order. Empty until then."""
