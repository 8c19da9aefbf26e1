"""What a page refuses before its action runs."""

from __future__ import annotations

from keel.refusal import Ask, Refusal, Retry, kind

_FOREIGN_FORM = kind(
    "foreign_form", "This form did not come from a page that Rift has just shown you: nothing was done."
)
_FORM_TOO_LARGE = kind("form_too_large", "This form is larger than {kibibytes} KiB: nothing was done.")
_BAD_FORM = kind("bad_form", "This form cannot be read: nothing was done.")
_TOO_OFTEN = kind("too_often", "Too many requests came from your address in a minute: nothing was done.")
_NO_SUCH_PAGE = kind("no_such_page", "There is no such page, or it is not one that you may see.")


def foreign_form() -> Refusal:
    """Another site sent it, or the page was of another session."""
    return _FOREIGN_FORM(Ask("yourself", "go back, load the page again, and send the form from there"))


def form_too_large(kibibytes: int) -> Refusal:
    """More than any form of ours has."""
    return _FORM_TOO_LARGE(Ask("yourself", "go back and shorten the text"), kibibytes=kibibytes)


def bad_form() -> Refusal:
    """Not a form."""
    return _BAD_FORM(Ask("yourself", "go back, load the page again, and send the form from there"))


def too_often(seconds: int) -> Refusal:
    """One source sends forms without being signed in."""
    return _TOO_OFTEN(Retry(seconds))


def no_such_page() -> Refusal:
    """Not there and not theirs are one."""
    return _NO_SUCH_PAGE(Ask("yourself", "/app shows what there is"))
