"""The third part: the person leaves, is blocked, and everything of it is on record."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from keel.ledger import proof
from keel.ledger.checkpoint import BadFile
from keel.telling import Wrong, expect
from onbe.demo.client import Said
from onbe.demo.scene import NOTES, READ, Scene, Step, Task

LOOK_SECONDS = 1.0


async def _begin(scene: Scene) -> None:
    body = (await scene.scribe.exchange(scene.signed_in, NOTES, READ)).good("the exchange is granted")
    scene.task = Task(str(body["task_id"]), str(body["refresh_token"]), str(body["access_token"]))


async def off_board(scene: Scene, shown: list[str]) -> None:
    """Somebody disables the person at the identity provider, and thinks of no agent."""
    await _begin(scene)
    (await scene.server.ask("POST", "/development/person", json={"enabled": False})).good("the person is disabled")
    said = await scene.scribe.refresh(scene.at_work.grant)
    shown.append(f"the next refresh: {said.denied('access_denied', 'sponsor_disabled')}")
    said = await scene.scribe.exchange(scene.signed_in, NOTES, READ)
    shown.append(f"a new task under the token from before: {said.denied('access_denied', 'sponsor_disabled')}")
    scene.refused.append((scene.scribe.name, "sponsor_disabled"))
    (await scene.server.ask("POST", "/development/person", json={"enabled": True})).good("the person is enabled")
    (await scene.scribe.refresh(scene.at_work.grant)).good("the refresh is granted again")
    shown.append("the person is back: the refresh is granted")


async def block(scene: Scene, shown: list[str]) -> None:
    """The administrator blocks the person here: what is done for them ends, and nothing begins."""
    where = f"/admin/sponsors/{quote(scene.person, safe='')}/block"
    (await scene.server.admin("PUT", where, json={"reason": "the demo"})).good("the person is blocked")
    try:
        said = await scene.scribe.refresh(scene.at_work.grant)
        said.denied("access_denied")
        reason = str(said.body.get("reason"))
        expect(reason in ("sponsor_blocked", "task_revoked"), "sponsor_blocked or task_revoked", reason)
        shown.append(f"the next refresh: {said.denied('access_denied', reason)}")
        said = await scene.scribe.exchange(scene.signed_in, NOTES, READ)
        shown.append(f"a new task: {said.denied('access_denied', 'sponsor_blocked')}")
        scene.refused.append((scene.scribe.name, "sponsor_blocked"))
    finally:
        await scene.server.admin("DELETE", where)


async def audit(scene: Scene, shown: list[str]) -> None:
    """Every refusal stands in the ledger, under its reason, with whom it was for."""
    for agent, reason in scene.refused:
        records = await _records(scene, agent, reason)
        expect(bool(records), f"a record of {reason} by {agent}", "none")
        expect(records[0]["seq"] > scene.newest, f"a record of {reason} from this demo", records[0]["at"])
    shown.append(", ".join(reason for _, reason in scene.refused))
    last = (await _records(scene, scene.scribe.name, "sponsor_blocked"))[0]
    expect(last["sponsor"] == scene.person, f"a record that names {scene.person}", last["sponsor"])
    shown.append(f"{last['at']} {last['action']} {last['decision']} {last['reason']}: {last['agent_id']}")


async def _records(scene: Scene, agent: str, decision: str) -> list[Mapping[str, Any]]:
    asked = {"agent_id": agent, "decision": decision, "limit": "1"}
    body = (await scene.server.admin("GET", "/audit", params=asked)).good("the audit is read")
    records: list[Mapping[str, Any]] = body["records"]
    return records


async def verify(scene: Scene, shown: list[str]) -> None:
    """A record proves itself: its bytes, its way to a signed root, the key."""
    seq = (await _records(scene, scene.scribe.name, "scope_widened"))[0]["seq"]
    begun = scene.clock.monotonic()
    while _unsealed(said := await scene.server.admin("GET", f"/audit/records/{seq}/proof")):
        if scene.clock.monotonic() - begun >= scene.patience:
            shown.append(f"record {seq} is sealed with the next checkpoint, within a minute; `onbe audit verify` then")
            return
        await asyncio.sleep(LOOK_SECONDS)
    body = said.good(f"record {seq} is proved")
    try:
        found = proof.parse(json.dumps(dict(body)))
    except BadFile as error:
        raise Wrong("a proof", str(error)) from None
    expect(found.problem() is None, "a proof that holds", found.problem())
    shown.append(f"record {seq} is in the tree of checkpoint {found.signed.checkpoint.number}, whose signature holds")


def _unsealed(said: Said) -> bool:
    return str(said.body.get("type", "")).endswith(":record_unsealed")


STEPS = (
    Step("the person is disabled: the agent stops (off-boarding)", off_board),
    Step("the person is blocked by the administrator (PUT /admin/sponsors/…/block)", block),
    Step("every refusal is on record (GET /audit)", audit),
    Step("a record is proved from the ledger (GET /audit/records/…/proof)", verify),
)
