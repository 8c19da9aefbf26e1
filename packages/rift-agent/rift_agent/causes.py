"""Which limit a command or the whole box met: told from what the kernel counts, and where only the program saw it,
from the end of its output. Every sentence names the limit's value and what changes it.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rift_agent.config import Config

_KILLED, _TOO_LARGE = 128 + 9, 128 + 25  # exit codes: by SIGKILL, by SIGXFSZ
_END = 2048  # bytes of the output's end in which a program's last words are looked for
_HOST = "/proc/vmstat"


class Counted:
    """The kernel's counters at one moment: processes `killed` for memory in the box, forks `refused`."""

    __slots__ = ("killed", "refused")

    def __init__(self, killed: int, refused: int) -> None:
        self.killed = killed
        self.refused = refused


class Causes:
    """The counters of the box's cgroups, as far as it has any, and the sentences made of them."""

    def __init__(self, config: Config) -> None:
        self._limits = config.limits
        self._folder = config.dir
        # Either kind of cgroup has its file; held open, as they are read twice a command.
        self._killed = _open(config.cgroups, ("memory.events", "memory.oom_control"))
        self._refused = _open(config.cgroups, ("pids.events",))
        self._first = self._asked = self.now()
        self._host = _host_kills()

    def now(self) -> Counted:
        """The counters as they stand."""
        return Counted(_count(self._killed, b"oom_kill"), _count(self._refused, b"max"))

    def of_command(self, before: Counted, code: int | None, output: bytes) -> list[str]:
        """Why a command ended as it did: sentences, none where nothing is known. `before` are the counters at its
        start, `code` its exit, `output` the last bytes of what it printed.
        """
        now, found = self.now(), []
        if now.killed > before.killed:
            found.append("killed: " + self._memory() if code == _KILLED else
                         f"a process of this VM was killed while it ran: {self._memory()}")  # fmt: skip
        elif code == _KILLED and self._host_killed():
            found.append("killed, probably, as the host ran out of memory, which is no limit of this VM")
        if now.refused > before.refused:
            found.append(self._processes())
        if code == _TOO_LARGE:
            found.append(self.one_file())
        if code != 0 and not found:
            found += self._hints(output[-_END:])
        return found

    def crowded(self) -> bool:
        """Whether the box has been refused a process since this was asked last."""
        before, self._asked = self._asked, self.now()
        limit = self._limits.get("processes")
        return self._asked.refused > before.refused or bool(limit and limit.by == "rlimit")

    def of_box(self) -> str:
        """Why the jail's first process may have ended, or ""."""
        return self._memory() if self.now().killed > self._first.killed else ""

    def disk_full(self) -> str:
        """The sentence about the disk's limit."""
        return f"disk full ({self._limit('disk')})"

    def one_file(self) -> str:
        """The sentence about a file that met the disk's limit alone."""
        return f"{self.disk_full()}: no file may be larger"

    def _memory(self) -> str:
        return f"out of memory ({self._limit('memory')})"

    def _processes(self) -> str:
        limit = self._limits.get("processes")
        what = f"the limit of {limit.value:,} processes" if limit else "a limit of processes"
        return f"{what} was reached ({limit.setting if limit else 'of the host'})"

    def _limit(self, name: str) -> str:
        limit = self._limits.get(name)
        return f"limit {size(limit.value)}, {limit.setting}" if limit else "a limit of the host"

    def _host_killed(self) -> bool:
        before, self._host = self._host, _host_kills()
        return self._host > before

    def _hints(self, output: bytes) -> list[str]:
        """What a failed command's last words may be about. A guess, and said as one."""
        said = output.lower()
        for words, hint in (
            ("Too many open files", self._open_files),
            ("No space left on device", self.space),
            ("Disk quota exceeded", self.space),
            ("File size limit exceeded", self.one_file),
            ("File too large", self.one_file),
            ("Cannot allocate memory", lambda: self._by_rlimit("memory")),
            ("MemoryError", lambda: self._by_rlimit("memory")),
            ("std::bad_alloc", lambda: self._by_rlimit("memory")),
            ("out of memory", lambda: self._by_rlimit("memory")),
            ("Resource temporarily unavailable", lambda: self._by_rlimit("processes")),
        ):
            text = hint() if words.lower().encode() in said else ""
            if text:
                return [f"its output says '{words}': {text}"]
        return []

    def _open_files(self) -> str:
        limit = self._limits.get("open_files")
        if not limit:
            return ""
        import resource  # seldom needed

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        if 0 <= most < limit.value:
            return f"a process of this VM may open {most:,}, which is the most that its host allows Rift"
        return f"a process of this VM may open {limit.value:,} ({limit.setting})"

    def space(self) -> str:
        """What may be full where a program was told that the disk is, or ""."""
        disk, memory = self._limits.get("disk"), self._limits.get("memory")
        if not disk or not memory:
            return ""
        left = os.statvfs(self._folder)
        return (
            f"this VM may hold {size(disk.value)} ({disk.setting}), its /dev/shm {size(memory.value // 2)}; "
            f"{size(left.f_bavail * left.f_frsize)} are free on the host's disk"
        )

    def _by_rlimit(self, name: str) -> str:
        limit = self._limits.get(name)
        if not limit or limit.by != "rlimit":
            return ""
        if name == "memory":
            return f"a process of this VM may have {size(limit.value)} of memory ({limit.setting})"
        return self._processes()


def size(count: int) -> str:
    """Bytes for a person: `4 GiB`, `1.5 MiB`, `12 bytes`."""
    value, unit = float(count), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{int(value)} {unit}" if value == int(value) else f"{value:.1f} {unit}"


def _open(groups: list[str], names: tuple[str, ...]) -> int:
    """The first of these files that one of the groups has, or -1."""
    for path in (f"{group}/{name}" for group in groups for name in names):
        if os.path.exists(path):
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    return -1


def _count(fd: int, name: bytes) -> int:
    return _number(os.pread(fd, 4096, 0), name) if fd >= 0 else 0


def _number(text: bytes, name: bytes) -> int:
    """The number behind a name in lines of `name number`, 0 without it."""
    for line in text.splitlines():
        word, _, value = line.partition(b" ")
        if word == name and value.strip().isdigit():
            return int(value)
    return 0


def _host_kills() -> int:
    try:
        with open(_HOST, "rb") as file:
            return _number(file.read(), b"oom_kill")
    except OSError:
        return 0
