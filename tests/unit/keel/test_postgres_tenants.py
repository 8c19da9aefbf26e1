"""One cluster, several databases: each with its own roles and, as root, its own door."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from keel.postgres import SUPERUSER, EmbeddedPostgres, Tenant
from keel.testing import scratch

NOBODY, DAEMON = pwd.getpwuid(65534).pw_name, pwd.getpwuid(1).pw_name
"""System users that are there before any test."""
LODGER = Tenant("lodger", guest=DAEMON)
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root has guests")


@pytest.fixture
def data() -> Iterator[Path]:
    """A data folder that a system user may pass; its name has a blank, as folders may."""
    folder = Path(tempfile.mkdtemp(prefix="keel pg ", dir=scratch()))
    folder.chmod(0o711)
    yield folder
    house(folder).remove()
    shutil.rmtree(folder)


def house(data: Path, *tenants: Tenant) -> EmbeddedPostgres:
    return EmbeddedPostgres(data, guest=NOBODY, tenants=tenants or (LODGER,))


def who(url: str) -> str:
    """As which role one is in which database there, or why not."""
    try:
        with psycopg.connect(url) as connection:
            row = connection.execute("SELECT current_user || ' in ' || current_database()").fetchone()
            return str(row[0]) if row else ""
    except psycopg.OperationalError as error:
        return str(error)


def who_as(name: str, url: str) -> str:
    """The same, for another system user."""
    user = pwd.getpwnam(name)
    program = (
        "import sys, os, psycopg\n"
        "os.setgroups([]); os.setresgid(*[int(sys.argv[2])] * 3); os.setresuid(*[int(sys.argv[1])] * 3)\n"
        "try: print(*psycopg.connect(sys.argv[3]).execute('SELECT current_user, current_database()').fetchone())\n"
        "except psycopg.OperationalError as error: print(error)\n"
    )
    words = [sys.executable, "-c", program, str(user.pw_uid), str(user.pw_gid), url]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout.strip()


def pid(postgres: EmbeddedPostgres) -> int:
    return int((postgres.cluster / "postmaster.pid").read_text().split()[0])


def test_a_tenant_has_a_database_and_two_roles_of_its_own(data: Path) -> None:
    postgres = house(data)
    postgres.start()
    urls = postgres.tenant_urls(LODGER)
    assert who(urls["runtime"]) == "lodger_runtime in lodger"
    assert who(urls["owner"]) == "lodger_owner in lodger"
    assert who(postgres.url()) == "rift_runtime in rift"
    assert who(postgres.url("rift_owner")) == "rift_owner in rift"


@pytest.mark.parametrize(("role", "database"), [("lodger_runtime", "rift"), ("rift_runtime", "lodger"),
                                                ("lodger_owner", "rift"), ("rift_owner", "lodger")])  # fmt: skip
def test_nobody_gets_into_the_database_of_another(data: Path, role: str, database: str) -> None:
    postgres = house(data)
    postgres.start()
    assert "permission denied for database" in who(postgres.url(role, database))


def test_a_tenant_moves_into_a_cluster_that_was_there_before_it(data: Path) -> None:
    alone = EmbeddedPostgres(data)
    alone.start()
    with psycopg.connect(alone.url("rift_owner"), autocommit=True) as connection:
        connection.execute("CREATE TABLE kept (n integer)")
    postgres = house(data)
    postgres.start()
    assert who(postgres.tenant_urls(LODGER)["runtime"]) == "lodger_runtime in lodger"
    with psycopg.connect(postgres.url("rift_owner")) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)
    server = pid(postgres)
    for _ in range(2):  # nor is it started again, or changed, by whoever comes next, with tenants or without
        postgres.start()
        EmbeddedPostgres(data, guest=NOBODY).start()
    assert pid(postgres) == server
    assert who(postgres.tenant_urls(LODGER)["owner"]) == "lodger_owner in lodger"


def test_a_second_tenant_moves_in_beside_the_first_and_none_is_forgotten(data: Path) -> None:
    house(data).start()
    second = Tenant("second")
    both = house(data, LODGER, second)
    both.start()
    house(data).stop()
    both.start()
    assert who(both.tenant_urls(second)["runtime"]) == "second_runtime in second"
    assert who(both.tenant_urls(LODGER)["runtime"]) == "lodger_runtime in lodger"
    assert "permission denied for database" in who(both.url("second_runtime", "lodger"))


def test_a_role_that_a_migration_made_before_may_log_in(data: Path) -> None:
    alone = EmbeddedPostgres(data)
    alone.start()
    with psycopg.connect(alone.url(SUPERUSER, "postgres"), autocommit=True) as connection:
        connection.execute("CREATE ROLE lodger_runtime NOLOGIN")
    postgres = house(data)
    postgres.start()
    assert who(postgres.tenant_urls(LODGER)["runtime"]) == "lodger_runtime in lodger"


def test_many_starts_at_once_house_a_tenant_once(data: Path) -> None:
    EmbeddedPostgres(data).start()
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: house(data).start(), range(4)))
    assert who(house(data).tenant_urls(LODGER)["owner"]) == "lodger_owner in lodger"


def test_a_start_that_was_killed_before_it_noted_its_tenant_is_finished_by_the_next(data: Path) -> None:
    postgres = house(data)
    postgres.start()
    (postgres.place / "tenants").unlink()
    with psycopg.connect(postgres.url(SUPERUSER, "postgres"), autocommit=True) as connection:
        connection.execute("DROP DATABASE lodger")
        connection.execute("DROP ROLE lodger_owner")
    postgres.start()
    assert who(postgres.tenant_urls(LODGER)["owner"]) == "lodger_owner in lodger"


@AS_ROOT
def test_each_guest_has_its_own_door_and_is_its_own_runtime_role_alone(data: Path) -> None:
    postgres = house(data)
    postgres.start()
    urls = postgres.tenant_urls(LODGER)
    assert who_as(DAEMON, urls["runtime"]) == "lodger_runtime lodger"
    assert who_as(NOBODY, postgres.url()) == "rift_runtime rift"
    for name, folder in ((DAEMON, "run-lodger"), (NOBODY, "run")):
        state = (postgres.place / folder).stat()
        assert (stat.S_IMODE(state.st_mode), state.st_gid) == (0o710, pwd.getpwnam(name).pw_gid)
    # Neither passes the other's door, nor is it anybody else through its own.
    assert "Permission denied" in who_as(DAEMON, postgres.url("lodger_runtime", "lodger"))
    assert "Permission denied" in who_as(NOBODY, urls["runtime"])
    for role in ("lodger_owner", "rift_runtime", "rift_owner", SUPERUSER):
        wanted = urls["runtime"].replace("lodger_runtime@", f"{role}@")
        assert "Peer authentication failed" in who_as(DAEMON, wanted)
    for role in ("lodger_runtime", "lodger_owner", SUPERUSER):
        assert "Peer authentication failed" in who_as(NOBODY, postgres.url(role, "lodger"))
    assert "permission denied for database" in who_as(DAEMON, urls["runtime"].replace("/lodger?", "/rift?"))
