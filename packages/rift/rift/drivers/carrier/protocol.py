"""What carries one request to an origin over HTTP, both bodies streamed. It keeps nothing, and follows no redirect: the
credential in a request goes where the request says, and nowhere else.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol


class CarrierError(Exception):
    """An origin could not be reached, or went away in the middle. `reason` is fit to be shown, and holds no secret."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Carried:
    """An origin's answer: its status, its headers by lower-case name, and its body as it comes. Reading raises
    CarrierError.
    """

    status: int
    headers: Mapping[str, str] = field(repr=False)
    parts: AsyncIterator[bytes] = field(repr=False)


class Carrier(Protocol):
    """Raises CarrierError, and only that; never inside a database transaction."""

    @property
    def kind(self) -> str:
        """`http` or `fake`."""

    def carry(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: AsyncIterator[bytes] | None = None,
        *,
        outside: bool = False,
    ) -> AbstractAsyncContextManager[Carried]:
        """The answer to one request, for the length of the block; left early, the request is broken off.

        `outside`: somebody else chose the address, which may be one of the open internet or of an opened network alone.

        The body goes in chunks unless `headers` say its length. What the body's iterator raises comes out as it is.
        """
