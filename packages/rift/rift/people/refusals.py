"""What a call about people is refused with."""

from __future__ import annotations

from collections.abc import Sequence

from keel.refusal import Ask, Call, Refusal, kind
from rift.people.model import OPERATOR, Membership

_BAD_EMAIL = kind("bad_email", "{email} is not an email address.")
_USER_EXISTS = kind("user_exists", "{email} has an account already.")
_NO_SUCH_USER = kind("no_such_user", "Nobody here has the email address {email}.")
_NO_ADMIN = kind("no_admin", "This Rift has no platform admin yet, so there is nobody to give it to.")
_BAD_CLIENT = kind("bad_client", "A client's name needs at least one printable character.")
_NO_SUCH_TOKEN = kind("no_such_token", "There is no token {token}.")
_NO_SUCH_ORG = kind("no_such_org", "You are in no organization called {org}. The ones you can name: {known}.")
_DISABLED = kind("disabled", "{email} was put out of this Rift: nothing is done for that account.")
_NEEDS_ADMIN = kind("needs_admin", "Only an admin of {org} can do this, and you are a member of it.")


def bad_email(email: str) -> Refusal:
    """Not an address."""
    return _BAD_EMAIL(Ask(OPERATOR, "`rift user add EMAIL` with an address such as ada@example.org"), email=email)


def user_exists(email: str) -> Refusal:
    """An account of this address was made before."""
    return _USER_EXISTS(
        Ask(OPERATOR, f"`rift token new --user {email} --client NAME` makes a token for it"), email=email
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
