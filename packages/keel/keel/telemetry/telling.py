"""Log lines and traces of a process, for as long as it serves or works."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version

from keel.telemetry import logs, tracing

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
CLOSE_SECONDS = 2.0
"""How long a process that ends waits for a collector."""


@dataclass(frozen=True, slots=True)
class Voice:
    """How a process tells what it does: its lines, and where its traces go (None: as the OTEL_* variables say)."""

    service: str
    form: logs.Format
    level: logs.Level
    scrub: logs.Scrub
    endpoint: str | None
    others: tuple[str, ...] = ()
    """Services on whose behalf it speaks."""


@contextmanager
def telling(voice: Voice, environment: Mapping[str, str]) -> Iterator[None]:
    """Log and trace for the length of the block."""
    logs.configure(voice.form, voice.level, voice.scrub)
    if wanted(voice.endpoint, environment):
        from keel.telemetry.otlp import Otlp  # 0.2 s and 15 MB, for those who asked for it

        tracing.start(Otlp(voice.endpoint, voice.service, voice.others, version(voice.service)))
    try:
        yield
    finally:
        tracing.stop(CLOSE_SECONDS)


def wanted(endpoint: str | None, environment: Mapping[str, str]) -> bool:
    """Whether traces are to be sent: by our setting, or by the standard variables."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if endpoint is not None:
        return True
    exporter = environment.get("OTEL_TRACES_EXPORTER", "otlp").strip().lower()
    return exporter in ("", "otlp") and any(environment.get(name, "").strip() for name in ENDPOINTS)
