"""What a passkey may be called, and when one of its signatures tells of a copy."""

from __future__ import annotations

from rift.people.decide import client_of

PASSKEYS_MOST = 20
"""So many passkeys may one person have."""
UNNAMED = "Passkey"


def name_of(text: str) -> str:
    """A passkey's name fit for a list: one printable line of at most 64 characters."""
    return client_of(text) or UNNAMED


def went_back(stored: int, said: int) -> bool:
    """Whether a sign count shows that there are two of a key. Those that do not count say 0 for ever.

    Source: Web Authentication Level 3, 6.1.1 and 7.2, step 22.
    """
    return (said > 0 or stored > 0) and said <= stored
