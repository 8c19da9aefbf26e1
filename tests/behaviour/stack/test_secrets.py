"""A secret that commands of two boxes use, looked for wherever a running Rift says, keeps or runs anything."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from tests.behaviour.stack.collector import Collector, collecting
from tests.behaviour.stack.hands import Hands, Said
from tests.behaviour.stack.program import ADA, REPO, done
from tests.behaviour.stack.stack import Stack

from keel.testing import eventually
from keel.testing.plugin import Cluster
from rift import app
from rift.origins import actions as origins
from rift.secrets import actions as secrets
from rift.secrets.model import Changed
from rift.settings import RiftSettings

VALUE = "sk_live_9081726354_swordfish"
OTHER = "acme/other"
NOBODY = 65_534


@pytest.fixture(scope="module")
def watched(cluster: Cluster) -> Iterator[tuple[Stack, Collector]]:
    """Rift with a collector and the most talkative log."""
    name = f"searched_{os.getpid()}"
    wanted = {"Rift__Log__Level": "debug", "Rift__Log__Format": "json"}
    with collecting() as collector, pytest.MonkeyPatch.context() as patch:
        for variable, value in {**wanted, "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}.items():
            patch.setenv(variable, value)
        stack = Stack(cluster.create(name))
        try:
            stack.start()
            yield stack, collector
        finally:
            stack.end()
            cluster.drop(name)


async def prepare(stack: Stack) -> None:
    """The secret is set as `rift secret set` does it, and there is a repository without any."""
    async with app.connect(RiftSettings(), stack.data, stack.database.runtime) as deps:
        done(await origins.add_repo(deps, ADA, OTHER, str(stack.data / "origin")))
        assert isinstance(await secrets.operator_put(deps, REPO, "API_KEY", VALUE), Changed)


def holding(file: str) -> set[int]:
    """The processes of the whole host that have the value in `/proc/PID/file`."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            held = VALUE.encode() in (process / file).read_bytes()
        except OSError:  # it ended meanwhile
            continue
        if held:
            found.add(int(process.name))
    return found - {os.getpid()}


def written(folder: Path) -> list[str]:
    """The files that hold the value."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return [str(path.relative_to(folder)) for path in files if VALUE.encode() in path.read_bytes()]


def rows(stack: Stack) -> str:
    """Every row of every table, as text."""
    tables = stack.sql("SELECT format('%%I.%%I', schemaname, tablename) AS name FROM pg_tables"
                       " WHERE schemaname NOT IN ('pg_catalog', 'information_schema')")  # fmt: skip
    assert "public.secrets" in {table["name"] for table in tables}
    return "".join(str(stack.sql(f"SELECT t::text AS row FROM {table['name']} t")) for table in tables)


@pytest.mark.timeout(280)
@pytest.mark.skipif(os.getuid() != 0, reason="only root sees every process of the host")
async def test_a_value_that_two_boxes_use_is_nowhere_but_in_their_own_processes(
    watched: tuple[Stack, Collector],
) -> None:
    stack, collector = watched
    await prepare(stack)
    hands = Hands(stack)
    await hands.open()
    first, second = await hands.take(), await hands.take()
    assert (await hands.call("rift_watch", repo=OTHER, ref="main", warm=0)).refused is None
    other = (await hands.call("rift_vm_new", task=hands.task, repo=OTHER, ref="main")).found(r"^id (b-[0-9a-f]{24})")

    async def runs() -> bool:
        return await hands.status(other) == "running"

    await eventually(runs, within=60, every=0.2)
    said: list[Said] = []
    for box in (first, second):
        assert (await hands.bash('printf %s "$API_KEY" | wc -c', vm=box))["output"] == f"{len(VALUE)}\n"
        said.append(await hands.bash('env; echo "$API_KEY"; echo "$API_KEY" > ~/kept; $API_KEY; exit 3', vm=box))
        said.append(await hands.bash("exec sleep 60", timeout=90, block_for=0, vm=box))
    hands.vm = first
    said += [await hands.read("/home/dev/kept"), await hands.bash(f"echo 'typed {VALUE}'")]
    said.append(await hands.bash('for i in 1 2 3; do printf %s "$API_KEY"; sleep 0.1; done; /no/$API_KEY'))

    # While both run: whose processes have it, who can see that, and what a box of another repository sees.
    own = {int(line.split()[0]) for box in (first, second) for line in stack.processes(box)}
    having = holding("environ")
    assert len(having) >= 2
    assert having <= own, [line for box in (first, second, other) for line in stack.processes(box)]
    assert holding("cmdline") == set()
    for pid in having:
        seen = await asyncio.to_thread(
            subprocess.run, ["cat", f"/proc/{pid}/environ"], user=NOBODY, capture_output=True, check=False
        )
        assert (seen.returncode, seen.stdout) == (1, b"")
    look = "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'; env; echo \"[$API_KEY]\""
    abroad = await hands.bash(look, vm=other)
    assert "HOME=" in abroad["output"]
    assert abroad["output"].endswith("[]\n")
    said.append(abroad)

    said += [await hands.call("rift_audit", task=hands.task), await hands.call("rift_vm_ls", task=hands.task)]
    told = "".join(one.text + str(one.structure) for one in said)
    assert VALUE not in told
    assert told.count("***") > 10
    async with httpx2.AsyncClient() as http:
        numbers = (await http.get(stack.url.removesuffix("/mcp") + "/metrics")).text
    assert "rift_commands_ended_total" in numbers
    assert VALUE not in numbers
    await eventually(lambda: any(span.name == "command" for span in collector.spans), within=20)
    assert VALUE.encode() not in collector.raw
    kept = rows(stack)
    assert "***" in kept
    for spelled in (VALUE, VALUE.encode().hex()):
        assert spelled not in kept
    assert '"event": "http.request"' in (stack.data / "log").read_text()
    homes = [f"boxes/{box}/home/kept" for box in (first, second)]
    assert sorted(written(stack.data)) == sorted(homes)  # where the commands themselves wrote it
    await hands.close()
