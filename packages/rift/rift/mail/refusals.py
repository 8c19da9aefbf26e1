"""What a one-time link is refused with."""

from __future__ import annotations

from keel.refusal import Ask, Refusal, kind
from rift.people.model import OPERATOR

_LINK_OVER = kind("link_over", "This link is not good any more: a link works once, and not for long.")


def link_over() -> Refusal:
    """Unknown, used and expired are not told apart."""
    return _LINK_OVER(
        Ask("yourself", "the sign-in page sends you another"),
        Ask(OPERATOR, "`rift user link EMAIL` prints another"),
    )
