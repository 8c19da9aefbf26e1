"""What may stand in an item of feedback, and how many a draft holds. Pure: facts in, a decision out."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import replace

from keel.refusal import Refusal
from rift.feedback import refusals
from rift.feedback.model import Said
from rift.secrecy import without_secrets

ITEMS_MOST = 10
"""Of one call (contract: Feedback, and the docs)."""
DRAFT_MOST = 100
TEXT_MOST = 4000
CONTEXT_MOST = 4000

_TURNING = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""What turns the direction of the text around it: it could make one item look like another."""


def clean(said: Said) -> Said:
    """The item without secrets, without what no page can show, and without the blanks around it."""
    return replace(said, text=_clean(said.text), context=_clean(said.context))


def decide_item(said: Said) -> Refusal | None:
    """None for an item (cleaned) that can be kept."""
    if not said.text:
        return refusals.no_text()
    for part, text, most in (("text", said.text, TEXT_MOST), ("context", said.context, CONTEXT_MOST)):
        if len(text) > most:
            return refusals.too_long(part, len(text), most)
    return None


def decide_room(held: int, more: int) -> Refusal | None:
    """None where a draft of `held` items has room for so many more."""
    return refusals.full(held, DRAFT_MOST) if held + more > DRAFT_MOST else None


def _clean(text: str) -> str:
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    kept = "".join(one for one in lines if one in "\n\t" or unicodedata.category(one) not in ("Cc", "Cs"))
    return without_secrets(_TURNING.sub("", kept)).strip()
