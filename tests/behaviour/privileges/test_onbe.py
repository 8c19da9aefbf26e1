"""What the user of Onbe's server tries beyond its part, beside a whole Rift of root's; and Rift's beyond its own."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.behaviour.cli.systems import Running, free_port, system
from tests.behaviour.privileges.table import AS_ROOT
from tests.behaviour.privileges.test_reach import DATABASE, READ, WRITE
from tests.behaviour.privileges.test_table import main_of, onbes

from keel.postgres import EmbeddedPostgres
from keel.testing import eventually
from rift.cli.place import ONBE, SERVER_USER

pytestmark = pytest.mark.skipif(not AS_ROOT, reason="where a user started Rift, all of it is that user's")

TRY = """
import json, os, sys
from keel.dropping import become
become(int(sys.argv[1]), int(sys.argv[2]), parent=os.getppid())
def done(act, *words):
    try:
        return f"did {act(*words)!r:.200}"
    except OSError as error:
        return f"no: {error.strerror or error}"
    except Exception as error:
        return f"no: {type(error).__name__}: {error}"
"""
CLOSED = "no: Permission denied"


@pytest.fixture(scope="module")
def up() -> Iterator[Running]:
    with system({"Rift__Onbe__Enabled": "true", "Onbe__Server__Port": str(free_port())}) as one:
        yield one


@pytest.fixture(autouse=True)
async def serving(up: Running) -> None:
    await eventually(
        lambda: (up.data / "onbe" / "keys" / "active").exists() and onbes(up)["onbe"], within=60, every=0.2
    )


def tries(up: Running, user: str, body: str, *words: str) -> dict[str, str]:
    """What happens to each attempt of `body`, which prints them as JSON, as that user."""
    who = pwd.getpwnam(user)
    done = subprocess.run(
        [sys.executable, "-P", "-c", TRY + body, str(who.pw_uid), str(who.pw_gid), str(up.data), *words],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told: dict[str, str] = json.loads(done.stdout)
    return told


def onbe_user() -> str:
    assert ONBE.guest
    return ONBE.guest


def test_onbes_user_reads_its_keys_and_nothing_of_rifts_or_of_its_keepers(up: Running) -> None:
    data, (server,) = up.data, onbes(up)["onbe"]
    keepers = [*onbes(up)["onbe keeper"], main_of(data / "rift.lock")]
    paths = [
        "/etc/shadow", "/root", *(f"/proc/{pid}/{name}" for pid in keepers for name in ("environ", "fd", "cwd")),
        str(data), *(str(data / name) for name in ("audit", "vault", "boxes", "mirrors", "rift.lock", "onbe")),
        *map(str, (data / "onbe" / "admin.key", data / "onbe" / "onbe.lock")),
        *map(str, (data / "postgres" / "cluster", data / "postgres" / "log", data / "postgres" / "run")),
    ]  # fmt: skip
    told = tries(up, onbe_user(), READ, *paths)
    assert {path: said for path, said in told.items() if said != CLOSED} == {}
    (key,) = (data / "onbe" / "keys").glob("*.pem")
    assert tries(up, onbe_user(), READ, str(key))[str(key)].startswith("did ")
    for other in (SERVER_USER, "nobody", "daemon"):
        told = tries(up, other, READ, str(key), str(data / "onbe" / "keys"), f"/proc/{server}/environ")
        assert set(told.values()) == {CLOSED}, (other, told)


def test_onbes_user_writes_its_keys_and_its_seal_and_owns_nothing_else(up: Running) -> None:
    data, mine = up.data, ("keys", "audit")
    kept = tuple(str(data / "onbe" / name) for name in mine)
    folders = [path for path, _, _ in os.walk(data) if not path.startswith(kept)]
    told = tries(up, onbe_user(), WRITE, *folders[:500])
    assert len(told) > 20
    assert {path: said for path, said in told.items() if said != CLOSED} == {}
    uid = pwd.getpwnam(onbe_user()).pw_uid
    owned = {Path(path, name).relative_to(data).parts[:2] for path, folders, files in os.walk(data)
             for name in (*folders, *files) if os.lstat(f"{path}/{name}").st_uid == uid}  # fmt: skip
    assert owned == {("onbe", name) for name in mine}


def test_each_servers_user_is_its_own_runtime_role_in_its_own_database(up: Running) -> None:
    postgres = EmbeddedPostgres(up.data, guest=SERVER_USER, tenants=(ONBE,))
    onbe, rift = postgres.tenant_urls(ONBE)["runtime"], postgres.url("rift_runtime")
    beyond = [
        onbe.replace("onbe_runtime@", f"{role}@") for role in ("onbe_owner", "rift_runtime", "rift_owner", "postgres")
    ]
    into = onbe.replace("/onbe?", "/rift?")
    told = tries(up, onbe_user(), DATABASE, onbe, rift, into, *beyond)
    assert told[onbe] == "did ('onbe_runtime',)"
    assert "Permission denied" in told[rift]
    assert "permission denied for database" in told[into]
    assert all("Peer authentication failed" in told[url] for url in beyond), told
    told = tries(up, SERVER_USER, DATABASE, rift, onbe, postgres.url("rift_runtime", "onbe"))
    assert told[rift] == "did ('rift_runtime',)"
    assert "Permission denied" in told[onbe]
    assert "permission denied for database" in told[postgres.url("rift_runtime", "onbe")]


def test_onbes_runtime_role_may_not_change_its_ledger(up: Running) -> None:
    url = EmbeddedPostgres(up.data, tenants=(ONBE,)).tenant_urls(ONBE)["runtime"]
    body = """
import psycopg
def run(statement):
    with psycopg.connect(sys.argv[4]) as connection:
        return connection.execute(statement).rowcount
print(json.dumps({one: done(run, one) for one in sys.argv[5:]}))
"""
    tables = ("ledger", "ledger_leaves", "ledger_keys", "ledger_checkpoints")
    words = [f"{verb} onbe.{table}" for table in tables for verb in ("DELETE FROM", "TRUNCATE", "DROP TABLE")]
    told = tries(up, onbe_user(), body, url, *words, "CREATE TABLE onbe.mine (n int)", "CREATE SCHEMA mine")
    assert {one: said for one, said in told.items() if "InsufficientPrivilege" not in said} == {}
