"""What this process counts and times, for `/metrics`. What all processes share is read from the database (`health`).

Every label is one of a closed list of ours (a tool, a refusal's code, a route): what a caller made up never becomes
one, so no caller can make the list grow.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from keel.clock import Clock

REGISTRY = CollectorRegistry(auto_describe=True)
PLATFORM = PlatformCollector(REGISTRY), ProcessCollector(registry=REGISTRY), GCCollector(REGISTRY)

QUICK = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
WAITS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 45, 60)

HTTP_REQUESTS = Counter(
    "rift_http_requests", "HTTP requests answered.", ["method", "route", "status"], registry=REGISTRY
)
HTTP_SECONDS = Histogram(
    "rift_http_request_duration_seconds", "HTTP requests, from their head to the last byte of the answer.", ["route"],
    buckets=WAITS, registry=REGISTRY,
)  # fmt: skip
CALLS = Counter("rift_tool_calls", "Tool calls answered, by how.", ["tool", "outcome"], registry=REGISTRY)
CALL_SECONDS = Histogram(
    "rift_tool_call_duration_seconds", "Tool calls, with what they waited for.", ["tool"],
    buckets=WAITS, registry=REGISTRY,
)  # fmt: skip
CALLS_OPEN = Gauge("rift_tool_calls_open", "Tool calls that wait for their answer now.", registry=REGISTRY)
REFUSALS = Counter("rift_refusals", "Refused tool calls, by the refusal's code.", ["tool", "code"], registry=REGISTRY)
POLLS = Gauge("rift_agent_polls_open", "Boxes' agents whose request for work is parked now.", registry=REGISTRY)
COMMANDS = Counter(
    "rift_commands_ended", "Commands whose end an agent told, by how it was.", ["kind", "outcome"], registry=REGISTRY
)
QUEUED_SECONDS = Histogram(
    "rift_command_queue_seconds", "How long commands waited for their box's agent.", ["kind"],
    buckets=(*QUICK, 30, 60, 300, 600), registry=REGISTRY,
)  # fmt: skip
CLAIM_SECONDS = Histogram(
    "rift_box_claim_seconds", "How long rift_vm_new took until its box ran, by what it got.", ["start"],
    buckets=WAITS, registry=REGISTRY,
)  # fmt: skip
DRIVER_SECONDS = Histogram(
    "rift_box_driver_seconds", "What the driver did with boxes: start, park, resume, stop, destroy.",
    ["work", "outcome"], buckets=WAITS, registry=REGISTRY,
)  # fmt: skip
JOBS = Counter("rift_jobs", "Background jobs done by this process.", ["job", "outcome"], registry=REGISTRY)
JOB_SECONDS = Histogram(
    "rift_job_duration_seconds", "Background jobs done by this process.", ["job"], buckets=WAITS, registry=REGISTRY
)


@contextmanager
def job(name: str, clock: Clock) -> Iterator[None]:
    """Count and time one background job."""
    began, outcome = clock.monotonic(), "failed"
    try:
        yield
        outcome = "ok"
    finally:
        JOBS.labels(name, outcome).inc()
        JOB_SECONDS.labels(name).observe(clock.monotonic() - began)


def answered(tool: str, code: str | None, seconds: float) -> None:
    """Count a tool call: `code` is its refusal's, None for an answer."""
    outcome = "ok" if code is None else "error" if code in ("internal_error", "no_answer") else "refused"
    CALLS.labels(tool, outcome).inc()
    CALL_SECONDS.labels(tool).observe(seconds)
    if code is not None:
        REFUSALS.labels(tool, code).inc()
