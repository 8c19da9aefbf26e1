"""What the proxy refused, told to the control plane for the record: counted, since a jail may ask for a million hosts.

The first refusal of a kind (host, port, why) within a minute is told at once, its repetitions as one count at the
minute's end. Beyond DISTINCT kinds a minute, or while the control plane takes nothing, refusals are only counted and
told as "others".
"""

from __future__ import annotations

import _thread
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

WINDOW = 60.0
DISTINCT = 32
BACKLOG = 128  # events untaken by the control plane, from where on refusals wait as numbers
OTHERS = "others"


class Refused:
    """The tally. `tell` queues an event, `unsent` says how many are queued; `pause` waits out a window in a thread."""

    def __init__(
        self,
        tell: Callable[[dict[str, Any]], None],
        unsent: Callable[[], int],
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._tell = tell
        self._unsent = unsent
        self._pause = pause
        self._lock = _thread.allocate_lock()
        self._open = False
        self._again: dict[tuple[str, int, str], int] = {}  # kinds told in this window → how often since
        self._others = 0
        self._n = 0

    def note(self, host: str, port: int, why: str) -> None:
        """Counts one refusal. From any thread; `host` is "" and `port` 0 where the request named none."""
        with self._lock:
            kind = (host, port, why)
            if kind in self._again:
                self._again[kind] += 1
            elif len(self._again) < DISTINCT and self._unsent() < BACKLOG:
                self._again[kind] = 0
                self._say(kind, 1)
            else:
                self._others += 1
            if not self._open:
                self._open = True
                _thread.start_new_thread(self._close, ())

    def _close(self) -> None:
        """Ends windows until one has left nothing to tell."""
        while True:
            self._pause(WINDOW)
            with self._lock:
                for kind, count in self._again.items():
                    if count and self._unsent() < BACKLOG:
                        self._say(kind, count)
                    else:
                        self._others += count
                self._again.clear()
                if self._others and self._unsent() < BACKLOG:
                    self._say(("", 0, OTHERS), self._others)
                    self._others = 0
                if not self._others:
                    self._open = False
                    return

    def _say(self, kind: tuple[str, int, str], count: int) -> None:
        self._n += 1
        host, port, why = kind
        self._tell({"type": "refused", "n": self._n, "host": host, "port": port, "why": why, "count": count})
