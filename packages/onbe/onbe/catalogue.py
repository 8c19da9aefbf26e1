"""Why something is refused: the closed list of reasons, each declared by its noun's `refusals.py`.

A reason is what stands on the record (`outcome`); the error of OAuth that it becomes is the business of
`wire/refusals.py`.
"""

from __future__ import annotations

from keel.refusal import Kind, kind

REASONS: dict[str, Kind] = {}
"""Every reason, by its code. Filled when the nouns' `refusals.py` are imported."""


def reason(code: str, sentence: str) -> Kind:
    """Declare a reason. `sentence` is a format string over named facts. Raises ValueError on a code used twice."""
    return kind(code, sentence, REASONS)
