"""How a process that began as root becomes the server's: for good, before it has read a byte of anybody's.

It needs the standard library alone, so that next to nothing runs as root.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import resource
import signal
import sys
from contextlib import suppress

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 1, 4, 24, 38, 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
CAPABILITY_VERSION_3 = 0x20080522
MOST_CAPABILITIES = 64
FILTER_STEP = 8
"""Bytes of one instruction of a filter, a `struct sock_filter`."""

_libc = ctypes.CDLL(None, use_errno=True)


def no_new_privileges() -> None:
    """From here on nothing that this process starts can gain a privilege, by a setuid program or otherwise."""
    _must(PR_SET_NO_NEW_PRIVS, 1)


def end_with(parent: int, number: int = signal.SIGKILL) -> None:
    """Have the kernel send this process a signal when its parent ends; it ends now where that has gone already."""
    _must(PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:  # it ended before it could be said that this one ends with it
        os._exit(1)


def become(uid: int, gid: int, *, parent: int, code: bytes | None = None) -> None:
    """Give root away: from here on this process is `uid`, alone in `gid`, without capabilities and ways to any.

    `code` is a seccomp filter to go by from then on. It ends with its `parent`. Raises OSError, and then the process
    must not go on.
    """
    ways = _open_ways()
    for capability in range(MOST_CAPABILITIES):
        # Past the last one of this kernel it is refused, and in a container that root itself may not do this.
        _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    _libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    _no_capabilities()
    no_new_privileges()
    if code is not None:
        _filter(code)
    _must(PR_SET_DUMPABLE, 0)
    end_with(parent)
    os.umask(0o077)
    os.chdir("/")
    _take_ways(ways)


def _no_capabilities() -> None:
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    if _libc.capset(header, (ctypes.c_uint32 * 6)()):
        raise _error("capset")


class _Program(ctypes.Structure):
    _fields_ = (("steps", ctypes.c_ushort), ("code", ctypes.c_char_p))


def _filter(code: bytes) -> None:
    program = _Program(len(code) // FILTER_STEP, code)
    if _libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0):
        raise _error("seccomp")


def _must(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0):
        raise _error("prctl")


def _error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), what)


def _open_ways() -> dict[str, int]:
    """Descriptors of where modules come from: folders that the user may read can lie below one it may not enter."""
    ways = {}
    for entry in sys.path:
        with suppress(OSError):  # not everything in it is there
            ways[entry] = os.open(entry or ".", os.O_PATH | os.O_CLOEXEC)
    return ways


def _take_ways(ways: dict[str, int]) -> None:
    """Have modules found by their descriptors where their own paths are closed to this user. Raises PermissionError."""
    instead = {}
    for entry, descriptor in ways.items():
        way = f"/proc/self/fd/{descriptor}"
        if os.access(entry, os.R_OK):
            os.close(descriptor)
        elif os.access(way, os.R_OK):
            instead[entry] = way
        else:
            raise PermissionError(13, "the server's user may not read it", entry)
    sys.path[:] = [instead.get(entry, entry) for entry in sys.path]
    for module in list(sys.modules.values()):
        if isinstance(places := getattr(module, "__path__", None), list):
            places[:] = [_moved(place, instead) for place in places]
    sys.path_importer_cache.clear()


def _moved(place: str, instead: dict[str, str]) -> str:
    for entry, way in instead.items():
        if place == entry or place.startswith(f"{entry}/"):
            return way + place[len(entry) :]
    return place


def boot(product: str, module: str, code: bytes | None = None) -> None:
    """How a server begins: `-c … LINE PARENT UID GID COMMAND …`. It gives root away, then loads the rest.

    `module` is what goes on from there: its `main(LINE, COMMAND)`.
    """
    line, parent, uid, gid = (int(word) for word in sys.argv[1:5])
    try:
        become(uid, gid, parent=parent, code=code)
    except OSError as error:
        sys.exit(f"{product.lower()}: the server cannot give root away: {error.strerror}: {error.filename}")
    try:
        serve = importlib.import_module(module)
    except (ImportError, PermissionError) as error:
        sys.exit(
            f"{product.lower()}: the server's user cannot load {product}: {error}. "
            f"`{product.lower()} doctor` looks at what it may read."
        )
    serve.main(line, sys.argv[5])
