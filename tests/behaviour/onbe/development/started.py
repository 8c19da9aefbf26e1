"""An Onbe as `onbe serve` composes it, in this process, over a real port."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.wire.serving import serving

from keel.testing.plugin import FreshDatabase
from onbe import app
from onbe.deps import Deps
from onbe.serving import web
from onbe.settings import OnbeSettings

ADMIN_KEY = "an-admin-key-of-tests-0123456789abcdef"


def settings_of(port: int, **sections: Mapping[str, Any]) -> OnbeSettings:
    """Settings of a server on a port of loopback. Contradictions fail the test."""
    made = OnbeSettings.model_validate({"server": {"port": port}, "admin": {"keys": (ADMIN_KEY,)}, **sections})
    assert list(made.contradictions()) == []
    return made


@asynccontextmanager
async def started(database: FreshDatabase, data: Path, **sections: Mapping[str, Any]) -> AsyncIterator[Deps]:
    """Serve while the block lasts; `deps.settings.issuer` is its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        settings = settings_of(listening.getsockname()[1], **sections)
        async with app.connect(settings, data, database.runtime) as deps, serving(web(deps), listening):
            yield deps
