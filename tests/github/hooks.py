"""Webhooks as GitHub sends them: signed, one try each; held, dropped, repeated and reordered as a test wants.

Source: docs.github.com, "Webhook events and payloads": Delivery headers; "Validating webhook deliveries".
"""

from __future__ import annotations

import hashlib
import hmac
import json
import queue
import threading
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx2
from tests.github.model import App
from tests.github.shapes import Shape

ANSWERS_WITHIN = 10.0
"""GitHub waits so many seconds for an answer."""


@dataclass(eq=False)
class Delivery:
    """One webhook: `status` is what was answered, 0 where nothing was, None while it was not sent."""

    app: App
    event: str
    body: Shape
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    status: int | None = None
    said: str = ""
    dropped: bool = False

    @property
    def action(self) -> str:
        return str(self.body.get("action", ""))

    @property
    def raw(self) -> bytes:
        return json.dumps(self.body, separators=(",", ":")).encode()

    def headers(self, secret: str | None = None) -> dict[str, str]:
        """The headers it is sent with; signed by another secret where one is given."""
        raw, key = self.raw, (self.app.webhook_secret if secret is None else secret).encode()
        return {
            "content-type": "application/json", "user-agent": "GitHub-Hookshot/5a1d3b2", "accept": "*/*",
            "x-github-event": self.event, "x-github-delivery": self.id, "x-github-hook-id": str(self.app.id),
            "x-github-hook-installation-target-id": str(self.app.id),
            "x-github-hook-installation-target-type": "integration",
            "x-hub-signature": f"sha1={hmac.new(key, raw, hashlib.sha1).hexdigest()}",
            "x-hub-signature-256": f"sha256={hmac.new(key, raw, hashlib.sha256).hexdigest()}",
        }  # fmt: skip


class Hooks:
    """Sends what happens, one after the other, from a thread of its own. `all` is every delivery, sent or not."""

    def __init__(self) -> None:
        self.all: list[Delivery] = []
        self.held: list[Delivery] = []
        """Those that wait to be let go."""
        self._holding = False
        self._drop: Callable[[Delivery], bool] | None = None
        self._queue: queue.Queue[Delivery | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, name="webhooks", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._queue.put(None)
        self._thread.join()

    def happened(self, app: App, event: str, body: Shape) -> None:
        """Something happened that an App is to hear of."""
        delivery = Delivery(app, event, json.loads(json.dumps(body)))
        self.all.append(delivery)
        if self._drop is not None and self._drop(delivery):
            delivery.dropped = True
        elif self._holding:
            self.held.append(delivery)
        else:
            self._queue.put(delivery)

    # What a test decides --------------------------------------------------------------------------------------------

    def hold(self) -> None:
        """Keep what happens from now on until `release`."""
        self._holding = True

    def release(self, order: Callable[[list[Delivery]], Sequence[Delivery]] = list) -> None:
        """Send what was held: all, in the order in which it happened, or what `order` makes of it (`reversed`…)."""
        self._holding = False
        held, self.held = self.held, []
        for delivery in order(held):
            self._queue.put(delivery)

    def drop(self, which: Callable[[Delivery], bool] = lambda _: True) -> None:
        """Lose what happens from now on, as GitHub does when the server does not answer, until `keep`."""
        self._drop = which

    def keep(self) -> None:
        """Lose nothing any more."""
        self._drop = None

    def again(self, delivery: Delivery) -> None:
        """Send a delivery once more: same id, same body, as the button on the App's page does."""
        self._queue.put(delivery)

    def settle(self) -> None:
        """Wait until everything that is not held was sent and answered."""
        self._queue.join()

    def last(self, event: str, action: str = "") -> Delivery:
        """The newest delivery of an event."""
        return next(one for one in reversed(self.all) if one.event == event and one.action == action)

    # Sending --------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        with httpx2.Client(trust_env=False, timeout=ANSWERS_WITHIN) as client:
            while (delivery := self._queue.get()) is not None:
                try:
                    _send(client, delivery)
                finally:
                    self._queue.task_done()
        self._queue.task_done()


def _send(client: httpx2.Client, delivery: Delivery) -> None:
    if not delivery.app.webhook_url:
        delivery.status = 0
        return
    status, said = 0, ""
    with suppress(httpx2.HTTPError, OSError):
        answer: Any = client.post(delivery.app.webhook_url, content=delivery.raw, headers=delivery.headers())
        status, said = answer.status_code, answer.text
    delivery.status, delivery.said = status, said
