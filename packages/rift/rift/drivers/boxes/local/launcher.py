"""Prepare a box's folder as the box's own user and start its agent there.

Run as `python -I -S launcher.py`, one JSON job on standard input, one JSON line out. Standard library only and any
CPython >= 3.9, as it runs under whatever Python the boxes use. Everything below `drop` happens without root: as the
folder belongs to the box, a root process writing there could be led elsewhere by a link.

Job: `{"join": ["…/cgroup.procs", …], "open_files": n, "uid": n|null, "gid": n|null, "dir": "…",
"folders": ["etc", …], "files": [{"path","text","mode","once"?}], "links": [{"path","target"}], "checkout": {…}|null,
"agent": ["python", …]|null, "run": ["bwrap", …]|null}`.
A file to be made `once` is left alone where it is there.
Answer: `{"pid": n|null, "lacks": ["…"], "run": {"code": n, "text": "…"}}` or `{"error": "…"}`.
"""

# Pathlib takes longer to load than all of this takes to run.
# ruff: noqa: PTH100, PTH105, PTH108, PTH109, PTH120, PTH123, PTH211

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import stat
import subprocess
import sys

TYPE_CHECKING = False  # spelled out, as loading `typing` takes longer than most of this
if TYPE_CHECKING:
    from typing import Any

NO_NEW_PRIVS = 38
IN_THE_WAY = (errno.ENOTDIR, errno.ELOOP, errno.EACCES)


class Failed(Exception):
    """The job cannot be done; the text says why."""


def drop(uid: int | None, gid: int) -> None:
    """Become the box's user for good; nothing started from here can gain a privilege."""
    if uid is not None:
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise Failed("prctl(no_new_privs): " + os.strerror(ctypes.get_errno()))
    os.umask(0o022)


def join(files: list[str]) -> None:
    """Move into the groups of these files, for the agent to be there: while there is still the right to."""
    for path in files:
        with open(path, "w", encoding="ascii") as file:
            file.write("0")


def no_cores() -> None:
    """Let nothing that comes from here leave its memory on the disk: it may have secrets in it.

    1 is the one value at which the kernel hands a core to no program either.
    """
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    most = 1 if hard == resource.RLIM_INFINITY else min(1, hard)
    resource.setrlimit(resource.RLIMIT_CORE, (most, most))


def open_files(most: int) -> None:
    """Let a process of the box have so many open, where this one may have less and is allowed to say so."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < most:
        with contextlib.suppress(ValueError, PermissionError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, most))


def write(path: str, text: str, mode: int) -> None:
    """Replace a file in one step, with its mode from the first byte on."""
    temporary = path + ".new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), mode)
        file.write(text)
    os.replace(temporary, path)


def make_folders(path: str) -> None:
    """Make what is absent of a folder's path. No link is followed, and what stands in the way is left as it is.

    The jail's user owns most of these folders: there may be a file or a link to anywhere in their place, or they may
    be closed. That is the box's own affair, and must lead this process nowhere and not keep the box from starting.
    """
    above = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in path.split("/"):
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=above)
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
            os.close(above)
            above = inner
    except OSError as error:
        if error.errno not in IN_THE_WAY:
            raise
    finally:
        os.close(above)


def prepare(job: dict[str, Any]) -> None:
    """Make what is absent of the folders and links, and write the files anew."""
    for path in job.get("folders", ()):
        make_folders(path)
    for link in job.get("links", ()):
        with contextlib.suppress(FileExistsError, PermissionError):  # or its folder is closed, as above
            os.symlink(link["target"], link["path"])
    for file in job.get("files", ()):
        if file.get("once") and os.path.lexists(file["path"]):
            continue
        write(file["path"], file["text"], file["mode"])


def checkout(plan: dict[str, Any]) -> list[str]:
    """Make the checkout, by the program beside this one; return what it lacks."""
    import importlib  # only here: most starts have none to make

    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # isolated, Python does not look there by itself
    made = importlib.import_module("checkout")
    try:
        lacks: list[str] = made.checkout(plan, write)
    except made.Failed as error:
        raise Failed(str(error)) from None
    return lacks


def start(words: list[str]) -> int:
    """Start the agent as a child of init, in a session of its own, so that it outlives whoever asked for it."""
    log = os.open("agent.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    if not stat.S_ISREG(os.fstat(log).st_mode):
        raise Failed("agent.log is not a file")
    child = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
        env={
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "HOME": os.getcwd(),
            "MALLOC_ARENA_MAX": "1",  # its threads mostly wait, and each arena would keep memory of its own
        },
    )
    write("agent.pid", f"{child.pid}\n", 0o600)
    child.returncode = 0  # not ours to wait for: this process ends now and init adopts it
    return child.pid


def try_out(words: list[str]) -> dict[str, Any]:
    """Run one command to its end and tell how it went."""
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20, check=False
        )
    except subprocess.TimeoutExpired:
        return {"code": 124, "text": "no answer within 20 s"}
    except OSError as error:
        return {"code": 127, "text": str(error)}
    return {"code": done.returncode, "text": done.stdout.decode("utf-8", "replace")[-2000:]}


def main() -> None:
    job = json.load(sys.stdin)
    try:
        join(job.get("join", []))
        open_files(job.get("open_files", 0))
        no_cores()
        drop(job.get("uid"), job.get("gid"))
        os.chdir(job["dir"])
        prepare(job)
        answer: dict[str, Any] = {"pid": None, "lacks": [], "run": None}
        if job.get("checkout"):
            answer["lacks"] = checkout(job["checkout"])
        if job.get("run"):
            answer["run"] = try_out(job["run"])
        if job.get("agent"):
            answer["pid"] = start(job["agent"])
    except Failed as error:
        answer = {"error": str(error)}
    except OSError as error:
        answer = {"error": f"{error.strerror}: {error.filename}" if error.filename else str(error)}
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
