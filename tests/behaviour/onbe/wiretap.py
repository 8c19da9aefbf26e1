"""What goes over the wire to Postgres, counted by libpq itself."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise

from psycopg import pq

from keel.db import Database

OURS, THEIRS = "F", "B"


@dataclass
class Wire:
    """What was said during a block; filled when it ends."""

    said: list[tuple[str, str]] = field(default_factory=list)
    """Direction and message, as `("F", "Execute")`."""

    @property
    def statements(self) -> int:
        """How many statements were run, BEGIN and COMMIT among them."""
        return sum(message in ("Execute", "Query") for direction, message in self.said if direction == OURS)

    @property
    def trips(self) -> int:
        """How often the server was waited for."""
        turns = [direction for direction, _ in self.said]
        return sum(before == OURS and after == THEIRS for before, after in pairwise(turns))


@asynccontextmanager
async def tapped(db: Database) -> AsyncIterator[Wire]:
    """Listen to a pool that has one connection."""
    wire = Wire()
    with tempfile.TemporaryFile("w+") as file:
        async with db.look() as tx:
            connection = tx.connection.pgconn
        connection.trace(file.fileno())
        connection.set_trace_flags(pq.Trace.SUPPRESS_TIMESTAMPS)
        try:
            yield wire
        finally:
            connection.untrace()
            file.seek(0)
            for line in file:
                direction, _, message, *_ = [*line.split("\t"), "", ""]
                if direction in (OURS, THEIRS):
                    wire.said.append((direction, message.strip()))
