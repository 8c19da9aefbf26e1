"""Handing sealed records on to whoever keeps them too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class NotTaken(Exception):
    """The sink did not take the lines, or nobody knows whether it did. The text is for a log; no secret is in it."""


class Sink(Protocol):
    """A receiver of lines, each a JSON object without its line break."""

    async def deliver(self, lines: Sequence[bytes]) -> None:
        """Have it take all of the lines, in their order. Raises NotTaken: they come again, so it may see some twice."""
