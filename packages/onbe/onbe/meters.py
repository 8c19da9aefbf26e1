"""What this process counts and times, for `/metrics`. Every label is one of a closed list of ours."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

REGISTRY = CollectorRegistry(auto_describe=True)
PLATFORM = PlatformCollector(REGISTRY), ProcessCollector(registry=REGISTRY), GCCollector(REGISTRY)

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

HTTP_REQUESTS = Counter(
    "onbe_http_requests", "HTTP requests answered.", ["method", "route", "status"], registry=REGISTRY
)
HTTP_SECONDS = Histogram(
    "onbe_http_request_duration_seconds", "HTTP requests, from their head to the last byte of the answer.", ["route"],
    buckets=SECONDS, registry=REGISTRY,
)  # fmt: skip
TOKENS = Counter(
    "onbe_token_requests", "Exchanges and refreshes answered, by outcome: ok, or the reason.", ["outcome"],
    registry=REGISTRY,
)  # fmt: skip
TURNED_AWAY = Counter(
    "onbe_requests_turned_away", "Requests that were refused before anything was done.", ["kind", "reason"],
    registry=REGISTRY,
)  # fmt: skip
TICKS = Counter("onbe_ticks", "Background work done by this process.", ["work", "outcome"], registry=REGISTRY)


def request(method: str, route: str, status: int, seconds: float) -> None:
    """Count and time one HTTP request; status 0 for one that got no answer."""
    HTTP_REQUESTS.labels(method, route, str(status) if status else "none").inc()
    HTTP_SECONDS.labels(route).observe(seconds)
