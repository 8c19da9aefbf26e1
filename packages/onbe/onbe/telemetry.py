"""Log lines and traces of a process, as the settings want them. Whoever serves enters `telling`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

from keel.telemetry import telling as told
from onbe.secrecy import for_logs
from onbe.settings import OnbeSettings

SERVICE = "onbe"


def telling(settings: OnbeSettings, environment: Mapping[str, str]) -> AbstractContextManager[None]:
    """Log and trace for the length of the block."""
    log, endpoint = settings.log, settings.telemetry.otlp_endpoint
    return told.telling(told.Voice(SERVICE, log.format, log.level, for_logs, endpoint), environment)
