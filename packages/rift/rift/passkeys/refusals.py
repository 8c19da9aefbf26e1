"""What is refused about passkeys."""

from __future__ import annotations

from keel.refusal import Ask, Refusal, kind
from rift.people.model import OPERATOR

_NO_PASSKEYS_HERE = kind(
    "no_passkeys_here",
    "Browsers have passkeys for a name over https alone, and this Rift's public address is {address}.",
)
_PASSKEY_NOT_TAKEN = kind(
    "passkey_not_taken",
    "What the passkey answered is not what it was asked here: nobody was signed in, nothing was kept.",
)
_UNKNOWN_PASSKEY = kind("unknown_passkey", "This passkey is of no account here; it may have been removed from one.")
_PASSKEY_COPIED = kind(
    "passkey_copied",
    "This passkey has signed before under a later number: there may be a copy of it, so it is not taken.",
)
_PASSKEY_KNOWN = kind("passkey_known", "This passkey is one that an account here has already.")
_TOO_MANY_PASSKEYS = kind("too_many_passkeys", "You have {count} passkeys, and that is the most.")
_NO_SUCH_PASSKEY = kind("no_such_passkey", "You have no such passkey: it was removed, or is none of yours.")

_PAGE = "/app/account lists your passkeys"


def no_passkeys_here(address: str) -> Refusal:
    """The public address is a number, or not encrypted."""
    return _NO_PASSKEYS_HERE(Ask(OPERATOR, "`Rift:Server:PublicUrl` with an https address"), address=address)


def passkey_not_taken() -> Refusal:
    """Another site's, another question's, not signed, or none: what exactly is not told."""
    return _PASSKEY_NOT_TAKEN(Ask("yourself", "load the page again, and try once more"))


def unknown_passkey() -> Refusal:
    """No account has it, or it is said to be somebody else's."""
    return _UNKNOWN_PASSKEY(Ask("yourself", "sign in by a link, then add a passkey on /app/account"))


def passkey_copied() -> Refusal:
    """Its count went back."""
    return _PASSKEY_COPIED(Ask("yourself", "sign in by a link, and remove this passkey on /app/account"))


def passkey_known() -> Refusal:
    """It was added before."""
    return _PASSKEY_KNOWN(Ask("yourself", _PAGE))


def too_many_passkeys(count: int) -> Refusal:
    """No more for this person."""
    return _TOO_MANY_PASSKEYS(Ask("yourself", f"{_PAGE}: remove one that you do not use"), count=count)


def no_such_passkey() -> Refusal:
    """Unknown and somebody else's are one."""
    return _NO_SUCH_PASSKEY(Ask("yourself", _PAGE))
