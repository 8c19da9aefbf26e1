"""The second part: files, a command that waits, a process in the background, and a night's rest in between."""

from __future__ import annotations

from keel.telling import expect
from rift.demo.scene import Scene, Step, bash, command_of, read_on, whole
from rift.demo.taking import vm

FILE = "rift-demo.txt"
TEXT = "Written by one agent, for the next: naïve, Ωμέγα, 你好.\n"
WAITING = "waiting for a word"
WAITS = f"echo {WAITING}; until [ -s {FILE} ]; do sleep 0.1; done; cat {FILE}"
"""Ends once the file is there, so that its output is surely read while it runs."""
BEAT = "$HOME/rift-demo-beat"
BEATS = (
    f"nohup sh -c 'n=0; while :; do n=$((n+1)); echo $n > {BEAT}.new; mv {BEAT}.new {BEAT}; sleep 0.1; done' "
    ">/dev/null 2>&1 & echo $!"
)


async def waiting(scene: Scene, shown: list[str]) -> None:
    """A command waits for a file; what it printed is read before the file is written, the rest after."""
    agent, handle = scene.ada, scene.handle
    said = await agent.call("rift_bash", task=handle, vm=scene.box, command=WAITS, timeout=60, block_for=0)
    reading = await read_on(scene, agent, handle, said, lambda output: "\n" in output, 30)
    command, offset = str(reading.answer["command"]), int(reading.answer["next_offset"])
    expect(reading.answer["status"] == "has not finished", f"that {command} has not finished", reading.answer)
    expect(reading.output == f"{WAITING}\n", f"its first line, {WAITING!r}", repr(reading.output))
    wrote = await agent.call("rift_write", task=handle, vm=scene.box, path=FILE, content=TEXT)
    expect(command_of(wrote)["exit"] == 0, f"that {FILE} is written", wrote.text)
    rest = await agent.call("rift_output", task=handle, commands=[{"id": command, "offset": offset}], block_for=30)
    answer = command_of(rest)
    expect(answer["status"] == "finished" and answer["exit"] == 0, f"that {command} finished, exit 0", rest.text)
    expect(answer["output"] == TEXT, f"from offset {offset} the file's text, {TEXT!r}", repr(answer["output"]))
    reading.output, reading.answer = reading.output + TEXT, answer
    await whole(agent, handle, reading)
    shown.append(f"{command} from 0: “{WAITING}”; from {offset}, once {FILE} was written: “{TEXT.strip()}”")


async def read(scene: Scene, shown: list[str]) -> None:
    """The file is what was written, byte for byte."""
    said = await scene.ada.call("rift_read", task=scene.handle, vm=scene.box, path=FILE)
    answer = command_of(said)
    expect(answer["output"] == TEXT, f"the text as it was written, {TEXT!r}", repr(answer["output"]))
    expect(answer["size"] == len(TEXT.encode()), f"size {len(TEXT.encode())}", answer["size"])
    shown.append(f"{answer['size']} bytes, the same")


async def background(scene: Scene, shown: list[str]) -> None:
    """A process goes on after the command that began it has ended."""
    scene.pid = (await bash(scene, scene.ada, scene.handle, BEATS)).strip()
    expect(scene.pid.isdigit(), "the id of a process", scene.pid)
    first, second = await _beats(scene)
    expect(second > first, f"that it counts on from {first}", second)
    shown.append(f"process {scene.pid} counts ten times a second: {first} … {second}")


async def park(scene: Scene, shown: list[str]) -> None:
    """The box is parked, and its list says so."""
    said = await scene.ada.call("rift_vm_suspend", task=scene.handle, vm=scene.name)
    status = (await vm(scene))["status"]
    expect(status == "parked", "the status parked", f"{status}; rift_vm_suspend said: {said.text}")
    shown.append(said.text.splitlines()[0])


async def resume(scene: Scene, shown: list[str]) -> None:
    """The next call wakes it: the same process lives and counts on, the file is there."""
    first, second = await _beats(scene)
    expect(second > first, f"that process {scene.pid} counts on from {first}", second)
    kept = await bash(scene, scene.ada, scene.handle, f"cat {FILE}")
    expect(kept == TEXT, f"{FILE} as it was, {TEXT!r}", repr(kept))
    status = (await vm(scene))["status"]
    expect(status == "running", "the status running", status)
    shown.append(f"process {scene.pid} lives and counts on: {first} … {second}; {FILE} is as it was")


async def _beats(scene: Scene) -> tuple[int, int]:
    """What the process has counted, and what a moment later."""
    moment = f"until [ -s {BEAT} ]; do sleep 0.05; done"
    look = f"kill -0 {scene.pid} && {moment} && cat {BEAT} && sleep 0.5 && cat {BEAT}"
    first, second = (await bash(scene, scene.ada, scene.handle, look)).split()
    return int(first), int(second)


STEPS = (
    Step("a command waits; its output is read, then the file it waits for is written (rift_write)", waiting),
    Step("{ada} reads the file (rift_read)", read),
    Step("it leaves a process running in the background (rift_bash)", background),
    Step("it parks the box (rift_vm_suspend)", park),
    Step("the next call resumes it (rift_bash)", resume),
)
