"""One question to a directory over HTTP, within bounds: as `keel.fetching` has them, in the words of a directory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx2

from keel import fetching
from keel.fetching import ANSWER_BYTES
from onbe.drivers.sponsors.protocol import CannotAnswer, Unreachable

__all__ = ["ANSWER_BYTES", "ID_LENGTH", "Reply", "client_for", "fetched", "sayable", "segment"]

ID_LENGTH = 512
"""The longest name of a person that is asked about."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: its status, and its body as it came."""

    status: int
    body: bytes

    def document(self) -> Mapping[str, Any]:
        """The body as a JSON object. Raises CannotAnswer for any other, or one that says a thing twice."""
        try:
            return fetching.Reply(self.status, self.body).document()
        except fetching.BadAnswer as error:
            raise CannotAnswer(str(error)) from None

    def document_if_any(self) -> Mapping[str, Any]:
        """The same; empty where there is no body at all."""
        return self.document() if self.body.strip() else {}


def client_for(url: str, seconds: float) -> httpx2.AsyncClient:
    """A client for the directory at `url`. It follows no redirect, keeps no cookie, asks for nothing compressed."""
    return fetching.client_for(url, seconds, "onbe")


async def fetched(client: httpx2.AsyncClient, request: httpx2.Request) -> Reply:
    """The answer to a request, in whatever time it takes: the caller bounds it.

    Raises Unreachable for no answer; CannotAnswer for a body that is too long or compressed. No text of either holds
    anything that was sent or received.
    """
    try:
        reply = await fetching.fetched(client, request, "the directory")
    except fetching.NoAnswer as error:
        raise Unreachable(str(error), anyone=error.anyone) from None
    except fetching.BadAnswer as error:
        raise CannotAnswer(str(error)) from None
    return Reply(reply.status, reply.body)


def segment(person: str) -> str:
    """A person's id as one segment of a path. Raises CannotAnswer for what no path can carry safely."""
    if person in (".", ".."):
        raise CannotAnswer("the person's id is one that paths give a meaning of its own")
    return quote(sayable(person), safe="")


def sayable(person: str) -> str:
    """The id itself. Raises CannotAnswer for one that is empty, too long, or holds what is no printable text."""
    if not 0 < len(person) <= ID_LENGTH or not person.isprintable():
        raise CannotAnswer("the person's id is empty, too long or not printable: no directory is asked about it")
    return person
