"""A pytest plugin: a Postgres of the run, shared by its workers, and a fresh database for each test that wants one.

`migrate_database` is overridden in the root conftest; it gives the function that makes a schema. It runs once a run,
against the template; each test's database is a copy of that template.

The cluster is made when the first test asks for it, and removed when the run ends. One that a killed run left is
removed by the next run.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from keel.postgres import SUPERUSER, EmbeddedPostgres
from keel.testing.fakes import FakeClock, FakeIds
from keel.testing.folders import scratch

_RUN = "KEEL_TEST_RUN"
_TEMPLATE = "template_of_tests"

Migrate = Callable[[str], object]
"""Makes a schema, given the owner's URL of an empty database."""

_numbers = itertools.count(1)


@dataclass(frozen=True)
class FreshDatabase:
    """A database that one test has to itself: its name, and its address for the two roles."""

    name: str
    owner: str
    runtime: str


@dataclass(frozen=True)
class Cluster:
    """A Postgres of the run, with the migrated template in it: one for each product."""

    postgres: EmbeddedPostgres
    admin: psycopg.Connection[tuple[object, ...]]

    def create(self, name: str, template: str = _TEMPLATE) -> FreshDatabase:
        """A new database, a copy of `template`."""
        make = sql.SQL("CREATE DATABASE {} TEMPLATE {} OWNER {} STRATEGY FILE_COPY")
        parts = (sql.Identifier(name), sql.Identifier(template), sql.Identifier(self.postgres.owner))
        self.admin.execute(make.format(*parts))
        return FreshDatabase(name, self.postgres.url(self.postgres.owner, name), self.postgres.url(None, name))

    def drop(self, name: str) -> None:
        """Remove a database, ending whatever is still connected to it."""
        self.admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def pytest_configure(config: pytest.Config) -> None:
    """Name this run's folder; xdist's workers inherit the name."""
    if not hasattr(config, "workerinput"):
        os.environ[_RUN] = str(_runs() / str(os.getpid()))


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove this run's cluster, and those of runs that were killed."""
    if hasattr(config, "workerinput"):
        return
    for folder in _runs().iterdir():
        if folder.name == str(os.getpid()) or not _alive(folder.name):
            for home in folder.iterdir() if folder.is_dir() else ():
                with suppress(OSError):
                    EmbeddedPostgres(home, durable=False).remove()
            shutil.rmtree(folder, ignore_errors=True)


def _alive(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, ValueError):
        return False
    except PermissionError:
        return True
    return True


def _runs() -> Path:
    """The folder of this user's test runs: short enough for a socket, open to the system user of root's Postgres."""
    folder = scratch() / f"keel-tests-{os.geteuid()}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o711)
    if folder.lstat().st_uid != os.geteuid():
        raise RuntimeError(f"{folder} belongs to somebody else; set TMPDIR to a folder of your own")
    folder.chmod(0o711)
    return folder


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def migrate_database() -> Migrate:
    """The function that makes the schema of each test's database. Overridden by the project's conftest."""
    return lambda url: None


@contextmanager
def cluster_of(product: str, migrate: Migrate) -> Iterator[Cluster]:
    """The run's Postgres of a product; whichever worker comes first starts it and migrates the template."""
    folder = Path(os.environ[_RUN])
    with suppress(FileExistsError):
        folder.mkdir(mode=0o711)
        folder.chmod(0o711)
    home = folder / product
    with suppress(FileExistsError):
        home.mkdir(mode=0o711)
        home.chmod(0o711)
    postgres = EmbeddedPostgres(home, name=product, durable=False)
    with _locked(home / "lock"):
        postgres.start()
        admin = psycopg.connect(postgres.url(SUPERUSER, "postgres"), autocommit=True)
        made = Cluster(postgres, admin)
        if not (home / "migrated").exists():
            made.drop(_TEMPLATE)
            made.create(_TEMPLATE, "template0")
            migrate(postgres.url(postgres.owner, _TEMPLATE))
            (home / "migrated").touch()
    with admin:
        yield made


@contextmanager
def fresh_database(cluster: Cluster) -> Iterator[FreshDatabase]:
    """A database of one test's own, migrated and empty; gone after the block."""
    name = f"test_{os.getpid()}_{next(_numbers)}"
    fresh = cluster.create(name)
    yield fresh
    cluster.drop(name)


@pytest.fixture(scope="session")
def cluster(migrate_database: Migrate) -> Iterator[Cluster]:
    """The run's Postgres with the project's own schema."""
    with cluster_of("rift", migrate_database) as made:
        yield made


@pytest.fixture
def database(cluster: Cluster) -> Iterator[FreshDatabase]:
    """A database of this test's own, migrated and empty; gone after it."""
    with fresh_database(cluster) as fresh:
        yield fresh


@pytest.fixture
def clock() -> FakeClock:
    """A clock that the test moves."""
    return FakeClock()


@pytest.fixture
def ids() -> FakeIds:
    """Identifiers that are the same in every run."""
    return FakeIds()
