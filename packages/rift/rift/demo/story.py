"""The story: who plays, in what order, and that nothing is left of it whatever happens."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from rich.console import Console

from keel.refusal import Refusal
from keel.secrecy import masked
from keel.telling import Telling, Wrong
from rift.demo import handing, keeping, source, taking
from rift.demo.client import UP, Agent, connected, reason_of
from rift.demo.scene import Scene, Step
from rift.deps import Deps
from rift.people import actions as people

ADA = "Ada's agent"
SECOND = "Ada's second agent"


async def play(deps: Deps, address: str, repo: str | None, ref: str | None) -> int:
    """Play the demo against the server at `address` and tell it on stdout.

    `repo` is a path or git URL (the sample when None), `ref` its branch (its own when None). `deps` makes the tokens
    and adds the repository, in the database of that server. Returns 0 when every step was as it should be, else 1.
    Afterwards its task is closed, its tokens are revoked, and what it watched for this alone is watched no longer.
    """
    telling = Telling(Console(), deps.clock.monotonic)
    what = masked(repo or source.SAMPLE)
    telling.say(f"The Rift demo at {address}: two agents, one task, {what}.", "bold")
    begun = deps.clock.monotonic()
    notes: list[str] = []
    good = False
    try:
        good = await _cast(deps, address, repo, ref or "", telling, notes)
    except Wrong as wrong:
        telling.wrong(wrong)
    took = deps.clock.monotonic() - begun
    for note in notes:
        telling.say(note)
    if good:
        end = f"All {telling.count} steps are as they should be, and nothing of the demo is left"
        telling.say(f"{end}: {took:.1f} s.", "bold green")
    elif telling.count:
        telling.say(f"Step {telling.count} is not as it should be, after {took:.1f} s.", "bold red")
    else:
        telling.say("The demo could not begin.", "bold red")
    return 0 if good else 1


async def _cast(deps: Deps, address: str, origin: str | None, ref: str, telling: Telling, notes: list[str]) -> bool:
    """Two clients with tokens of their own, for the length of the story; whether it went well."""
    email = await source.admin(deps)
    good = False
    async with _token(deps, email, ADA, notes) as ada, _token(deps, email, SECOND, notes) as second:
        try:
            async with connected(address, ada, ADA) as first, connected(address, second, SECOND) as other:
                scene = Scene(deps, first, other, origin, ref, "")
                try:
                    good = await _tell(scene, telling)
                finally:
                    await _tidy(scene, notes)
        except Exception as error:  # the clients raise what broke their connection, in groups
            raise Wrong(f"a connection to {address}/mcp", reason_of(error), UP) from error
    return good


async def _tell(scene: Scene, telling: Telling) -> bool:
    try:
        for step in _steps(scene):
            with telling.step(step.told(scene)) as shown:
                await step.act(scene, shown)
        if scene.watched:
            with telling.step(handing.UNWATCH.told(scene)) as shown:
                await handing.UNWATCH.act(scene, shown)
    except Wrong:
        return False
    return True


def _steps(scene: Scene) -> Sequence[Step]:
    first = taking.SAMPLE if scene.origin is None else taking.GIVEN
    return (*first, *taking.STEPS, *keeping.STEPS, *handing.STEPS)


async def _tidy(scene: Scene, notes: list[str]) -> None:
    """Put away what a story that broke off left open; what cannot be put away is told."""
    if scene.task and not await _closed(scene, scene.task):
        notes.append(
            f"The task {scene.task} could not be closed: it closes itself after a few quiet hours. If the server is "
            f"gone: {UP}."
        )
    if scene.watched and not await _tried(scene, "rift_unwatch", repo=scene.repo, ref=scene.ref):
        notes.append(f"{scene.ref} of {scene.repo} is still watched; rift_unwatch ends that.")


async def _closed(scene: Scene, task: str) -> bool:
    for agent in (scene.second, scene.ada):
        try:
            said = await agent.call("rift_task_attach", task=task, takeover=True)
            handle = taking.HANDLE.search(said.text)
            await agent.call("rift_task_close", task=handle[0] if handle else "")
        except Wrong:
            continue
        return True
    return False


async def _tried(scene: Scene, tool: str, **arguments: object) -> bool:
    agents: tuple[Agent, ...] = (scene.second, scene.ada)
    for agent in agents:
        try:
            await agent.call(tool, **arguments)
        except Wrong:
            continue
        return True
    return False


@asynccontextmanager
async def _token(deps: Deps, email: str, client: str, notes: list[str]) -> AsyncIterator[str]:
    """A token of its own for a client, revoked at the end."""
    made = await people.new_token(deps, email, client)
    if isinstance(made, Refusal):
        raise Wrong("a token", made.sentence)
    token, secret = made
    try:
        yield secret
    finally:
        try:
            await people.revoke_token(deps, token.id)
        except Exception as error:  # noqa: BLE001 - a database that went away must not hide how the story ended
            notes.append(f"The token {token.id} could not be revoked: {reason_of(error)}")
