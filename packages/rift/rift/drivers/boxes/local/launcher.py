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
# ruff: noqa: PTH103, PTH105, PTH108, PTH109, PTH110, PTH113, PTH114, PTH118, PTH123, PTH211

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
    from typing import Any, TextIO

NO_NEW_PRIVS = 38
DONE = "checkout.done"
NAME_LIMIT = 200
LIST_LIMIT = 1024 * 1024  # characters that are read of a file in which a repository lists what it needs
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


def git(plan: dict[str, Any], *words: str) -> str:
    """Run git with nothing of the host's or of a person's configuration; return what it printed."""
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": "/nonexistent",
        "LANG": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": os.path.join(plan["mirror"], "objects"),
    }
    done = subprocess.run(
        [plan["git"], "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0", *words],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip() or f"exit code {done.returncode}"
        raise Failed(f"the checkout could not be made: {said[-2000:]}")
    return done.stdout.decode("utf-8", "surrogateescape")


def references(plan: dict[str, Any]) -> str:
    """The text of a packed-refs file: the branch, its commit, and the mirror's heads and tags as of now."""
    listed = git(
        plan,
        "--git-dir=" + plan["mirror"],  # named outright, as the mirror may belong to another user
        "for-each-ref",
        "--format=%(refname) %(objectname) %(*objectname)",
        "refs/heads/",
        "refs/tags/",
    )
    entries = {}
    for line in listed.splitlines():
        name, _, objects = line.partition(" ")
        if name.startswith("refs/heads/"):
            name = "refs/remotes/origin/" + name[len("refs/heads/") :]
        entries[name] = objects.split()
    for name in ("refs/heads/", "refs/remotes/origin/"):
        entries[name + plan["ref"]] = [plan["commit"]]
    lines = ["# pack-refs with: peeled fully-peeled sorted "]
    for name in sorted(entries, key=os.fsencode):
        lines.append(f"{entries[name][0]} {name}")
        lines.extend("^" + peeled for peeled in entries[name][1:])
    return "\n".join(lines) + "\n"


def quoted(text: str) -> str:
    """A value as git's configuration file writes it."""
    if "\n" in text or "\0" in text:
        raise Failed("a name or address holds a line break")
    return '"{}"'.format(text.replace("\\", "\\\\").replace('"', '\\"'))


def configuration(plan: dict[str, Any]) -> str:
    """What the checkout's own configuration says besides what `git init` writes."""
    branch = quoted(plan["ref"])
    lines = [
        '[remote "origin"]',
        "\turl = " + quoted(plan["origin"]),
        "\tfetch = +refs/heads/*:refs/remotes/origin/*",
        f"[branch {branch}]",
        "\tremote = origin",
        "\tmerge = " + quoted("refs/heads/" + plan["ref"]),
    ]
    return "\n".join(lines) + "\n"


def checkout(plan: dict[str, Any]) -> list[str]:
    """Make the checkout, borrowing the mirror's objects; return what it lacks.

    A finished one is told by a file outside of the jail's reach and never touched again: its configuration is then
    under the control of whoever works in the box. What an interrupted start left is made anew.
    """
    if os.path.exists(DONE):
        with open(DONE, encoding="utf-8") as file:
            known: list[str] = json.load(file)["lacks"]
            return known
    tree = plan["path"]
    if os.path.lexists(tree):
        import shutil  # only here: it is slow to load and seldom needed

        shutil.rmtree(tree)
    kind = "sha256" if len(plan["commit"]) == 64 else "sha1"
    git(plan, "init", "--quiet", "--template=", "--object-format=" + kind, "--initial-branch=work", "--", tree)
    folder = os.path.join(tree, ".git")
    with open(os.path.join(folder, "config"), "a", encoding="utf-8", errors="surrogateescape") as file:
        file.write(configuration(plan))
    with open(os.path.join(folder, "packed-refs"), "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(references(plan))
    with open(os.path.join(folder, "HEAD"), "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write("ref: refs/heads/{}\n".format(plan["ref"]))
    git(plan, "-c", "checkout.workers=0", "-C", tree, "reset", "--quiet", "--hard", plan["commit"], "--")
    os.makedirs(os.path.join(folder, "info"), exist_ok=True)
    # Last, as only the jail has this path and git on the host would complain of it.
    with open(os.path.join(folder, "objects", "info", "alternates"), "w", encoding="utf-8") as file:
        file.write(plan["alternate"] + "\n")
    lacks = missing(tree)
    write(DONE, json.dumps({"commit": plan["commit"], "lacks": lacks}), 0o600)
    return lacks


def missing(tree: str) -> list[str]:
    """One sentence for each kind of content that a plain checkout does not bring."""
    lacks = []
    modules = os.path.join(tree, ".gitmodules")
    if os.path.isfile(modules) and not os.path.islink(modules):
        with open(modules, encoding="utf-8", errors="replace") as file:
            paths = [line.partition("=")[2].strip() for line in listed(file) if line.strip().startswith("path")]
        if paths:
            lacks.append(f"Submodules are not checked out: {names(paths)}.")
    attributes = os.path.join(tree, ".gitattributes")
    if os.path.isfile(attributes) and not os.path.islink(attributes):
        with open(attributes, encoding="utf-8", errors="replace") as file:
            patterns = [line.split()[0] for line in listed(file) if "filter=lfs" in line.split()[1:]]
        if patterns:
            lacks.append(f"LFS files are pointers, not their content: {names(patterns)}.")
    return lacks


def listed(file: TextIO) -> list[str]:
    """Its lines, as far as it is not too long."""
    return file.read(LIST_LIMIT).splitlines()


def names(found: list[str]) -> str:
    """Some names that a repository gave, for a sentence: few, none long, and nothing in them but what can be shown."""
    shown = ["".join(letter if letter.isprintable() else "?" for letter in name[:NAME_LIMIT]) for name in found[:20]]
    return ", ".join(shown)


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
