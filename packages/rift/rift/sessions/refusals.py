"""What signing in is refused with."""

from __future__ import annotations

from keel.refusal import Ask, Refusal, kind

_SIGN_IN_OVER = kind("sign_in_over", "This was begun too long ago, was ended already, or was begun in another browser.")
_NO_SUCH_SESSION = kind("no_such_session", "You are not signed in there: this session is over, or none of yours.")


def sign_in_over() -> Refusal:
    """Not begun here, begun too long ago and used are not told apart."""
    return _SIGN_IN_OVER(Ask("yourself", "load the page again, and begin anew"))


def no_such_session() -> Refusal:
    """Over, unknown and somebody else's are one."""
    return _NO_SUCH_SESSION(Ask("yourself", "/app/account lists where you are signed in"))
