"""The control plane, from the agent's side: one thread asks for work, one posts what happened. Neither ever gives up.

Work is handed to the loop through `deliver`, a function that may be called from any thread. An event is posted until
it was taken, in order; an answer to an ask once, because the control plane asks again.
"""

from __future__ import annotations

import _queue  # `threading` and `queue` stand on these two and would cost 300 KiB more
import _thread
import time

from rift_agent.http import Connection, Unreachable
from rift_agent.log import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from rift_agent.config import Config

    Deliver = Callable[[str, Any], None]
    Power = Callable[[int, bool], tuple[int, bool]]

WAIT = 25  # seconds a request for work is parked
FIRST_PAUSE, LAST_PAUSE = 0.05, 2.0
OVER, MALFORMED = 410, 400
_BATCH = 64
NEVER = "stopped by rift_stop before it started"


class Uplink:
    """Both threads. `deliver(kind, value)` gets ("author", {...}), ("secrets", {...}), ("command", {...}),
    ("stop", n), ("ask", {...}), ("over", None), ("sent", None).
    """

    def __init__(self, config: Config, deliver: Deliver, power: Power) -> None:
        self._base = f"/agent/v1/{config.box}/{config.incarnation}"
        self._server, self._token = config.server, config.token()
        self._deliver = deliver
        self._power = power
        self._epoch = (config.power[0], False)  # a jail begins awake
        self._known: set[int] = set()
        self._taken: set[int] = set()  # every command of this incarnation: none is started twice
        self._stopped: set[int] = set()
        self._lock = _thread.allocate_lock()
        self._queue: _queue.SimpleQueue[tuple[str, dict[str, Any]]] = _queue.SimpleQueue()
        self._unsent = 0
        self._secrets = 0  # which version of the repository's secrets was handed on; they come with the first command
        self._author: dict[str, str] | None = None  # whose the commits are: handed on like them
        self._asked: set[str] = set()  # asks whose answer is not posted yet: they come again and again until it is

    def start_posting(self) -> None:
        """Events may be told from now on."""
        _thread.start_new_thread(self._guard, (self._post_all,))

    def start_working(self) -> None:
        """Work is asked for from now on."""
        _thread.start_new_thread(self._guard, (self._ask_for_work,))

    def tell(self, event: dict[str, Any]) -> None:
        """Queues an event."""
        with self._lock:
            self._unsent += 1
        self._queue.put(("/events", event))

    def answer(self, answer: dict[str, Any]) -> None:
        """Queues an answer to an ask."""
        self._queue.put(("/answers", answer))

    def idle(self) -> bool:
        """Whether every event told has been taken."""
        return self.unsent() == 0

    def unsent(self) -> int:
        """How many events wait to be taken."""
        with self._lock:
            return self._unsent

    def _ask_for_work(self) -> None:
        connection, pause, idle = Connection(self._server, self._token), FIRST_PAUSE, 0.0
        while True:
            with self._lock:
                known, answering = sorted(self._known), sorted(self._asked)
            stopping = [n for n in known if n in self._stopped]
            ask = {
                "known": known,
                "stopping": stopping,
                "answering": answering,
                "secrets": self._secrets,
                "author": self._author,
                "wait": WAIT,
                "power": list(self._epoch),
            }
            asked_at = time.monotonic()
            try:
                status, work = connection.post(f"{self._base}/work", ask, WAIT + 15)
            except Unreachable:
                status = 0
            if status == 200:
                pause = FIRST_PAUSE
                # A control plane that repeats what we have said we know is not asked again at once.
                idle = 0.0 if self._take(work) or time.monotonic() - asked_at > 1 else min(idle * 2 or 0.002, 0.05)
                if idle:
                    time.sleep(idle)
            elif status == OVER:
                self._deliver("over", None)
                return
            else:
                time.sleep(pause)
                pause = min(pause * 2, LAST_PAUSE)

    def _take(self, work: dict[str, Any]) -> bool:
        """Hands the news of an answer on. Returns whether there were any."""
        commands = [command for command in work.get("commands", ()) if int(command["n"]) not in self._taken]
        stops = [int(n) for n in work.get("stops", ()) if int(n) not in self._stopped]
        with self._lock:
            asks = [ask for ask in work.get("asks", ()) if ask["id"] not in self._asked]
            self._asked.update(ask["id"] for ask in asks)
            self._known.update(int(command["n"]) for command in commands)
        self._taken.update(int(command["n"]) for command in commands)
        for n in stops:
            if n not in self._taken:  # it is to stop and was never given: now it never starts
                self._taken.add(n)
                self.tell({"type": "ended", "n": n, "exit": None, "reason": NEVER, "size": 0, "tail": "", "ran": False})
        self._stopped.update(stops)
        author = work.get("author")
        if author:
            self._deliver("author", author)
            self._author = author
        secrets = work.get("secrets")
        if secrets:  # before the commands that are to have them
            self._deliver("secrets", secrets["values"])
            self._secrets = int(secrets["version"])
        for kind, news in (("command", commands), ("stop", stops), ("ask", asks)):
            for one in news:
                self._deliver(kind, one)
        epoch, frozen = work.get("power") or self._epoch
        before, self._epoch = self._epoch, self._power(int(epoch), bool(frozen))
        return bool(commands or stops or asks or self._epoch != before)

    def _post_all(self) -> None:
        connection = Connection(self._server, self._token)
        held: tuple[str, dict[str, Any]] | None = None
        while True:
            path, body = held or self._queue.get()
            held = None
            if path == "/answers":
                try:
                    connection.post(self._base + path, body, 30)
                except Unreachable:
                    pass
                with self._lock:
                    self._asked.discard(body["id"])
                continue
            events = [body]
            while held is None and len(events) < _BATCH:
                try:
                    path, body = self._queue.get_nowait()
                except _queue.Empty:
                    break
                if path == "/events":
                    events.append(body)
                else:
                    held = (path, body)
            if not self._post_events(connection, events):
                return

    def _post_events(self, connection: Connection, events: list[dict[str, Any]]) -> bool:
        """Until they were taken (True), or the box is over (False).

        One that the control plane calls malformed is dropped: it must not hold back all that come after it.
        """
        pause = FIRST_PAUSE
        while True:
            try:
                status, _ = connection.post(f"{self._base}/events", {"events": events}, 30)
            except Unreachable:
                status = 0
            if status == MALFORMED and len(events) > 1:
                return all(self._post_events(connection, [event]) for event in events)
            if status == MALFORMED:
                say(f"an event was refused as malformed: {str(events[0])[:500]}")
            if status in (200, MALFORMED):
                with self._lock:
                    if status == 200:  # else it stays known: forgotten, it would be handed out again and again
                        self._known -= {event["n"] for event in events if event["type"] == "ended"}
                    self._unsent -= len(events)
                self._deliver("sent", None)
                return True
            if status == OVER:
                self._deliver("over", None)
                return False
            time.sleep(pause)
            pause = min(pause * 2, LAST_PAUSE)

    def _guard(self, work: Callable[[], None]) -> None:
        """A mistake in a thread must not leave an agent that only looks alive: it is said, and the work goes on."""
        while True:
            try:
                return work()
            except Exception as error:
                say(f"{work.__name__}: {type(error).__name__}: {error}")
                time.sleep(LAST_PAUSE)
