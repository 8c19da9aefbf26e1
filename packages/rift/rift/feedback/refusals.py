"""What is refused about feedback."""

from __future__ import annotations

from keel.refusal import Ask, Refusal, kind

_NO_TEXT = kind("feedback_no_text", "An item of feedback needs a text.")
_TOO_LONG = kind("feedback_too_long", "The {part} of an item has {count} characters; it may have {most}.")
_FULL = kind("feedback_full", "The feedback draft holds {held} items, and {most} are the most: nothing was added.")
_NO_SUCH_ITEM = kind("no_such_feedback", "There is no such item of feedback here any more.")
_NONE_TICKED = kind("feedback_none_ticked", "No item of the draft was ticked, so nothing was submitted.")

PAGE = "/app/feedback"


def no_text() -> Refusal:
    """Nothing is left of it once blanks are."""
    return _NO_TEXT(Ask("whoever wrote it", "say in the text what happened, or what is wanted"))


def too_long(part: str, count: int, most: int) -> Refusal:
    """`part` is `text` or `context`."""
    return _TOO_LONG(Ask("whoever wrote it", "say it in fewer words"), part=part, count=count, most=most)


def full(held: int, most: int) -> Refusal:
    """There is no room in the draft for all of what came."""
    return _FULL(Ask("your user", f"submit or drop items on the Feedback page, {PAGE}"), held=held, most=most)


def no_such_item() -> Refusal:
    """Not there, submitted, or somebody else's: not told apart."""
    return _NO_SUCH_ITEM(Ask("yourself", "load the page again, which shows what there is"))


def none_ticked() -> Refusal:
    """Or what was ticked is submitted or dropped by now."""
    return _NONE_TICKED(Ask("yourself", f"tick the items to submit on {PAGE}"))
