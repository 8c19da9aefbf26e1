"""Log lines and traces of a process, as the settings want them. Any process that serves or works enters `telling`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

from keel.telemetry import telling as told
from rift.names import AGENT
from rift.secrecy import for_logs
from rift.settings import RiftSettings

SERVICE = "rift"


def telling(settings: RiftSettings, environment: Mapping[str, str]) -> AbstractContextManager[None]:
    """Log and trace for the length of the block."""
    log, endpoint = settings.log, settings.telemetry.otlp_endpoint
    return told.telling(told.Voice(SERVICE, log.format, log.level, for_logs, endpoint, (AGENT,)), environment)
