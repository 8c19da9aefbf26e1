"""System users: whom a part of the system runs as where root does not do it itself."""

from __future__ import annotations

import ctypes
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

SYSTEM_PATH = "/usr/sbin:/sbin:/usr/bin:/bin"


class AccountError(Exception):
    """There is no such account, or it cannot be used; the text says why and, where there is one, the mend."""


@dataclass(frozen=True)
class Account:
    """A system user; `ours` when it is whoever runs this process."""

    name: str
    uid: int
    gid: int
    home: Path
    ours: bool

    def may(self, test: str, path: Path) -> bool:
        """Whether the account passes `test` (as of test(1)) on `path`: asked of the kernel, which knows every rule."""
        command = ["/bin/sh", "-c", 'test "$1" "$2"', "sh", test, str(path)]
        return self.run(command).returncode == 0

    def run(self, command: Sequence[str | Path], *, given: str = "") -> subprocess.CompletedProcess[str]:
        """Run a program as this account, out of reach of the terminal's Ctrl-C; its output, both streams as one."""
        asked = [os.fspath(part) for part in command]
        environment = {"LANG": "C.UTF-8", "PATH": SYSTEM_PATH}
        identity = {} if self.ours else {"user": self.uid, "group": self.gid, "extra_groups": []}
        # A server started by pg_ctl inherits the descriptors; with a file there is no pipe that it could hold open.
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
            done = subprocess.run(  # type: ignore[call-overload]  # the overloads cannot be told of `identity`
                asked, input=given, text=True, stdout=output, stderr=output, cwd="/", env=environment,
                start_new_session=True, check=False, **identity,
            )  # fmt: skip
            output.seek(0)
            return subprocess.CompletedProcess(asked, done.returncode, output.read())

    def folder(self, path: Path, *, group: int | None = None) -> None:
        """Make a folder for this account alone, with `group` one whose members may pass through it too.

        One that somebody else made, in a shared place, is refused: AccountError.
        """
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
            os.chown(path, self.uid, self.gid)
        refused = AccountError(f"{path} belongs to somebody else; remove it or choose another data folder")
        try:
            # By its descriptor: whoever owns it may put a link in its place between two steps of root's.
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            raise refused from None
        try:
            if os.fstat(descriptor).st_uid != self.uid:
                raise refused
            if group is not None:
                os.fchown(descriptor, -1, group)
            os.fchmod(descriptor, 0o700 if group is None else 0o710)
        finally:
            os.close(descriptor)

    def give(self, path: Path, mode: int) -> None:
        """Give a file of this account's that mode, as this account: a link in its place leads root nowhere."""
        self.run(["chmod", f"{mode:o}", path])


def account(name: str) -> Account:
    """Whom a part of the system runs as here: ourselves or, for root, the system user `name`, made when absent.

    Raises AccountError.
    """
    if os.geteuid() != 0:
        return _known(_named(os.geteuid()), ours=True)
    if (found := look_up(name)) is not None:
        return found
    useradd = shutil.which("useradd", path=SYSTEM_PATH)
    if useradd is None:
        raise AccountError(f"root needs the system user {name} here, and there is no useradd to make it with")
    done = subprocess.run(
        [useradd, "--system", "--user-group", "--home-dir", f"/var/lib/{name}", "--no-create-home",
         "--shell", "/usr/sbin/nologin", name],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if (found := look_up(name)) is not None:  # also when another process was first
        return found
    raise AccountError(f"useradd could not make the system user {name}: {done.stderr.strip()}")


def look_up(name: str) -> Account | None:
    """The system user of that name; None when there is none."""
    try:
        return _known(pwd.getpwnam(name), ours=False)
    except KeyError:
        return None


def give_folder(folder: Path, uid: int, gid: int) -> None:
    """Give a folder and the files in it to a user. By descriptors, and no file that has another name elsewhere: who
    owns the folder may be laying links meanwhile. Raises OSError.
    """
    top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fchown(top, uid, gid)
        for name in [entry.name for entry in os.scandir(top)]:
            try:
                file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=top)
            except OSError:
                continue  # a link, or gone
            try:
                found = os.fstat(file)
                if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
                    os.fchown(file, uid, gid)
            finally:
                os.close(file)
    finally:
        os.close(top)


@contextmanager
def files_of(uid: int, gid: int) -> Iterator[None]:
    """For the block, this thread of root's is that user to every file: without root's rights, and what it makes is
    theirs. Raises AccountError where root here may not do that.
    """
    libc = ctypes.CDLL(None)
    before = libc.setfsgid(gid), libc.setfsuid(uid)  # a block may be in another one
    try:
        if (libc.setfsgid(-1), libc.setfsuid(-1)) != (gid, uid):  # nothing else tells whether it was done
            raise AccountError(f"root may not act as user {uid} here")
        yield
    finally:
        libc.setfsuid(before[1])
        libc.setfsgid(before[0])


def _named(uid: int) -> pwd.struct_passwd:
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        raise AccountError(
            f"the system has no name for the user id {uid}, and Postgres needs one; add it to /etc/passwd"
        ) from None


def _known(user: pwd.struct_passwd, *, ours: bool) -> Account:
    return Account(user.pw_name, user.pw_uid, user.pw_gid, Path(user.pw_dir), ours)
