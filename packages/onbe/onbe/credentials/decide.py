"""Whether a token is good at this moment. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onbe.credentials.model import Active, Found, Inactive

UNKNOWN = Inactive()
"""Expired, another's, garbage, or of a task that is over by itself: nothing is told of it (RFC 7662, 2.2)."""


def decide_standing(claims: Mapping[str, Any], found: Found) -> Active | Inactive:
    """How a token stands that we signed and that has not expired.

    A task that ended took all delegated from it along, so its own end is all there is to look at.
    """
    if not found.task or found.end == "expired":
        return UNKNOWN
    if found.end == "revoked":
        return Inactive(found.ended_at, found.end_reason)
    if found.revoked_at is not None:
        return Inactive(found.revoked_at, found.revoked_reason)
    return Active(claims) if found.enabled else UNKNOWN
