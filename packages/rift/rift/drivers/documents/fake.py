"""Documents that a test lays out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keel.db import forbid_in_transaction
from rift.drivers.documents.protocol import Document, DocumentUnavailable


class FakeDocuments:
    """`Documents` in memory: `there` by address; `read_at` is what was asked for."""

    def __init__(self) -> None:
        self.there: dict[str, Mapping[str, Any]] = {}
        self.max_age: float | None = None
        self.read_at: list[str] = []

    async def read(self, url: str) -> Document:
        forbid_in_transaction("a look at a client's document")
        self.read_at.append(url)
        if url not in self.there:
            raise DocumentUnavailable("it answered with the status 404")
        return Document(self.there[url], self.max_age)
