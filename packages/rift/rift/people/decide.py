"""What may be an address, a client's name and a team's name, and which change leaves a team without an admin. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from keel.refusal import Refusal
from rift.names import PERSONAL
from rift.people import refusals
from rift.people.model import Person, Role, User
from rift.secrecy import without_secrets

CLIENT_MOST = 64
"""The longest name of a client, in characters."""

TEAM_MOST = 64
"""The longest name of a team, in characters."""

_EMAIL_MOST = 254
_LOCAL_MOST = 64
_EMAIL = re.compile(
    r"[^\s@<>()\[\],;:\\\"]+@(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]*[a-z0-9])?",
    re.IGNORECASE | re.ASCII,
)


def email_of(text: str) -> str | None:
    """The address without the blanks around it, or None when it is none.

    One `@`, something printable before it, a host name after it. A host without a dot (`admin@localhost`) is taken:
    whether mail arrives is not decided here. One with a capital that is not its letter's own is not taken, as the
    Kelvin sign is not that of k: where case is disregarded it would be the address of somebody else.
    """
    email = text.strip()
    local = email.partition("@")[0]
    if len(email) > _EMAIL_MOST or len(local) > _LOCAL_MOST or not email.isprintable():
        return None
    if any(c.lower() != c and c.lower().upper() != c for c in email):
        return None
    return email if _EMAIL.fullmatch(email) else None


def client_of(text: str) -> str:
    """A client's name fit for a list: one trimmed line of at most 64 printable characters. May be empty."""
    line = "".join(" " if character.isspace() else character for character in without_secrets(text))
    kept = "".join(character for character in line if not unicodedata.category(character).startswith("C"))
    return " ".join(kept.split())[:CLIENT_MOST].strip()


def team_of(text: str) -> str | None:
    """A team's name as it is kept, or None when it cannot be one.

    One line of at most 64 characters, in the one form that Unicode has for what looks alike (NFKC), so that it can be
    typed again; with a letter or a digit; neither `personal` nor an address, which name a person's own organization.
    """
    line = unicodedata.normalize("NFKC", "".join(c if c.isprintable() else " " for c in without_secrets(text)))
    name = " ".join(line.split())
    if not 1 <= len(name) <= TEAM_MOST or not any(c.isalnum() for c in name) or not name.isprintable():
        return None
    return None if name.lower() == PERSONAL or "@" in name else name


def decide_role(team: str, people: Sequence[Person], email: str, role: Role | None) -> Person | Refusal:
    """The member whose role becomes `role` (None: who is to leave), unless the team would be left without an admin.

    Somebody who was put out can do nothing, so they do not count as the admin that stays.
    """
    who = next((one for one in people if one.email.lower() == email.strip().lower()), None)
    if who is None:
        return refusals.no_such_member(email.strip(), team)
    stays = any(one.role == "admin" and not one.disabled for one in people if one.user != who.user)
    if who.role == "admin" and role != "admin" and not stays:
        return refusals.last_team_admin(who.email, team)
    return who


def decide_platform(admins: Sequence[User], user: User) -> Refusal | None:
    """Whether a Rift with these platform admins has one left without this person."""
    left = [one for one in admins if one.id != user.id]
    was = any(one.id == user.id for one in admins)
    return refusals.last_platform_admin(user.email) if was and not left else None
