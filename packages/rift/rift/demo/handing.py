"""The third part: a second agent takes the task over, the first one is told so, and the work is put away."""

from __future__ import annotations

import asyncio

from keel.telling import expect
from rift.demo.client import Said
from rift.demo.keeping import FILE, TEXT
from rift.demo.scene import Scene, Step, bash
from rift.demo.taking import HANDLE, task_line

COLLISION = "rift-demo-collision"
GONE_WITHIN = 60.0
"""How long a closed task's box may take to go, in seconds, where rift_task_close did not wait for it."""


async def refused(scene: Scene, shown: list[str]) -> None:
    """A task that somebody works on is not taken by accident: the refusal names the holder and the way."""
    said = await scene.second.ask("rift_task_attach", task=scene.task)
    _refusal(said, f"held by {scene.ada.holder} since ", "rift_task_attach", {"task": scene.task, "takeover": True})
    expect("Tell the user" in said.text, "a refusal that says to tell the user", said.text)
    shown += [*said.text.splitlines()]


async def takeover(scene: Scene, shown: list[str]) -> None:
    """With takeover it gets a fresh handle, and the task shows it as the holder."""
    said = await scene.second.call("rift_task_attach", task=scene.task, takeover=True)
    found = HANDLE.search(said.line("handle: "))
    expect(found is not None and found[1] == scene.task, "a handle of the task", said.text)
    assert found is not None
    expect(found[0] != scene.handle, "a handle with a new secret", "the same one")
    scene.second_handle = found[0]
    line = await task_line(scene, scene.second) or {}
    expect(line.get("holder") == scene.second.holder, f"the holder {scene.second.holder}", line)
    shown.append(f"{said.text.splitlines()[0]} rift_task_ls shows {line['holder']}")


async def stale(scene: Scene, shown: list[str]) -> None:
    """The first agent's handle has died: its command is refused, with who holds the task and what mends it."""
    collision = {"command": f"touch {COLLISION}", "timeout": 30, "block_for": 30}
    said = await scene.ada.ask("rift_bash", task=scene.handle, vm=scene.box, **collision)
    _refusal(said, f"held by {scene.second.holder} since ", "rift_task_attach", {"task": scene.task, "takeover": True})
    expect("Tell the user" in said.text, "a refusal that says to tell the user", said.text)
    shown += said.text.splitlines()


async def goes_on(scene: Scene, shown: list[str]) -> None:
    """Nothing of the refused command ran; the second agent finds the box as the first one left it."""
    look = f"test ! -e {COLLISION} && kill -0 {scene.pid} && cat {FILE}"
    said = await bash(scene, scene.second, scene.second_handle, look)
    expect(said == TEXT, "the first agent's file", repr(said))
    shown.append(f"nothing of the refused command; process {scene.pid}; “{said.strip()}”")


async def close(scene: Scene, shown: list[str]) -> None:
    """The task closes and its box goes."""
    said = await scene.second.call("rift_task_close", task=scene.second_handle)
    expect(scene.box in said.text, f"what becomes of {scene.box}", said.text)
    closed, scene.task = scene.task, ""
    clock = scene.deps.clock
    begun = clock.monotonic()
    while (await scene.deps.boxes.inspect(scene.box)).state != "absent":
        expect(clock.monotonic() - begun < GONE_WITHIN, f"that nothing is left of {scene.box}", said.text)
        await asyncio.sleep(0.25)
    expect(f"closed the task {closed}" in said.text, f"that {closed} is closed", said.text)
    shown += said.text.splitlines()


async def gone(scene: Scene, shown: list[str]) -> None:
    """No list has it, and its handle opens nothing."""
    listed = await scene.second.call("rift_task_ls")
    expect(scene.box not in listed.text, "a rift_task_ls without the box", listed.text)
    said = await scene.second.ask("rift_vm_ls", task=scene.second_handle)
    _refusal(said, "is closed and its VMs are gone", "rift_task_new", None)
    shown += said.text.splitlines()


async def unwatch(scene: Scene, shown: list[str]) -> None:
    """What was watched for the demo alone is watched no longer."""
    said = await scene.second.call("rift_unwatch", repo=scene.repo, ref=scene.ref)
    scene.watched = False
    shown.append(said.text.splitlines()[0])


def _refusal(said: Said, sentence: str, tool: str, arguments: dict[str, object] | None) -> None:
    """A refusal with this in its sentence, whose text and mends name the call that mends it."""
    expect(said.error and said.code is not None, f"a refusal: … {sentence} …", said.text)
    expect(sentence in said.text, f"a refusal: … {sentence} …", said.text)
    expect(f"\n{tool} {{" in said.text, f"a refusal whose text ends with the {tool} that mends it", said.text)
    mends = [mend for mend in said.mends if mend.get("tool") == tool]
    right = bool(mends) and (arguments is None or mends[0].get("arguments") == arguments)
    expect(right, f"the mend {tool} {arguments or ''}".rstrip(), said.mends)


STEPS = (
    Step("{second} would take the task up, and is refused (rift_task_attach)", refused),
    Step("it tells its user, and takes it over (rift_task_attach, takeover)", takeover),
    Step("{ada} does not know, and is refused (rift_bash)", stale),
    Step("{second} works on where the first one stopped (rift_bash)", goes_on),
    Step("it closes the task (rift_task_close)", close),
    Step("the box is gone, and the handle with it (rift_task_ls, rift_vm_ls)", gone),
)
UNWATCH = Step("{ref} of {repo} is watched no longer (rift_unwatch)", unwatch)
