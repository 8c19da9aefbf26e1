"""What reads a client's document. Source: OAuth Client ID Metadata Document (draft), 4 and 6."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


class DocumentUnavailable(Exception):
    """The document cannot be had now. The text says why, for a person; it holds nothing that was fetched."""


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON object, and for how many seconds its server says that it is fresh; None where it says nothing."""

    value: Mapping[str, Any]
    max_age: float | None


class Documents(Protocol):
    """Documents by address."""

    async def read(self, url: str) -> Document:
        """The JSON object at an https address. Raises DocumentUnavailable.

        Goes to public addresses alone, or to networks that the operator named; checks what it connects to, not a name;
        follows no redirect, reads 64 KiB and waits 5 s at most. Raises RuntimeError inside a transaction.
        """
