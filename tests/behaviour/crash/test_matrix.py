"""A part of the crash matrix, with each class of step of each process; `python -m tests.behaviour.crash` plays all."""

from __future__ import annotations

import os
import signal
import zlib
from pathlib import Path
from types import ModuleType

import pytest
from tests.behaviour.crash import matrix, points
from tests.behaviour.crash.cells import Plant
from tests.behaviour.crash.matrix import Recording, class_of

SHARES = 5
_recorded: list[Recording] = []


async def recording(made: Plant) -> Recording:
    """What a play without a kill reaches; recorded once by each of the run's workers."""
    if not _recorded:
        _recorded.append(await matrix.record(made))
    return _recorded[0]


@pytest.mark.timeout(600)  # a play waits for its processes to begin again, a dozen times, on a machine that is busy
@pytest.mark.parametrize("share", range(SHARES))
async def test_a_kill_at_each_kind_of_step_leaves_nothing_doubled_lost_or_left(made: Plant, share: int) -> None:
    """Server, launcher, agent and the jail's init, each ended before or after what it does to the world."""
    found = await recording(made)
    part = found.part()
    assert {class_of(name).partition(" | ")[0] for name in part} == {"server", "launcher", "agent", "init"}
    mine = [name for name in part if zlib.crc32(class_of(name).encode()) % SHARES == share]
    outcomes = await matrix.run(made, found.packed(mine))
    wrong = [f"{outcome.targets}\n{outcome.wrong}" for outcome in outcomes if outcome.wrong]
    assert not wrong, "\n\n".join(wrong)
    missed = [name for outcome in outcomes for name in outcome.missed]
    assert not missed, "recorded, and not reached by three plays: " + "\n".join(missed)


async def test_a_boundary_that_a_play_does_not_reach_is_told(made: Plant) -> None:
    never = "command | server | rift_bash | rift.nowhere | os.mkdir | after"
    outcome = await matrix.play(made, {"command": never}, again=0)
    assert (outcome.missed, outcome.wrong) == ((never,), "")


async def test_a_play_that_breaks_a_promise_is_told(made: Plant) -> None:
    """A command that ran twice, a file that outlives its box: seen, whatever else is well."""
    from tests.behaviour.crash.scenario import Client

    async with made.cell() as cell:
        client = Client(cell)
        cell.begin("test")
        for phase in ("open", "cold", "command"):
            await getattr(client, phase)()
        runs = cell.data / "boxes" / client.vm / "home" / "runs"
        line = runs.read_text()
        client.look()
        runs.write_text(line * 2)
        with pytest.raises(AssertionError, match="run twice"):
            client.look()
        runs.write_text("")
        with pytest.raises(AssertionError, match="it did not"):
            client.look()
        runs.write_text(line)
        await client.close()
        await client.settle()
        (cell.data / "boxes" / "b-left").mkdir()
        assert str(cell.data / "boxes" / "b-left") in client.left()


ONE = """
import os

def work(folder):
    os.mkdir(folder + "/made")
"""
MORE = (
    ONE
    + """
def more(folder):
    work(folder)
    os.rename(folder + "/made", folder + "/moved")
"""
)


def reached(source: str, function: str, folder: Path, target: str = "") -> tuple[list[str], int]:
    """What a process that runs a function of ours records, and how it ends: its exit code, or minus its signal."""
    code = folder / "ours"
    code.mkdir(parents=True)
    (code / "effects.py").write_text(source)
    (folder / "points").touch()
    (folder / "control").write_text(f"now\n{target}")
    pid = os.fork()
    if pid == 0:
        try:
            here = points.Points.at("server", str(folder), (str(code),))
            here.watch_system()
            module = ModuleType("effects")
            exec(compile(source, str(code / "effects.py"), "exec"), module.__dict__)
            getattr(module, function)(str(folder))
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    lines = (folder / "points").read_text().splitlines()
    return [line.partition("\t")[2] for line in lines if "\t" in line], os.waitstatus_to_exitcode(status)


def test_a_new_effect_is_in_the_list_without_anybody_s_having_named_it(tmp_path: Path) -> None:
    before, code = reached(ONE, "work", tmp_path / "one")
    assert code == 0
    after, code = reached(MORE, "more", tmp_path / "more")
    assert code == 0
    assert len(before) == 2
    new = [f"now | server |  | effects.more | os.rename | {moment}" for moment in ("before", "after")]
    assert after == [*before, *new]


@pytest.mark.parametrize(("moment", "there"), [("before", ["made"]), ("after", ["moved"])])
def test_the_process_ends_at_the_boundary_that_it_is_told_and_nothing_after_it_is_done(
    tmp_path: Path, moment: str, there: list[str]
) -> None:
    folder = tmp_path / moment
    _, code = reached(MORE, "more", folder, f"now | server |  | effects.more | os.rename | {moment}")
    assert code == -signal.SIGKILL
    assert [path.name for path in folder.iterdir() if path.name in ("made", "moved")] == there
