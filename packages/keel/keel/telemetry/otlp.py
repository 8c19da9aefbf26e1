"""The recorder that sends spans to an OpenTelemetry collector, by OTLP over HTTP.

Imported only where one is configured. Spans wait in a bounded queue; a thread of the SDK's own sends them. When the
collector is away they are dropped, and nobody waits: that it is away is said once a minute.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from datetime import datetime

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from keel.telemetry.tracing import ATTRIBUTES, Fact, Kind, Place

SEND_SECONDS = 3.0
"""How long one batch may take to be taken."""
QUIET_SECONDS = 60.0
KINDS = {
    "internal": trace.SpanKind.INTERNAL,
    "server": trace.SpanKind.SERVER,
    "consumer": trace.SpanKind.CONSUMER,
    "producer": trace.SpanKind.PRODUCER,
}


class Otlp:
    """Spans of this service, and of others on whose behalf it speaks.

    `endpoint` is the collector's base address, as `http://127.0.0.1:4318`; None leaves it, and all else, to the
    standard OTEL_* variables. The SDK's own default provider is left alone, so that libraries trace nothing.
    """

    def __init__(self, endpoint: str | None, service: str, others: tuple[str, ...] = (), version: str = "") -> None:
        url = f"{endpoint.rstrip('/')}/v1/traces" if endpoint else None
        _quiet()
        self._sender = BatchSpanProcessor(OTLPSpanExporter(url, timeout=SEND_SECONDS), schedule_delay_millis=1000)
        self._tracers = {"": self._tracer(service, version)}
        self._tracers.update((other, self._tracer(other, version)) for other in others)

    def _tracer(self, service: str, version: str) -> trace.Tracer:
        provider = TracerProvider(
            resource=Resource.create({"service.name": service, "service.version": version}),
            shutdown_on_exit=False,
            span_limits=SpanLimits(max_span_attributes=len(ATTRIBUTES)),
        )
        provider.add_span_processor(self._sender)
        return provider.get_tracer(service)

    def begin(self, service: str, name: str, kind: Kind, parent: Place | None, since: datetime | None) -> _Begun:
        """As `tracing.Recorder` says. Raises KeyError for a service that was not named."""
        context = trace.set_span_in_context(trace.NonRecordingSpan(_context(parent)))
        span = self._tracers[service].start_span(
            name, context, KINDS[kind], start_time=_ns(since), record_exception=False, set_status_on_exception=False
        )
        return _Begun(span)

    def close(self, seconds: float) -> None:
        """Send what there is. A collector that does not answer is waited for so long and no longer."""
        closing = threading.Thread(target=self._sender.shutdown, daemon=True, name="otlp-close")
        closing.start()
        closing.join(seconds)


class _Begun:
    __slots__ = ("_span",)

    def __init__(self, span: trace.Span) -> None:
        self._span = span

    @property
    def place(self) -> Place:
        context = self._span.get_span_context()
        return Place(context.trace_id, context.span_id, bool(context.trace_flags & trace.TraceFlags.SAMPLED))

    def set(self, facts: Mapping[str, Fact]) -> None:
        self._span.set_attributes(facts)

    def end(self, at: datetime | None, error: str | None) -> None:
        if error is not None:
            self._span.set_attribute(ATTRIBUTES["error"], error)
            self._span.set_status(trace.Status(trace.StatusCode.ERROR))
        self._span.end(_ns(at))


def _context(place: Place | None) -> trace.SpanContext:
    if place is None:
        return trace.INVALID_SPAN_CONTEXT
    flags = trace.TraceFlags(trace.TraceFlags.SAMPLED if place.sampled else trace.TraceFlags.DEFAULT)
    return trace.SpanContext(place.trace, place.span, is_remote=True, trace_flags=flags)


def _ns(at: datetime | None) -> int | None:
    return None if at is None else round(at.timestamp() * 1_000_000) * 1000


def _quiet() -> None:
    """Let the SDK say at most a line a minute: a collector that is away is one piece of news, not one a second."""
    said = 0.0

    def now_and_then(record: logging.LogRecord) -> bool:
        nonlocal said
        if record.created < said + QUIET_SECONDS:
            return False
        said = record.created
        return True

    for name in ("opentelemetry.exporter", "opentelemetry.sdk"):
        for found in [name, *(one for one in logging.root.manager.loggerDict if one.startswith(f"{name}."))]:
            logger = logging.getLogger(found)  # a filter hears its own logger alone, not those below it
            logger.filters = [now_and_then]
