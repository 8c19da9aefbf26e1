"""No credential stands where it does not belong: whatever a live Onbe was sent or gave out during a test is looked for
in every answer, every log line and every row, the whole of it and each distinctive part.

    with watched(world.deps.db, world.http) as watch:
        …
        await watch.check()
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

import httpx2
import structlog
from structlog.testing import capture_logs

from keel.db import Database
from onbe.names import GRANT_PREFIX

SENT = ("subject_token", "actor_token", "client_assertion", "refresh_token", "token", "client_secret")
"""Parameters of a form that are credentials."""
GIVEN = ("access_token", "refresh_token")
"""Members of a token endpoint's answer that are."""
LEAST = 20
"""What is shorter is a test's nonsense, and may stand anywhere by chance."""
ALL_ROWS = """
    SELECT 'agents' AS place, row_to_json(t)::text AS text FROM agents t
    UNION ALL SELECT 'sponsors', row_to_json(t)::text FROM sponsors t
    UNION ALL SELECT 'tasks', row_to_json(t)::text FROM tasks t
    UNION ALL SELECT 'assertions', row_to_json(t)::text FROM assertions t
    UNION ALL SELECT 'revoked_tokens', row_to_json(t)::text FROM revoked_tokens t
    UNION ALL SELECT 'strangers', row_to_json(t)::text FROM strangers t
    UNION ALL SELECT 'ledger', row_to_json(t)::text FROM ledger t
    UNION ALL SELECT 'ledger_texts', row_to_json(t)::text FROM ledger_texts t
    UNION ALL SELECT 'ledger_sink', row_to_json(t)::text FROM ledger_sink t
"""


def parts(secret: str) -> set[str]:
    """What of a secret would give it away: the beginning and the end of a grant or key, of a token's claims and of its
    signature. All of it is found by any of them.
    """
    pieces = secret.removeprefix(GRANT_PREFIX).split(".")
    pieces = pieces[1:] or pieces
    return {cut for piece in pieces if len(piece) >= LEAST for cut in (piece[:LEAST], piece[-LEAST:])}


class _Lines(logging.Handler):
    """Every line of any logger, before anything is taken out of it."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@dataclass
class Watch:
    """What was sent and answered; `secrets` are those known so far, and a test adds its own with `add`."""

    db: Database
    logged: Sequence[object]
    lines: list[str]
    secrets: set[str] = field(default_factory=set)
    answers: list[tuple[str, str]] = field(default_factory=list)
    """Where an answer came from, and all of it but what belongs there."""

    def add(self, *secrets: str) -> None:
        """Look for these too."""
        self.secrets.update(secret for secret in secrets if len(secret) >= LEAST)

    async def sent(self, request: httpx2.Request) -> None:
        """Note the credentials of a request."""
        self.add(request.headers.get("authorization", "").partition(" ")[2].strip())
        if request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
            form = parse_qsl((await request.aread()).decode("utf-8", "replace"), errors="replace")
            self.add(*(value for name, value in form if name in SENT))

    async def answered(self, response: httpx2.Response) -> None:
        """Note an answer: what it gives out is a secret from then on, and may stand in it."""
        text = (await response.aread()).decode("utf-8", "replace")
        try:
            told = json.loads(text)
        except ValueError:
            told = None
        if isinstance(told, dict) and response.status_code == 200:
            self.add(*(str(told.pop(name)) for name in GIVEN if name in told))
            text = json.dumps(told)
        request = response.request
        self.answers.append(
            (f"{request.method} {request.url.path}: {response.status_code}", f"{response.headers}{text}")
        )

    async def check(self) -> None:
        """Raises AssertionError that names the place, and not the secret."""
        places = [(f"the answer to {where}", text) for where, text in self.answers]
        places += [("a log line", text) for text in [*map(str, self.logged), *self.lines]]
        # By a connection of its own: a test may have closed the others.
        async with Database(self.db.url, size=1) as db, db.look() as tx:
            for row in await tx.rows(ALL_ROWS):
                places += [(f"a row of {row['place']}", row["text"])]
        looked_for = {piece: secret[:12] for secret in self.secrets for piece in parts(secret)}
        leaks = {
            f"{where} holds a part of the secret {begin}…"
            for where, text in places
            for piece, begin in looked_for.items()
            if piece in text
        }
        assert not leaks, "\n".join(sorted(leaks))


@contextmanager
def watched(db: Database, *clients: httpx2.AsyncClient) -> Iterator[Watch]:
    """Watch what goes through some clients, and what is logged meanwhile."""
    handler, root = _Lines(), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    configured = structlog.get_config()  # an earlier test may have had a level set, below which nothing would be seen
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG))
    try:
        with capture_logs(processors=[structlog.processors.format_exc_info]) as logged:
            watch = Watch(db, logged, handler.lines)
            for client in clients:
                hooks = client.event_hooks
                client.event_hooks = {
                    "request": [*hooks["request"], watch.sent],
                    "response": [*hooks["response"], watch.answered],
                }
            yield watch
    finally:
        structlog.configure(**configured)
        root.removeHandler(handler)
        root.setLevel(level)
