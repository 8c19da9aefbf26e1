"""The story: who plays, in what order, and that nothing is left of it whatever happens."""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx2
from joserfc.jwk import ECKey
from rich.console import Console

from keel.clock import Clock, SystemClock
from keel.telling import Telling, Wrong
from onbe.demo import beginning, ending, middle
from onbe.demo.client import Agent, Server
from onbe.demo.scene import HELPER, SCRIBE, Scene
from onbe.settings import is_loopback
from onbe_client import AgentKey

STEPS = (*beginning.STEPS, *middle.STEPS, *ending.STEPS)


async def play(
    url: str, admin_key: str, *, patience: float = 3.0, console: Console | None = None, clock: Clock | None = None
) -> int:
    """Play the demo against the server at `url` and tell it on stdout. 0 when every step was as it should be, else 1.

    `url` is its issuer. `patience` is how long to wait for the seal of a record, in seconds. Public endpoints alone are
    used. Afterwards the demo's agents are disabled with their tasks ended, and the person is as before.
    """
    clock = clock or SystemClock()
    telling = Telling(console or Console(), clock.monotonic)
    telling.say(f"The Onbe demo at {url}: two agents work for a person, one task at a time.", "bold")
    begun = clock.monotonic()
    local = is_loopback(urlsplit(url).hostname or "")
    good = False
    # This machine is not asked through a proxy of the environment.
    async with httpx2.AsyncClient(follow_redirects=False, trust_env=not local) as http:
        server = Server(url, admin_key, http)
        scene = Scene(server, clock, _agent(server, SCRIBE), _agent(server, HELPER), patience)
        try:
            for step in STEPS:
                with telling.step(step.title) as shown:
                    await step.act(scene, shown)
            good = True
        except Wrong:  # which the step has told
            pass
        finally:
            note = await _tidy(scene)
    took = clock.monotonic() - begun
    if note:
        telling.say(note)
    if good:
        telling.say(f"All {telling.count} steps are as they should be: {took:.1f} s.", "bold green")
    else:
        telling.say(f"Step {telling.count} is not as it should be, after {took:.1f} s.", "bold red")
    return 0 if good else 1


def _agent(server: Server, name: str) -> Agent:
    return Agent(server, name, AgentKey(ECKey.generate_key("P-256").as_dict(private=True)))


async def _tidy(scene: Scene) -> str | None:
    """Leave nothing that could act. What could not be put back, in a sentence."""
    if not scene.registered:
        return None
    try:
        for agent in (scene.scribe, scene.helper):
            await scene.server.admin("DELETE", f"/admin/agents/{agent.name}/tasks")
            await scene.server.admin("PATCH", f"/admin/agents/{agent.name}", json={"enabled": False})
        if scene.person:
            await scene.server.ask("POST", "/development/person", json={"enabled": True})
    except Wrong as wrong:
        return f"The demo's agents {SCRIBE} and {HELPER} could not be disabled: {wrong.got}"
    return None
