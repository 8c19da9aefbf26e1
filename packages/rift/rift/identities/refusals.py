"""What signing in elsewhere is refused with."""

from __future__ import annotations

from keel.refusal import Ask, Refusal, Retry, kind
from rift.people.model import OPERATOR

_NO_SIGN_ON = kind("no_sign_on", "This Rift has no single sign-on.")
_SIGN_ON_AWAY = kind("sign_on_away", "The other sign-in, {name}, cannot be asked at the moment.")
_SIGN_ON_REFUSED = kind(
    "sign_on_refused", "The other sign-in, {name}, did not sign you in, or what it sent back cannot be believed."
)
_SIGN_ON_UNVERIFIED = kind(
    "sign_on_unverified",
    "The other sign-in, {name}, has no verified email address of yours, and Rift knows its people by that.",
)
_SIGN_ON_TAKEN = kind("sign_on_taken", "The account of {email} belongs to somebody else at {name}.")
_SIGN_ON_UNKNOWN = kind("sign_on_unknown", "{email} has no account here, and no invitation to make one.")
_NO_SUCH_IDENTITY = kind("no_such_identity", "Your account has no such sign-on: it was unlinked, or is none of yours.")

_LINK = "a link by mail signs you in, too: /sign-in"


def no_sign_on() -> Refusal:
    """None is set."""
    return _NO_SIGN_ON(Ask("yourself", _LINK), Ask(OPERATOR, "`Rift:SignIn:OidcIssuer` sets one up"))


def sign_on_away(name: str) -> Refusal:
    """The provider does not answer, or not as it should."""
    return _SIGN_ON_AWAY(Retry(30), Ask("yourself", _LINK), Ask(OPERATOR, "Rift's log says why"), name=name)


def sign_on_refused(name: str) -> Refusal:
    """It said no, or a token of its is not right: what exactly is in the log."""
    return _SIGN_ON_REFUSED(Ask("yourself", "begin anew on /sign-in"), Ask(OPERATOR, "Rift's log says why"), name=name)


def sign_on_unverified(name: str) -> Refusal:
    """An address that anybody could have typed in there is nobody's."""
    return _SIGN_ON_UNVERIFIED(Ask("yourself", f"have your address verified there, or: {_LINK}"), name=name)


def sign_on_taken(email: str, name: str) -> Refusal:
    """An address that has changed hands there does not take the account along."""
    return _SIGN_ON_TAKEN(
        Ask("the platform admin", "whether this account is yours"),
        Ask("yourself", f"if it is, unlink the other one on /app/account; {_LINK}"), email=email, name=name,
    )  # fmt: skip


def sign_on_unknown(email: str) -> Refusal:
    """Whom nobody has invited."""
    return _SIGN_ON_UNKNOWN(
        Ask("the platform admin", f"to invite {email}: rift_account_invite, or `rift user add {email}`"), email=email
    )


def no_such_identity() -> Refusal:
    """Unknown and somebody else's are one."""
    return _NO_SUCH_IDENTITY(Ask("yourself", "/app/account lists what is linked"))
