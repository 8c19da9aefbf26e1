"""What a call about people is refused with."""

from __future__ import annotations

from collections.abc import Sequence

from keel.refusal import Ask, Call, Mend, Refusal, kind
from rift.people.model import OPERATOR, Membership

_BAD_EMAIL = kind("bad_email", "{email} is not an email address.")
_USER_EXISTS = kind("user_exists", "{email} has an account already.")
_NO_SUCH_USER = kind("no_such_user", "Nobody here has the email address {email}.")
_NO_ADMIN = kind("no_admin", "This Rift has no platform admin yet, so there is nobody to give it to.")
_BAD_CLIENT = kind("bad_client", "A client's name needs at least one printable character.")
_NO_SUCH_TOKEN = kind("no_such_token", "There is no token {token}.")
_NO_SUCH_ORG = kind("no_such_org", "You are in no organization called {org}. The ones you can name: {known}.")
_DISABLED = kind("disabled", "{email} was put out of this Rift: nothing is done for that account.")
_LAST_PLATFORM_ADMIN = kind(
    "last_platform_admin", "{email} is the only platform admin of this Rift, and there is always one."
)
_NEEDS_PLATFORM_ADMIN = kind("needs_platform_admin", "Only the platform admin can do this.")
_TEAM_NAME = kind(
    "team_name",
    "A team's name is 1 to {most} readable characters, one of them a letter or a digit; it is not personal, and no "
    "email address.",
)
_TEAM_EXISTS = kind("team_exists", "There is a team called {team} already, so none was made.")
_TEAM_ALONE = kind("not_a_team", "personal is an organization of one person: nobody is invited to it or leaves it.")
_LAST_TEAM_ADMIN = kind("last_team_admin", "{email} is the only admin of {team}, and a team keeps at least one.")
_NO_SUCH_MEMBER = kind("no_such_member", "{email} is not in {team}.")
_NO_SUCH_TEAM = kind("no_such_team", "This Rift has no team called {team}.")
_NEEDS_ADMIN = kind("needs_admin", "Only an admin of {org} can do this, and you are a member of it.")


def bad_email(email: str, mend: Mend | None = None) -> Refusal:
    """Not an address. `mend` is the same again with one; without it, the command of whoever runs the server."""
    add = Ask(OPERATOR, "`rift user add EMAIL` with an address such as ada@example.org")
    return _BAD_EMAIL(mend or add, email=email or "An empty field")


def user_exists(email: str) -> Refusal:
    """An account of this address was made before."""
    return _USER_EXISTS(
        Ask(
            OPERATOR,
            f"`rift user link {email}` prints a link that signs them in, as the sign-in page's letter does; "
            f"`rift token new --user {email} --client NAME` makes a token",
        ),
        email=email,
    )


def no_such_user(email: str) -> Refusal:
    """No account of this address."""
    return _NO_SUCH_USER(
        Ask(OPERATOR, f"`rift user add {email}` makes the account; `rift user ls` lists those there are"), email=email
    )


def no_admin() -> Refusal:
    """No owner was named and there is no first admin to take."""
    return _NO_ADMIN(Ask(OPERATOR, "`rift user add EMAIL --admin` makes one"))


def bad_client() -> Refusal:
    """Nothing printable is left of the name."""
    return _BAD_CLIENT(Ask(OPERATOR, "`rift token new --user EMAIL --client NAME` with a name such as Claude"))


def no_such_token(token: str) -> Refusal:
    """No token of this id."""
    return _NO_SUCH_TOKEN(Ask(OPERATOR, "`rift token ls` lists the tokens with their ids"), token=token)


def no_such_org(org: str, known: Sequence[Membership]) -> Refusal:
    """Not there and not theirs are one refusal."""
    return _NO_SUCH_ORG(Call("rift_whoami", {}), org=org, known=", ".join(member.name for member in known))


def needs_admin(org: str, ask: str) -> Refusal:
    """Members read, admins change. `ask` is the call to ask an admin for."""
    return _NEEDS_ADMIN(Ask(f"an admin of {org}", ask), org=org)


def disabled(email: str) -> Refusal:
    """A platform admin has put them out."""
    return _DISABLED(Ask("the platform admin", f"`rift user enable {email}` lets them in again"), email=email)


def last_platform_admin(email: str) -> Refusal:
    """Nobody would be left to let anybody in."""
    return _LAST_PLATFORM_ADMIN(Ask(OPERATOR, "`rift user admin EMAIL` makes another one first"), email=email)


def needs_platform_admin(ask: str) -> Refusal:
    """`ask` is what to ask them for."""
    return _NEEDS_PLATFORM_ADMIN(Ask("the platform admin", ask))


def bad_team_name(most: int) -> Refusal:
    """Nothing readable is left of it, it is too long, or it names something else."""
    return _TEAM_NAME(Call("rift_org_new", {"name": "<the team's name>"}), most=most)


def team_exists(team: str, theirs: bool = True) -> Refusal:
    """Names are unique whatever their case. It may be `theirs`, anybody's: nothing else is told of it then."""
    if not theirs:
        return _TEAM_EXISTS(
            Call("rift_repos", {"org": team}), Call("rift_org_new", {"name": "<another name>"}), team=team
        )
    return _TEAM_EXISTS(
        Call("rift_org_new", {"name": "<another name>"}),
        Ask(f"an admin of {team}", Call("rift_org_invite", {"org": team, "email": "<your address>"}).text),
        team=team,
    )


def not_a_team() -> Refusal:
    """What only a team has was wanted of a personal organization."""
    return _TEAM_ALONE(Call("rift_org_new", {"name": "<the team's name>"}))


def last_team_admin(email: str, team: str) -> Refusal:
    """Somebody else has to be an admin first."""
    page = "on the Organization page, make another member an admin first"
    return _LAST_TEAM_ADMIN(Ask(f"an admin of {team}", page), email=email, team=team)


def no_such_member(email: str, team: str) -> Refusal:
    """Not there, or not any more."""
    return _NO_SUCH_MEMBER(Call("rift_whoami"), email=email, team=team)


def no_such_team(team: str) -> Refusal:
    """Told to whoever runs the server, who sees all teams."""
    return _NO_SUCH_TEAM(Ask(OPERATOR, "`rift org ls` lists the teams"), team=team)
