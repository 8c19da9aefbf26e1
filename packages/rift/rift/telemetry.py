"""Log lines and traces of a process, as the settings want them. Any process that serves or works enters `telling`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version

from keel.telemetry import logs, tracing
from rift.names import AGENT
from rift.secrecy import for_logs
from rift.settings import RiftSettings

SERVICE = "rift"
ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
CLOSE_SECONDS = 2.0
"""How long a process that ends waits for a collector."""


@contextmanager
def telling(settings: RiftSettings, environment: Mapping[str, str]) -> Iterator[None]:
    """Log and trace for the length of the block."""
    logs.configure(settings.log.format, settings.log.level, for_logs)
    if wanted(settings, environment):
        from keel.telemetry.otlp import Otlp  # 0.2 s and 15 MB, for those who asked for it

        tracing.start(Otlp(settings.telemetry.otlp_endpoint, SERVICE, (AGENT,), version("rift")))
    try:
        yield
    finally:
        tracing.stop(CLOSE_SECONDS)


def wanted(settings: RiftSettings, environment: Mapping[str, str]) -> bool:
    """Whether traces are to be sent: by our setting, or by the standard variables."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if settings.telemetry.otlp_endpoint is not None:
        return True
    exporter = environment.get("OTEL_TRACES_EXPORTER", "otlp").strip().lower()
    return exporter in ("", "otlp") and any(environment.get(name, "").strip() for name in ENDPOINTS)
