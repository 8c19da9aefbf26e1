"""Two processes of root's that live and end as one."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.behaviour.cli.systems import Running, folder, processes, rift, system
from tests.behaviour.privileges.table import AS_ROOT
from tests.behaviour.privileges.test_table import children, main_of, serving

from keel.postgres import EmbeddedPostgres
from keel.testing import eventually

pytestmark = pytest.mark.skipif(not AS_ROOT, reason="started by a user there is one process")


@pytest.fixture(scope="module")
def up() -> Iterator[Running]:
    with system() as one:
        yield one


def both(up: Running) -> tuple[int, int]:
    keeper = main_of(up.data / "rift.lock")
    return keeper, serving(keeper)[0]


def ended(up: Running) -> int:
    """How the keeper ended."""
    assert up.process
    up.process.communicate(timeout=30)
    code = up.process.returncode
    up.process = None
    return code


def gone(pid: int) -> bool:
    return (
        not os.path.exists(f"/proc/{pid}") or Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    )


async def test_a_killed_server_ends_its_keeper_with_an_error_and_boxes_live_on(up: Running) -> None:
    if up.process is None:
        up.up()
    task, box = await up.take()
    sleeping = await up.bash(task, box, "sleep 300", timeout=600, block_for=0)
    _, server = both(up)
    os.kill(server, signal.SIGKILL)
    assert await asyncio.to_thread(ended, up) == 1
    assert "the server was ended by signal 9; boxes and database live on" in up.errors()
    up.up()
    listed = (await up.call("rift_vm_ls", task=task))[1]["vms"]
    assert [command["id"] for vm in listed for command in vm["open_commands"]] == [sleeping["command"]]
    await up.call("rift_task_close", task=task)


async def test_a_killed_keeper_takes_the_server_along_and_the_next_start_finds_the_port_free(up: Running) -> None:
    if up.process is None:
        up.up()
    task, box = await up.take()
    sleeping = await up.bash(task, box, "sleep 300", timeout=600, block_for=0)
    _, server = both(up)
    up.kill()
    up.up()  # at once
    assert gone(server)
    listed = (await up.call("rift_vm_ls", task=task))[1]["vms"]
    assert [command["id"] for vm in listed for command in vm["open_commands"]] == [sleeping["command"]]
    await up.call("rift_task_close", task=task)


@pytest.mark.parametrize("whom", ["the group", "both", "the server", "the keeper, twice in a row"])
async def test_whoever_hears_the_signal_the_end_is_a_good_one(up: Running, whom: str) -> None:
    """Ctrl-C reaches a terminal's foreground group, systemd a whole control group, `kill` one of them."""
    if up.process is None:
        up.up()
    keeper, server = both(up)
    if whom == "the group":
        assert os.getpgid(server) != os.getpgid(keeper)  # so that it hears of Ctrl-C once, from its keeper
        os.kill(keeper, signal.SIGINT)
    elif whom == "both":
        for pid in (keeper, server):
            os.kill(pid, signal.SIGTERM)
    elif whom == "the server":
        os.kill(server, signal.SIGTERM)
    else:
        for _ in range(2):
            os.kill(keeper, signal.SIGTERM)  # the kernel makes one of them, or the second one ends it at once
    assert up.process
    said, _ = await asyncio.to_thread(up.process.communicate, None, 30)
    code, up.process = up.process.returncode, None
    if whom.startswith("the keeper"):
        assert code in (0, 1)
    else:
        assert code == 0, up.errors()
        assert "The server has stopped; " in said
    assert gone(server)


async def test_a_server_that_does_not_answer_is_ended_by_a_second_signal(up: Running) -> None:
    if up.process is None:
        up.up()
    keeper, server = both(up)
    os.kill(server, signal.SIGSTOP)
    os.kill(keeper, signal.SIGINT)
    await eventually(lambda: _heard(keeper), within=10)
    os.kill(keeper, signal.SIGINT)
    assert await asyncio.to_thread(ended, up) == 1
    assert gone(server)


def _heard(pid: int) -> bool:
    """Whether a signal that was sent has been taken: none is pending."""
    text = Path(f"/proc/{pid}/status").read_text()
    return all(int(line.split()[1], 16) == 0 for line in text.splitlines() if line.startswith(("SigPnd", "ShdPnd")))


async def test_a_folder_of_an_earlier_version_whose_database_runs_is_put_right(up: Running) -> None:
    """There everything was root's: the database knew root alone, and its folder was closed to all others."""
    if up.process is not None:
        await asyncio.to_thread(up.end)
    postgres = EmbeddedPostgres(up.data)
    lines = (postgres.place / "pg_ident.conf").read_text().splitlines(keepends=True)
    (postgres.place / "pg_ident.conf").write_text("".join(line for line in lines if "rift-server" not in line))
    postgres.socket_folder.chmod(0o700)
    (postgres.socket_folder / ".s.PGSQL.5432").chmod(0o700)
    os.kill(int((postgres.cluster / "postmaster.pid").read_text().split()[0]), signal.SIGHUP)
    up.up()
    task, box = await up.take()
    assert (await up.bash(task, box, "echo here"))["output"] == "here\n"
    await up.call("rift_task_close", task=task)


def test_settings_in_a_file_that_only_root_may_read_count() -> None:
    with folder() as data:
        (data / "rift.toml").write_text('[server]\nhosts = ["rift.test"]\n')
        (data / "rift.toml").chmod(0o600)
        one = Running(data)
        try:
            one.up()
            assert serving(main_of(data / "rift.lock"))
            assert children(main_of(data / "rift.lock"))
            assert "is down; " in rift("down", "--data", data).out
            assert one.process
            one.process.wait(30)  # it lets its lock go a moment before it ends
            assert processes(data) == []
        finally:
            one.kill()
