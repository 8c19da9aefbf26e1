"""What the steps know of each other, and the two things several of them do: run a command, read to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from keel.secrecy import masked
from keel.telling import Wrong, expect
from rift.demo.client import Agent, Said
from rift.deps import Deps
from rift.repos.model import Repo

FIELDS = frozenset({"status", "reason", "command", "exit", "output", "next_offset", "size"})
"""What each command's structured answer has (contract: Boxes)."""
LOOKS_OFTEN = 3.0
"""For so long a running command is looked at every `PAUSE`; then a call waits for its end."""
PAUSE = 0.1
WHOLE_MOST = 65_536
"""Output up to this size fits one answer, and is read again whole to compare."""


@dataclass(slots=True)
class Scene:
    """Who plays, where, and what has come about so far."""

    deps: Deps
    ada: Agent
    second: Agent
    origin: str | None
    """What was given as --repo; None for the sample."""
    ref: str
    """The branch; empty until it is found out."""
    repo: str
    """OWNER/NAME; empty until it is found out."""
    added: Repo | None = None
    watched: bool = False
    """Whether the demo began the watch, and ends it."""
    task: str = ""
    """The task's id, while it is open."""
    handle: str = ""
    """The handle that the first agent has."""
    second_handle: str = ""
    box: str = ""
    name: str = ""
    commit: str = ""
    pid: str = ""
    """The process in the background."""


Act = Callable[[Scene, list[str]], Awaitable[None]]
"""What a step does: it fills the list with the lines to show, and raises Wrong when something is not as it should."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step. `title` may name {ada}, {second}, {repo}, {ref} and {origin}."""

    title: str
    act: Act

    def told(self, scene: Scene) -> str:
        """The title with its names."""
        return self.title.format(
            ada=scene.ada.name,
            second=scene.second.name,
            repo=scene.repo,
            ref=scene.ref,
            origin=masked(scene.origin or ""),
        )


async def bash(scene: Scene, agent: Agent, handle: str, command: str, *, seconds: int = 30) -> str:
    """The output of a short command that must end with exit 0."""
    said = await agent.call(
        "rift_bash", task=handle, vm=scene.box, command=command, timeout=seconds, block_for=min(seconds, 45)
    )
    answer = command_of(said)
    good = answer["status"] == "finished" and answer["exit"] == 0
    expect(good, f"finished with exit 0 of `{command}`", said.text)
    return str(answer["output"])


def command_of(said: Said) -> Mapping[str, Any]:
    """A command's structured answer, with every field that it must have."""
    lacking = sorted(FIELDS - said.structured.keys())
    expect(not lacking, f"structuredContent with {', '.join(sorted(FIELDS))}", f"none of {lacking} in: {said.text}")
    expect(
        said.text.startswith(str(said.structured["status"])),
        "an answer that begins with the status in its structuredContent",
        said.text,
    )
    return said.structured


@dataclass(slots=True)
class Reading:
    """A command's output, read piece by piece."""

    output: str
    reads: int
    """How many answers brought output."""
    while_running: int
    """How many of them came before the command's end."""
    answer: Mapping[str, Any]
    """The last answer."""


async def read_on(
    scene: Scene, agent: Agent, handle: str, first: Said, until: Callable[[str], bool], within: float
) -> Reading:
    """Read a command's output from each next offset until it has ended and is read, or `until` is content with it.

    Raises Wrong when a piece does not follow on from the one before, or after `within` seconds.
    """
    clock = scene.deps.clock
    begun = clock.monotonic()
    answer = command_of(first)
    command, offset = str(answer["command"]), 0
    reading = Reading("", 0, 0, answer)
    while True:
        running = answer["status"] == "has not finished"
        _joins(answer, command, offset)
        if answer["output"]:
            reading.output += str(answer["output"])
            reading.reads += 1
            reading.while_running += running
        offset, reading.answer = int(answer["next_offset"]), answer
        if until(reading.output) or (not running and offset >= int(answer["size"])):
            return reading
        took = clock.monotonic() - begun
        expect(took < within, f"the end of {command} within {within:g} s", reading.answer)
        often = took < LOOKS_OFTEN
        if often and running:
            await asyncio.sleep(PAUSE)
        said = await agent.call(
            "rift_output",
            task=handle,
            commands=[{"id": command, "offset": offset}],
            block_for=0 if often or not running else 2,
        )
        answer = command_of(said)


async def whole(agent: Agent, handle: str, reading: Reading) -> None:
    """Read the output again from 0 and compare it with its pieces."""
    command, size = reading.answer["command"], int(reading.answer["size"])
    if size > WHOLE_MOST or "\ufffd" in reading.output:
        return
    said = await agent.call("rift_output", task=handle, commands=[{"id": command, "offset": 0}], block_for=0)
    again = command_of(said)["output"]
    if again != reading.output:
        raise Wrong(f"the same output again from offset 0: {reading.output!r}", repr(again))


def _joins(answer: Mapping[str, Any], command: str, offset: int) -> None:
    """A piece is of this command and ends where its bytes end."""
    expect(answer["command"] == command, f"an answer about {command}", answer)
    told = str(answer["output"])
    if "\ufffd" in told:  # bytes that are no text are shown as this sign, and are longer so
        return
    end = offset + len(told.encode())
    expect(answer["next_offset"] == end, f"next_offset {end}: {offset} and the piece's bytes", answer)
