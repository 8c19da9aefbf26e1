"""`rift up` starts Onbe too: a program of its own, in the same embedded database, for as long as Rift runs."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import psycopg
import pytest
from tests.behaviour.cli.systems import RIFT, environment, folder, free_port, rift
from tests.processes import near

from keel.holding import holder
from keel.postgres import EmbeddedPostgres
from keel.testing import eventually, scratch
from rift.cli import beside
from rift.cli.place import Place
from rift.settings import OnbeSettings, RiftSettings, ServerSettings

WITHIN = 60.0


@dataclass
class Both:
    """A `rift up`, and Onbe beside it."""

    data: Path
    port: int = field(default_factory=free_port)
    onbe_port: int = field(default_factory=free_port)
    process: subprocess.Popen[str] | None = None

    def start(self, *options: str, env: Mapping[str, str] | None = None) -> None:
        told = {"Rift__Onbe__Enabled": "true", "Onbe__Server__Port": str(self.onbe_port), **(env or {})}
        with (self.data / "up.out").open("w") as out, (self.data / "up.err").open("a") as errors:
            self.process = subprocess.Popen(
                [RIFT, "up", "--data", str(self.data), "--port", str(self.port), *options],
                stdout=out, stderr=errors, text=True, env=environment(told),
            )  # fmt: skip

    def end(self, number: int = signal.SIGTERM) -> int:
        assert self.process
        self.process.send_signal(number)
        return self.process.wait(60)

    def out(self) -> str:
        return (self.data / "up.out").read_text()

    def errors(self) -> str:
        return (self.data / "up.err").read_text()

    def answers(self, port: int, path: str = "/readyz") -> bool:
        try:
            return httpx2.get(f"http://127.0.0.1:{port}{path}", timeout=5).status_code == 200
        except httpx2.HTTPError:
            return False

    def onbe_pid(self) -> int:
        told = holder(self.data / "onbe" / "onbe.lock")
        assert told
        return int(told["pid"])

    def onbes(self) -> list[int]:
        """Every process of Onbe's, but the database's."""
        return [pid for pid, said in near(str(self.data / "onbe")).items() if "postgres" not in said]

    async def both_answer(self) -> None:
        await eventually(lambda: self.answers(self.port, "/healthz"), within=WITHIN, every=0.2)
        await eventually(lambda: self.answers(self.onbe_port), within=WITHIN, every=0.2)


@pytest.fixture(scope="module")
def used() -> Iterator[Path]:
    """A data folder for starts that may come after others: the database is there, and runs on between them."""
    with folder(scratch()) as data:
        yield data


@contextmanager
def system(
    *options: str, env: Mapping[str, str] | None = None, data: Path | None = None, onbe_port: int = 0
) -> Iterator[Both]:
    """A `rift up` on `data`, or on a folder of its own."""
    with nullcontext(data) if data else folder(scratch()) as place:
        (place / "up.err").unlink(missing_ok=True)
        one = Both(place, onbe_port=onbe_port or free_port())
        one.start(*options, env=env)
        try:
            yield one
        finally:
            if one.process and one.process.poll() is None:
                one.process.kill()
                one.process.wait()


async def test_both_run_from_one_command_share_a_database_server_and_end_together() -> None:
    with system() as both:
        await both.both_answer()
        key = both.data / "onbe" / "admin.key"
        await eventually(lambda: str(key) in both.out(), within=WITHIN)
        assert f"Onbe serves at http://127.0.0.1:{both.onbe_port} in development, for this machine alone" in both.out()
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        assert not (both.data / "onbe" / "postgres").exists(), "it has no database server of its own"
        urls = json.loads((both.data / "onbe" / "database.json").read_text())
        with psycopg.connect(urls["owner"]) as connection:
            found = connection.execute("SELECT count(*) FROM onbe.alembic_version").fetchone()
        assert found == (1,)
        with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
            psycopg.connect(EmbeddedPostgres(both.data).url("rift_runtime", "onbe"))

        # Onbe dies: that is said, Rift goes on, and it comes back.
        before = both.onbe_pid()
        os.kill(before, signal.SIGKILL)
        await eventually(lambda: "Onbe ended by signal 9; Rift goes on" in both.errors(), within=WITHIN)
        assert both.answers(both.port, "/healthz")
        await eventually(lambda: both.answers(both.onbe_port) and both.onbe_pid() != before, within=WITHIN, every=0.2)

        # Rift is killed: Onbe ends with it, and the next start brings both back, with the same admin key.
        words = key.read_text()
        assert both.process
        both.process.kill()
        both.process.wait()
        await eventually(lambda: both.onbes() == [], within=WITHIN, every=0.2)
        both.start()
        await both.both_answer()
        assert key.read_text() == words

        # rift down ends both, and the database with them.
        down = rift("down", "--data", both.data)
        assert down.status == 0, down
        assert both.process.wait(60) == 0
        assert both.onbes() == []
        assert not EmbeddedPostgres(both.data).running()


async def test_a_signal_ends_both_and_leaves_the_database(used: Path) -> None:
    with system(data=used) as both:
        await both.both_answer()
        assert both.end(signal.SIGINT) == 0
        assert both.onbes() == []
        assert EmbeddedPostgres(both.data).running()


@pytest.mark.parametrize("how", ["rift down", "Ctrl-C"])
async def test_an_onbe_that_is_only_starting_ends_with_rift_and_that_is_no_fault_of_it(how: str) -> None:
    with system() as both:
        await eventually(lambda: holder(both.data / "onbe" / "onbe.lock") is not None, within=WITHIN, every=0.02)
        if how == "rift down":
            down = rift("down", "--data", both.data)
            assert down.status == 0, down
            assert both.process
            assert both.process.wait(60) == 0
        else:
            assert both.end(signal.SIGINT) == 0
        assert both.onbes() == []
        assert "ended" not in both.errors()


async def test_without_onbe_rift_is_alone() -> None:
    with system("--without-onbe") as both:
        await eventually(lambda: "Ctrl-C stops the server" in both.out(), within=WITHIN)
        assert not (both.data / "onbe").exists()
        assert both.onbes() == []
        assert "Onbe" not in both.out() + both.errors()


async def test_a_port_that_is_taken_is_named_and_rift_goes_on_until_it_is_free(used: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, system(data=used, onbe_port=taken.getsockname()[1]) as both:
        said = f"onbe: cannot listen on 127.0.0.1:{both.onbe_port}: Address already in use. Onbe__Server__Port"
        await eventually(lambda: said in both.errors(), within=WITHIN, every=0.2)
        await eventually(lambda: both.answers(both.port, "/healthz"), within=WITHIN, every=0.2)
        taken.close()
        await eventually(lambda: both.answers(both.onbe_port), within=WITHIN, every=0.2)
        assert both.end() == 0


async def test_wrong_settings_of_onbes_are_told_and_do_not_keep_rift_from_serving(used: Path) -> None:
    with system(env={"Onbe__SponsorCheck__Provider": "hunter2"}, data=used) as both:
        await eventually(lambda: "Onbe:SponsorCheck:Provider" in both.errors(), within=WITHIN, every=0.2)
        await eventually(lambda: both.answers(both.port, "/healthz"), within=WITHIN, every=0.2)
        assert "hunter2" not in both.errors()
        assert both.end() == 0


def test_the_demo_plays_onbes_story_after_rifts() -> None:
    env = {"Rift__Onbe__Enabled": "true", "Onbe__Server__Port": str(free_port())}
    with folder() as data:
        played = rift("up", "--demo", "--data", data, "--port", str(free_port()), env=env)
        assert played.status == 0, played
        told = played.out
        assert "Onbe serves at" not in told, "what it says of itself is no part of the story"
        assert told.index("rift_task_new") < told.index("The Onbe demo at"), told
        assert near(str(data)) == {}


HERE = RiftSettings()
ELSEWHERE = RiftSettings(server=ServerSettings(host="192.0.2.1"))
PROXIED = RiftSettings(server=ServerSettings(public_url="https://rift.example"))


@pytest.mark.parametrize(
    ("settings", "environment", "toml", "how"),
    [
        (HERE, {}, False, "development"),
        (HERE, {"Onbe__Server__Port": "7500", "ONBE__LOG__LEVEL": "info"}, False, "development"),
        (HERE, {"onbe__subjects__issuer": "https://id.example"}, False, "configured"),
        (HERE, {"Onbe__Development__Enabled": "true"}, False, "configured"),
        (HERE, {}, True, "configured"),
        (ELSEWHERE, {}, False, "unconfigured"),
        (PROXIED, {}, False, "unconfigured"),
        (ELSEWHERE, {}, True, "configured"),
        (RiftSettings(onbe=OnbeSettings(enabled=False)), {"Onbe__Subjects__Issuer": "x"}, True, "off"),
    ],
)
def test_whether_and_how_onbe_is_started(
    settings: RiftSettings, environment: dict[str, str], toml: bool, how: beside.Mode, tmp_path: Path
) -> None:
    place = Place(tmp_path, settings)
    if toml:
        place.onbe.mkdir()
        (place.onbe / "onbe.toml").touch()
    assert beside.mode(place, environment) == how
    assert ("--development" in beside.command(place, how)) is (how == "development")
