"""What a call about invitations or the waitlist is refused with."""

from __future__ import annotations

from collections.abc import Sequence

from keel.refusal import Ask, Call, Refusal, Retry, kind
from rift.invites.model import Invitation
from rift.people.model import OPERATOR

_ALREADY_MEMBER = kind("already_member", "{email} is in {team} already.")
_NO_INVITATION = kind("no_invitation", "No open invitation of yours is called {org}.{others}")
_NOT_INVITED = kind("not_invited", "{team} has no open invitation {invitation}.")
_INVITATION_OVER = kind(
    "invitation_over", "This invitation is not open any more: it was accepted, declined or withdrawn, or it ran out."
)
_INVITATION_SIGN_IN = kind(
    "invitation_sign_in", "{email} has an account already, and an invitation's link signs in nobody who has one."
)
_INVITATION_LIMIT = kind("invitation_limit", "{team} has {most} open invitations, which is the most at once.")
_INVITED_ENOUGH = kind(
    "invited_enough", "You have invited {most} times within a day, which is the most: each is a letter to somebody."
)
_BAD_SINCE = kind(
    "bad_since", "since is a UTC date, as 2026-11-30, or an instant, as 2026-11-30T12:00:00Z; {since} is neither."
)


def already_member(email: str, team: str) -> Refusal:
    """Nothing is to be invited to or accepted."""
    return _ALREADY_MEMBER(Call("rift_repos", {"org": team}), email=email, team=team)


def no_invitation(org: str, open: Sequence[Invitation]) -> Refusal:
    """Not there, ended, run out and somebody else's are one refusal; `open` are the caller's own."""
    others = f" Open: {', '.join(one.team or '' for one in open)}." if open else " You have none."
    calls = [Call("rift_org_accept", {"org": one.team}) for one in open]
    ask = Ask("an admin of the team", Call("rift_org_invite", {"org": org, "email": "<your address>"}).text)
    return _NO_INVITATION(*calls, ask, org=org, others=others)


def not_invited(invitation: str, team: str) -> Refusal:
    """It ended meanwhile, or never was."""
    return _NOT_INVITED(Ask("yourself", "the Organization page lists the open ones"), invitation=invitation, team=team)


def over() -> Refusal:
    """Told to who has the letter's link: it makes nothing any more."""
    return _INVITATION_OVER(
        Ask("who invited you", "another invitation"),
        Ask("yourself", "the sign-in page sends you a link, if you have an account"),
    )


def sign_in(email: str) -> Refusal:
    """An invitation's link is good for weeks: who has an account shows that it is theirs as at any other time."""
    return _INVITATION_SIGN_IN(Ask("yourself", "sign in, and accept it on the Organizations page"), email=email)


def too_many(team: str, most: int) -> Refusal:
    """Some are to be withdrawn first."""
    page = "on the Organization page, withdraw the invitations that nobody needs any more"
    return _INVITATION_LIMIT(Ask(f"an admin of {team}", page), team=team, most=most)


def enough(most: int) -> Refusal:
    """Who invites ever more addresses writes to strangers through us."""
    return _INVITED_ENOUGH(Retry(3600), Ask(OPERATOR, "`rift org invite` has no such limit"), most=most)


def bad_since(since: str) -> Refusal:
    """Neither a date nor an instant."""
    return _BAD_SINCE(Call("rift_waitlist"), since=since)
