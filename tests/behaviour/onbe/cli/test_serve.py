"""`onbe serve`, `migrate`, `doctor`, `settings`: the real program, started, stopped, killed, refused."""

from __future__ import annotations

import json
import os
import pwd
import signal
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.behaviour.cli.systems import free_port
from tests.behaviour.onbe.cli.programs import Server, folder, onbe, processes, server

from keel.postgres import EmbeddedPostgres
from keel.settings import table
from keel.testing import eventually
from onbe.cli import checks
from onbe.cli.place import Place
from onbe.settings import OnbeSettings

AS_ROOT = os.geteuid() == 0
AGENT = {
    "agent_id": "scribe", "display_name": "Scribe", "allowed_scopes": ["docs:read"],
    "allowed_audiences": ["https://tool.example"], "max_delegation_depth": 1,
    "jwks_uri": "https://scribe.example/jwks.json",
}  # fmt: skip


@pytest.fixture(scope="module")
def up() -> Iterator[Server]:
    with server() as one:
        yield one


def test_a_first_start_serves_says_where_and_keeps_its_secrets_closed(up: Server) -> None:
    assert up.said[-4:-1] == [
        f"Onbe serves at {up.url} in development, for this machine alone",
        f"  the admin API's key: {up.data / 'admin.key'}",
        f"  in another terminal, first: export ONBE_DATA={up.data}",
    ]
    assert up.said[-1].startswith("  see it at work: ")
    assert up.get("/healthz").json() == {"status": "ok"}
    ready = up.get("/readyz")
    assert (ready.status_code, set(ready.json()["checks"].values())) == (200, {"ok"}), ready.text
    assert len(up.get("/.well-known/jwks.json").json()["keys"]) == 1
    assert up.get("/.well-known/oauth-authorization-server").json()["issuer"] == up.url
    secrets = [up.data / "admin.key", *(up.data / "keys").glob("*.pem")]
    assert len(secrets) == 2
    assert {stat.S_IMODE(path.stat().st_mode) for path in secrets} == {0o600}
    key = (up.data / "admin.key").read_text().strip()
    assert key not in "\n".join(up.said) + up.errors()


@pytest.mark.skipif(not AS_ROOT, reason="only root gives root away")
def test_as_root_the_server_owns_its_keys_and_nothing_else(up: Server) -> None:
    owners = {path.name: pwd.getpwuid(path.stat().st_uid).pw_name for path in up.data.iterdir()}
    assert {name for name, owner in owners.items() if owner == "onbe-server"} == {"keys", "audit"}
    assert {owner for name, owner in owners.items() if name not in ("keys", "audit")} <= {"root", "onbe-postgres"}
    for name in ("keys", "audit"):
        assert stat.S_IMODE((up.data / name).stat().st_mode) == 0o700


def test_a_second_server_on_the_same_data_is_told_where_the_first_one_is(up: Server) -> None:
    told = onbe("serve", "--development", "--data", up.data, "--port", str(free_port()))
    assert told.status == 1
    assert f"Onbe already runs on {up.data}: {up.url} (process " in told.err


def test_a_port_that_is_taken_is_named_and_nothing_was_made(up: Server) -> None:
    with folder() as data, socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = onbe("serve", "--development", "--data", data, "--port", str(port))
        assert told.status == 1
        assert f"onbe: cannot listen on 127.0.0.1:{port}: Address already in use. Onbe:Server:Port" in told.err
        assert not (data / "postgres").exists()
        assert not (data / "admin.key").exists()


@pytest.mark.skipif(AS_ROOT, reason="root may write everywhere")
@pytest.mark.parametrize("command", [("serve", "--development"), ("migrate",), ("doctor",), ("keys", "generate")])
def test_a_folder_that_cannot_be_written_is_told_with_what_to_do(command: tuple[str, ...], tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    try:
        told = onbe(*command, "--data", tmp_path)
    finally:
        tmp_path.chmod(0o755)
    assert told.status == 1
    assert f"nothing can be written to the data folder {tmp_path}" in told.err


def test_the_numbers_are_for_this_machine_and_hold_no_agents_name(up: Server) -> None:
    assert up.admin("POST", "/admin/agents", {**AGENT, "agent_id": "numbered"}).status_code == 201
    page = up.get("/metrics")
    assert page.status_code == 200
    for name in ("onbe_http_requests_total", "onbe_tasks_open", "onbe_agents", "onbe_database_up 1.0", "onbe_ticks"):
        assert name in page.text
    assert "numbered" not in page.text
    assert up.get("/metrics", **{"X-Forwarded-For": "192.0.2.1"}).status_code == 403
    assert up.get("/metrics", Host="onbe.example").status_code == 403


def test_a_crowd_from_this_machine_is_served_and_one_behind_a_proxy_is_not(up: Server) -> None:
    seen = [up.get("/.well-known/jwks.json", **{"X-Forwarded-For": f"192.0.2.{n}"}).status_code for n in range(3)]
    assert seen == [200] * 3


def test_doctor_says_a_line_a_check_and_no_secret(up: Server) -> None:
    told = onbe("doctor", "--data", up.data)
    names = [line[5:].partition(":")[0] for line in told.out.splitlines()]
    assert names == [
        "settings", "server", "keys", "database", "clock", "schema", "ledger", "identity provider", "sponsor directory",
    ]  # fmt: skip
    assert (told.status, {line[:4] for line in told.out.splitlines()}) == (0, {"ok  "})
    for secret in [(up.data / "admin.key").read_text().strip(), *(p.read_text() for p in up.data.glob("keys/*.pem"))]:
        assert secret not in told.out + told.err
    as_json = onbe("doctor", "--data", up.data, "--json").json
    assert [one["name"] for one in as_json] == names


def test_doctor_tells_of_a_file_of_settings_that_shows_a_secret_to_everybody() -> None:
    secret = "s" * 40
    texts = {
        f'[admin]\nkeys = "{secret}"\n': True,
        f'[telemetry]\nmetrics_token = "{secret}"\n': True,
        f'[sponsor_check]\nprovider = "scim"\ntoken = "{secret}"\n': True,  # not whole by itself
        "[limits]\nat_once = 64\n": False,
        "": False,
    }
    with folder() as data:
        for mode in (0o644, 0o604, 0o602, 0o640, 0o600):
            for text, secretive in texts.items():
                (data / "onbe.toml").write_text(text)
                (data / "onbe.toml").chmod(mode)
                found = [one for one in checks._settings(place_of(data)) if one.name == "file"]
                assert bool(found) == (secretive and bool(mode & 0o007)), (oct(mode), text)
                assert secret not in str(found)


def place_of(data: Path) -> Place:
    return Place(data, OnbeSettings())


async def test_a_database_that_is_away_is_told_and_comes_back_by_itself(up: Server) -> None:
    postgres = EmbeddedPostgres(up.data, name="onbe")
    pid = int((postgres.cluster / "postmaster.pid").read_text().split()[0])
    os.kill(pid, signal.SIGKILL)
    refused = up.admin("GET", "/admin/agents")
    assert refused.status_code in (200, 503), "one or the other, and never a fault"
    if refused.status_code == 503:
        assert refused.headers["retry-after"]
    assert up.get("/healthz").status_code == 200
    await eventually(lambda: up.get("/readyz").status_code == 200, within=60, every=0.3)
    assert up.admin("GET", "/admin/agents").status_code == 200
    assert int((postgres.cluster / "postmaster.pid").read_text().split()[0]) != pid


KEPT = "k" * 43


@pytest.mark.parametrize(
    ("text", "mode", "told"),
    [
        ("", 0o600, "holds no key of at least 32 characters"),
        ("short", 0o600, "holds no key of at least 32 characters"),
        (f"{KEPT}\n{KEPT}\n", 0o600, "holds no key of at least 32 characters"),
        (f"{KEPT}\n", 0o644, "others may know the key in"),
        (f"{KEPT}\n", 0o620, "others may know the key in"),
        (None, 0o600, "cannot be read"),
    ],
)  # fmt: skip
def test_a_file_of_the_admin_key_that_cannot_be_trusted_is_named_and_nothing_of_it_is_told(
    text: str | None, mode: int, told: str
) -> None:
    with folder() as data:
        if text is None:  # who may write there lays a link, and root would read what it leads to
            (data / "else").write_text(f"{KEPT}\n")
            (data / "admin.key").symlink_to(data / "else")
        else:
            (data / "admin.key").write_text(text)
            (data / "admin.key").chmod(mode)
        refused = onbe("serve", "--development", "--data", data, "--port", str(free_port()))
        assert refused.status == 1
        assert told in refused.err
        assert str(data / "admin.key") in refused.err
        assert not text or text.strip().splitlines()[0] not in refused.out + refused.err
        assert "a fault" not in refused.err


async def test_what_was_registered_outlives_a_kill_and_the_key_stays_the_same() -> None:
    with server() as one:
        assert one.admin("POST", "/admin/agents", AGENT).status_code == 201
        before = one.get("/.well-known/jwks.json").json()
        one.kill()
        await eventually(lambda: processes(one.data) == [], within=30)
        one.start()
        assert one.admin("GET", "/admin/agents/scribe").json()["display_name"] == "Scribe"
        assert one.get("/.well-known/jwks.json").json() == before
        for number in (signal.SIGINT, signal.SIGTERM):
            one.end(number)
            assert processes(one.data) == []
            assert not EmbeddedPostgres(one.data, name="onbe").running(), "its own database ends with it"
            one.start()


def test_every_wrong_setting_is_named_at_once_and_no_value_is_repeated() -> None:
    wrong = {
        "Onbe__Server__Port": "hunter2", "ONBE__TOKENS__DEFAULT_TASK_TTL": "hunter2", "Onbe__Admin__Keys": "hunter2",
        "Onbe__SponsorCheck__Provider": "hunter2", "Onbe__Database__Url": "hunter2",
        "Onbe__Tokens__Nonsense": "hunter2", "Onbe__Limits__PerSource": "0",
    }  # fmt: skip
    with folder() as data:
        told = onbe("serve", "--data", data, env=wrong)
        assert told.status == 1
        for name in ("Server:Port", "Tokens:DefaultTaskTtl", "Admin:Keys", "SponsorCheck:Provider", "Database:Url",
                     "Tokens:Nonsense", "Limits:PerSource"):  # fmt: skip
            assert f"Onbe:{name}" in told.err
        assert "hunter2" not in told.err


def test_a_start_outside_development_names_everything_that_is_missing() -> None:
    with folder() as data:
        told = onbe("serve", "--data", data, "--port", str(free_port()))
        assert told.status == 1
        assert "Onbe:SponsorCheck:Provider" in told.err
        assert "Onbe:Subjects:Issuer" in told.err
        assert "serve --development" in told.err
        assert not (data / "postgres").exists()


def test_a_start_without_a_key_outside_development_says_how_to_make_one() -> None:
    complete = {
        "Onbe__Subjects__Issuer": "https://id.example", "Onbe__Subjects__Audiences": "onbe",
        "Onbe__SponsorCheck__Provider": "scim", "Onbe__SponsorCheck__Url": "https://id.example/scim/v2",
        "Onbe__SponsorCheck__Token": "scim-token-of-the-tests",
    }  # fmt: skip
    with folder() as data:
        told = onbe("serve", "--data", data, "--port", str(free_port()), env=complete)
        assert told.status == 1, told
        assert "onbe keys generate" in told.err or "keys generate" in told.err
        assert "scim-token-of-the-tests" not in told.err
        assert processes(data) == []


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1"])
def test_development_is_refused_where_others_could_reach_it(host: str) -> None:
    with folder() as data:
        told = onbe("serve", "--development", "--data", data, "--port", str(free_port()), "--host", host)
        assert told.status == 1
        assert "for this machine alone" in told.err


def test_settings_are_told_as_a_table_and_as_data() -> None:
    rows = table(OnbeSettings)
    told = onbe("settings")
    assert [line.split()[0] for line in told.out.splitlines()] == [row.name for row in rows]
    assert [row["name"] for row in onbe("settings", "--json").json] == [row.name for row in rows]


def test_migrate_brings_a_database_to_the_newest_step_and_again_changes_nothing(tmp_path: Path) -> None:
    with folder() as data:
        for _ in range(2):
            told = onbe("migrate", "--data", data)
            assert (told.status, told.out) == (0, "The database is at step 0001.\n"), told
        found = json.loads(onbe("doctor", "--data", data, "--json").out)
        assert {one["name"]: one["ok"] for one in found}["schema"] is True


@pytest.mark.parametrize("command", [(), ("serve",), ("migrate",), ("doctor",), ("settings",)])
def test_every_command_explains_itself(command: tuple[str, ...]) -> None:
    told = onbe(*command, "--help")
    assert told.status == 0
    assert "Example: onbe" in told.out or not command
