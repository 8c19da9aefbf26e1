"""What is decided of agents and of the people they act for: plain values in, a decision or a refusal out."""

from __future__ import annotations

from keel.refusal import Refusal, Stop
from onbe.directory import refusals
from onbe.directory.model import Sponsor


def decide_lift(sponsor: Sponsor | None, source: str) -> Refusal | None:
    """May `source` lift a block of this person? Only one that it placed itself."""
    if sponsor is None or not sponsor.blocked:
        return refusals.not_blocked(Stop())
    if source not in sponsor.blocks:
        return refusals.block_of_another(Stop(), source=", ".join(sorted(sponsor.blocks)))
    return None
