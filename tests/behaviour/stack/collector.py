"""An OpenTelemetry collector of the test's own: it takes OTLP over HTTP, as the protocol's own messages."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class Seen:
    """A span as it arrived."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    start: int
    end: int
    facts: dict[str, Any]


@dataclass
class Collector:
    """Where it is, what it was sent, and every byte of it."""

    url: str = ""
    spans: list[Seen] = field(default_factory=list)
    raw: bytes = b""

    def take(self, body: bytes) -> None:
        sent = ExportTraceServiceRequest.FromString(body)
        self.raw += body
        for resource in sent.resource_spans:
            named = {one.key: one.value.string_value for one in resource.resource.attributes}
            for scope in resource.scope_spans:
                for span in scope.spans:
                    facts = {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}
                    self.spans.append(
                        Seen(named["service.name"], span.name, span.trace_id.hex(), span.span_id.hex(),
                             span.parent_span_id.hex(), span.start_time_unix_nano, span.end_time_unix_nano, facts)
                    )  # fmt: skip

    def of(self, trace: str) -> dict[tuple[str, str], Seen]:
        """The spans of a trace by service and name; of several of one name, the last."""
        return {(span.service, span.name): span for span in self.spans if span.trace == trace}


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector on loopback for the length of the block."""
    made = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            made.take(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
