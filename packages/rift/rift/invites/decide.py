"""Which invitation somebody means, and what the waitlist keeps and is asked for. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime

from rift.invites.model import Invitation
from rift.secrecy import without_secrets

OPEN_MOST = 200
"""The most open invitations of one team."""
DAY_MOST = 200
"""So many invitations may one person make in a day: who is invited gets a letter, whether they want one or not."""
LIMIT = 50
LIMIT_MOST = 500
"""How many of the waitlist are told at once, by default and at most (contract: rift_waitlist)."""
NAME_MOST = 100
NOTE_MOST = 1000
"""The longest name and note on the waitlist, in characters; what is longer is cut."""


def decide_meant(asked: str, invitations: Sequence[Invitation]) -> Invitation | None:
    """The invitation to a team that `asked` means: its id, or the team's name whatever its case."""
    wanted = " ".join(asked.split())
    for one in invitations:
        if one.org is not None and one.id == wanted:
            return one
    return next((one for one in invitations if one.team is not None and one.team.lower() == wanted.lower()), None)


def line_of(text: str, most: int) -> str:
    """What somebody wrote, as one line of at most so many characters, without a secret that they took for something."""
    return " ".join("".join(c if c.isprintable() else " " for c in without_secrets(text)).split())[:most].rstrip()


def since_of(text: str) -> datetime | None:
    """The instant that a UTC date (`2026-11-30`) or an RFC 3339 instant means; one without an offset is in UTC."""
    given = text.strip().upper()
    try:
        if len(given) == len("2026-11-30"):
            day = date.fromisoformat(given)
            return datetime(day.year, day.month, day.day, tzinfo=UTC)
        instant = datetime.fromisoformat(given)
        return instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
