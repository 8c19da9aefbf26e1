"""A worker that is given a port answers whoever watches it, on loopback, until its signal comes."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest
import structlog
from tests.wire.whole import whole_rift

from keel.testing import eventually
from keel.testing.plugin import FreshDatabase
from rift import serving
from rift.settings import RiftSettings, TelemetrySettings


@pytest.fixture
def logs_as_before() -> Iterator[None]:
    """A worker sets the logs of its whole process, which is the tests' here."""
    root, kept = logging.getLogger(), structlog.get_config()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.configure(**kept)
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.usefixtures("logs_as_before")
async def test_a_worker_with_a_port_tells_its_own_numbers_and_ends_at_its_signal(
    database: FreshDatabase, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = RiftSettings(telemetry=TelemetrySettings(worker_port=port))
    async with whole_rift(database, tmp_path) as whole, httpx2.AsyncClient() as http:
        working = asyncio.create_task(serving.work_until_signal(replace(whole.deps, settings=settings)))

        async def ready() -> bool:
            try:
                return (await http.get(f"http://127.0.0.1:{port}/readyz")).status_code == 200
            except httpx2.TransportError:
                return False

        await eventually(ready, within=20, every=0.1)
        page = await http.get(f"http://127.0.0.1:{port}/metrics")
        assert "rift_jobs_total" in page.text
        assert page.headers["x-request-id"].startswith("r-")
        assert (await http.post(f"http://127.0.0.1:{port}/mcp")).status_code == 404
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(working, 20)
        with pytest.raises(httpx2.TransportError):
            await http.get(f"http://127.0.0.1:{port}/healthz")
