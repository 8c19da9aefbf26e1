"""Parking a box: every process stopped, then its files flushed; and waking exactly those that were stopped for it.

The jail's process 1 is left running: it is ours, sleeps until something exits, and so costs nothing. Everything else
is stopped, again and again until a pass finds nobody running, since a process may fork while its parent is being
stopped. A process that had stopped itself before (a suspended job) stays stopped after waking.
"""

from __future__ import annotations

import _thread
import os
import signal
import time

from rift_agent import libc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rift_agent.config import Config
    from rift_agent.processes import Jail, Process

PATIENCE = 10.0  # seconds for stopping, and again for flushing
_STOPPED = "tTZXx"


class Power:
    """The box's power state, behind a fence: an order with an older epoch than the last is ignored."""

    def __init__(self, config: Config) -> None:
        self.epoch, self.frozen = config.power[0], False
        self.jail: Jail | None = None
        self._folder = config.dir
        self._cgroup = next((path for path in config.cgroups if os.path.exists(f"{path}/cgroup.freeze")), "")
        self._lock = _thread.allocate_lock()
        self._stopped: dict[int, int] = {}  # host number → its beginning, of those stopped here

    def apply(self, epoch: int, frozen: bool) -> tuple[int, bool]:
        """Parks or wakes the box and returns the epoch and state that now hold. Any thread; blocks until it is done."""
        with self._lock:
            if epoch >= self.epoch:
                self.epoch = epoch
                if self.jail and frozen != self.frozen:
                    if frozen:
                        self._freeze(self.jail)
                    else:
                        self._thaw(self.jail)
                    self.frozen = frozen
            return self.epoch, self.frozen

    def _freeze(self, jail: Jail) -> None:
        if not self._cgroup_freeze("1"):
            end, pause = time.monotonic() + PATIENCE, 0.0005
            while True:
                running = [p for p in jail.processes(tags=False) if p.pid != jail.init and not self._still(p)]
                for process in running:
                    self._stopped[process.pid] = process.started
                    jail.signal(process, signal.SIGSTOP)
                if not running or time.monotonic() > end:
                    break
                time.sleep(pause)
                pause = min(pause * 2, 0.05)
        done = _thread.allocate_lock()
        done.acquire()
        _thread.start_new_thread(_flush, (self._folder, done))
        done.acquire(timeout=PATIENCE)

    def _still(self, process: Process) -> bool:
        # Of one whose first thread has ended the state never shows that the others are stopped.
        return process.state in _STOPPED or (process.state == "z" and process.pid in self._stopped)

    def _thaw(self, jail: Jail) -> None:
        if self._cgroup_freeze("0"):
            return
        for process in jail.processes(tags=False):
            if self._stopped.get(process.pid) == process.started:
                jail.signal(process, signal.SIGCONT)
        self._stopped.clear()

    def _cgroup_freeze(self, value: str) -> bool:
        """By the cgroup, where the box has one of the second kind: one write and a wait. False where it has not."""
        if not self._cgroup:
            return False
        try:
            with open(f"{self._cgroup}/cgroup.freeze", "w", encoding="ascii") as file:
                file.write(value)
        except OSError:
            return False
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            with open(f"{self._cgroup}/cgroup.events", encoding="ascii") as file:
                if f"frozen {value}" in file.read():
                    break
            time.sleep(0.001)
        return True


def _flush(folder: str, done: _thread.LockType) -> None:
    """Writes the file system `folder` lies on to its disk; the box's files are all below it. Releases `done` after."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if libc.call("syncfs", fd):
            os.sync()
    except OSError:
        os.sync()
    finally:
        os.close(fd)
        done.release()
