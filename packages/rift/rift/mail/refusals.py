"""What is refused about letters and one-time links."""

from __future__ import annotations

from keel.refusal import Ask, Refusal, kind
from rift.people.model import OPERATOR

_LINK_OVER = kind("link_over", "This link is not good any more: a link works once, and not for long.")
_NO_SUCH_LETTER = kind("no_such_letter", "There is no such letter, or it is sent already.")
_LETTER_IS_OVER = kind("letter_is_over", "There is nothing left to write to them: {why}.")
_NO_MAIL_SERVER = kind("no_mail_server", "No mail server is set: letters wait on the Mailbox page and are not sent.")
_LETTER_NOT_SENT = kind("letter_not_sent", "The letter was not sent: {why}.")


def no_such_letter() -> Refusal:
    """Erased, discarded, sent, or never written."""
    return _NO_SUCH_LETTER(Ask("yourself", "/app/mailbox lists the letters that there are"))


def letter_is_over(why: str) -> Refusal:
    """Whom it was for is not to get it any more."""
    return _LETTER_IS_OVER(Ask("yourself", "discard it on /app/mailbox"), why=why)


def no_mail_server() -> Refusal:
    """Rift:Mail:Host is not set."""
    return _NO_MAIL_SERVER(Ask(OPERATOR, "set Rift:Mail:Host and Rift:Mail:Sender, as docs/mail.md tells"))


def letter_not_sent(why: str) -> Refusal:
    """What the mail server said to a trial letter."""
    return _LETTER_NOT_SENT(Ask(OPERATOR, "mend Rift:Mail:… as the sentence says; docs/mail.md tells more"), why=why)


def link_over() -> Refusal:
    """Unknown, used and expired are not told apart."""
    return _LINK_OVER(
        Ask("yourself", "the sign-in page sends you another"),
        Ask(OPERATOR, "`rift user link EMAIL` prints another"),
    )
