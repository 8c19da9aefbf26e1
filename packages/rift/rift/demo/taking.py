"""The first part: what there is, a task, a box at a head, and the repository's tests read while they run."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any

from keel.telling import expect
from rift.demo import source
from rift.demo.scene import Scene, Step, bash, command_of, read_on, whole

HANDLE = re.compile(r"(task_[^.\s]+)\.(\S+)")
BOX = re.compile(r"id (b-[0-9a-f]{24}), name (\S+)")
HOST = "`rift doctor` checks what this host allows and names the command that mends it"

WARM_WAITS = 30.0
"""How long the pool is given for its warm box; after that the demo takes a cold start, as an agent would."""
STARTS_WITHIN = 240.0
"""How long a cold box is polled for, in seconds."""
TESTS_SECONDS = 120
SAMPLE_TESTS = "python3 -m unittest"

# Only what the box has: a checkout says how it is tested, and each line asks for the program first.
CHOOSE = """
has() { command -v "$1" >/dev/null 2>&1; }
some() { for one in "$@"; do [ -e "$one" ] && return 0; done; return 1; }
if has python3 && some pytest.ini conftest.py pyproject.toml setup.cfg tox.ini tests/test_*.py test_*.py \\
  && python3 -c 'import pytest' 2>/dev/null; then echo python3 -m pytest -q
elif has python3 && some test*.py; then echo python3 -m unittest
elif has python3 && some tests/test*.py; then echo python3 -m unittest discover -s tests
elif has npm && some package.json && grep -q '"test"' package.json; then echo npm test
elif has cargo && some Cargo.toml; then echo cargo test
elif has go && some go.mod; then echo go test ./...
elif has make && some Makefile && grep -q '^test:' Makefile; then echo make test
else echo 'git log -1 --stat'; fi
"""


async def whoami(scene: Scene, shown: list[str]) -> None:
    """The checklist names the caller, and ends with what to do next."""
    said = await scene.ada.call("rift_whoami")
    expect(f"tasks show you as {scene.ada.holder}" in said.text, f"that tasks show it as {scene.ada.holder}", said.text)
    expect(said.last.startswith(("ready: rift_vm_new ", "gap: ")), "at the end ready with rift_vm_new", said.text)
    shown += [said.text.splitlines()[0], said.last]


async def added(scene: Scene, shown: list[str]) -> None:
    """The repository given is there, and which branch is meant is known."""
    email = await source.admin(scene.deps)
    repo, new = await source.given(scene.deps, email, scene.origin or "")
    scene.added, scene.repo = repo, repo.full
    scene.ref = scene.ref or await source.branch(scene.deps, repo)
    shown.append(f"{repo.full}, {'fetched' if new else 'here already'}; its branch {scene.ref}")


async def sample(scene: Scene, shown: list[str]) -> None:
    """The sample is there and watched."""
    email = await source.admin(scene.deps)
    scene.added = await source.sample(scene.deps, email)
    scene.repo, scene.ref = scene.added.full, scene.ref or "main"
    await watch(scene, shown)


async def watch(scene: Scene, shown: list[str]) -> None:
    """The branch is watched; where it was not, without warm boxes, for it is for this once."""
    assert scene.added is not None
    warm = await source.watched(scene.deps, scene.added, scene.ref)
    if warm is not None:
        kept = f"{warm or 'no'} warm box{'' if warm == 1 else 'es'}"
        shown.append(f"{scene.repo} at {scene.ref} is watched already, to have {kept}")
        return
    said = await scene.ada.call("rift_watch", repo=scene.repo, ref=scene.ref, warm=0)
    scene.watched = True
    shown.append(said.text.splitlines()[0])


async def warm(scene: Scene, shown: list[str]) -> None:
    """The pool's box is ready, where it keeps one."""
    clock = scene.deps.clock
    begun = clock.monotonic()
    while True:
        ref = await _watched_ref(scene)
        done = ref["ready"] > 0 or ref["warm"] == 0 or ref["failure"] is not None
        if done or clock.monotonic() - begun > WARM_WAITS:
            break
        await asyncio.sleep(0.25)
    cold = "" if ref["ready"] else "; the next box starts cold"
    shown.append(f"{scene.ref}: warm {ref['warm']}, ready {ref['ready']}, head {ref['head']}{cold}")


async def task(scene: Scene, shown: list[str]) -> None:
    """A task is opened; it shows its holder to everybody and its handle to nobody else."""
    said = await scene.ada.call("rift_task_new", name=f"the demo on {scene.repo}")
    found = HANDLE.search(said.line("handle: "))
    expect(found is not None, "a handle task_<id>.<secret>", said.text)
    assert found is not None
    scene.task, scene.handle = found[1], found[0]
    listed = await scene.ada.call("rift_task_ls")
    expect(found[2] not in listed.text + str(listed.structured), "no handle in rift_task_ls", listed.text)
    holder = (await task_line(scene, scene.ada) or {}).get("holder")
    expect(holder == scene.ada.holder, f"the holder {scene.ada.holder}", listed.text)
    shown += [said.text.splitlines()[0], f"handle: {found[1]}.…  (its secret stays with the agent)"]


async def box(scene: Scene, shown: list[str]) -> None:
    """A box runs, with an id and a name, at the commit that is the head."""
    said = await scene.ada.ask("rift_vm_new", task=scene.handle, repo=scene.repo, ref=scene.ref)
    expect(not said.error, "a box", said.text, HOST)
    found = BOX.search(said.text)
    expect(found is not None, "id b-<24 hexadecimal characters> and a name", said.text)
    assert found is not None
    scene.box, scene.name = found[1], found[2]
    status = said.text.partition("\n")[0]
    line = await _running(scene) if status.startswith("starting") else await vm(scene)
    expect(line["status"] == "running", "the status running", f"{status}\n{line['failure'] or ''}".rstrip(), HOST)
    expect("persist" in said.text, "an answer that says what persists", said.text)
    expect(scene.name.startswith(f"{scene.repo.partition('/')[2]}-"), "a name after its repository", scene.name)
    scene.commit = str(line["commit"])
    shown.append(f"{line['status']}: {scene.box}, {scene.name}, commit {scene.commit}")
    head = (await _watched_ref(scene))["head"]
    moved = head != scene.commit and scene.origin is not None  # somebody may push while we look
    expect(head == scene.commit or moved, f"the commit at the head of {scene.ref}, {head}", scene.commit)


async def look(scene: Scene, shown: list[str]) -> None:
    """The checkout is at that commit."""
    said = await bash(scene, scene.ada, scene.handle, "git rev-parse HEAD && git log -1 --format=%s && ls")
    commit, subject, *files = said.splitlines()
    expect(commit == scene.commit, f"a checkout at {scene.commit}", commit)
    shown.append(f"{commit[:12]} “{subject}”: {', '.join(files[:6])}{', …' if len(files) > 6 else ''}")


async def tests(scene: Scene, shown: list[str]) -> None:
    """The tests run to their end while their output is read from offset to offset."""
    command = SAMPLE_TESTS
    if scene.origin is not None:
        command = (await bash(scene, scene.ada, scene.handle, CHOOSE)).strip()
    said = await scene.ada.call(
        "rift_bash", task=scene.handle, vm=scene.box, command=command, timeout=TESTS_SECONDS, block_for=0
    )
    first = command_of(said)
    if first["status"] == "has not finished":
        expect("rift_output {" in said.last, "the exact rift_output call that reads on", said.text)
    reading = await read_on(scene, scene.ada, scene.handle, said, lambda _: False, TESTS_SECONDS + 60)
    await whole(scene.ada, scene.handle, reading)
    last = reading.answer
    expect(last["status"] == "finished", f"the end of `{command}`", last)
    lines = [line for line in reading.output.splitlines() if line.strip()]
    shown.append(f"$ {command}")
    shown += lines[-2:]
    count = f"{reading.reads} piece{'' if reading.reads == 1 else 's'}"
    pieces = f"{last['size']} bytes in {count}, {reading.while_running or 'none'} of them while it ran"
    shown.append(f"finished, exit {last['exit']}{_why(last['reason'])}; {pieces}")
    if scene.origin is None:
        expect(last["exit"] == 0, "exit 0 of the sample's tests", reading.output)
        expect("step 1 of 3" in reading.output, "what the sample's tests print", reading.output)
    elif last["exit"] != 0:
        shown.append("(its tests do not pass in this box; the demo goes on)")


async def vm(scene: Scene) -> Mapping[str, Any]:
    """The box's line of rift_vm_ls."""
    said = await scene.ada.call("rift_vm_ls", task=scene.handle)
    line = next((one for one in said.structured.get("vms", ()) if one["id"] == scene.box), None)
    expect(line is not None, f"{scene.box} in rift_vm_ls", said.text)
    assert line is not None
    return dict(line)


async def task_line(scene: Scene, agent: Any) -> Mapping[str, Any] | None:
    """The task's line of rift_task_ls as an agent sees it; None when it is not listed."""
    said = await agent.call("rift_task_ls")
    return next((one for one in said.structured.get("tasks", ()) if one["id"] == scene.task), None)


async def _running(scene: Scene) -> Mapping[str, Any]:
    clock = scene.deps.clock
    begun = clock.monotonic()
    while (line := await vm(scene))["status"] == "starting":
        took = clock.monotonic() - begun
        expect(took < STARTS_WITHIN, f"a running box within {STARTS_WITHIN:g} s", line["status"], HOST)
        await asyncio.sleep(0.5)
    return line


async def _watched_ref(scene: Scene) -> Mapping[str, Any]:
    said = await scene.ada.call("rift_repos", org="personal")
    for repo in said.structured.get("repositories", ()):
        for ref in repo["watched"]:
            if repo["repository"] == scene.repo and ref["ref"] == scene.ref:
                return dict(ref)
    expect(False, f"{scene.ref} of {scene.repo} among the watched refs", said.text)
    raise AssertionError


def _why(reason: object) -> str:
    return f" ({reason})" if reason else ""


SAMPLE = (
    Step("{ada} asks what there is (rift_whoami)", whoami),
    Step("the sample repository is watched (rift_watch)", sample),
)
GIVEN = (
    Step("{ada} asks what there is (rift_whoami)", whoami),
    Step("{origin} is added", added),
    Step("{ada} has {ref} of {repo} watched (rift_watch)", watch),
)
STEPS = (
    Step("it sees what the pool keeps warm at the head of {ref} (rift_repos)", warm),
    Step("{ada} opens a task (rift_task_new)", task),
    Step("it takes a box of {repo} at {ref} (rift_vm_new)", box),
    Step("it looks around the checkout (rift_bash)", look),
    Step("it runs the tests and reads along (rift_bash, rift_output)", tests),
)
