"""The first part: two agents are registered, a person signs in, a task begins, and a tool server takes its token."""

from __future__ import annotations

import json

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from keel.telling import expect
from onbe.demo.client import Agent
from onbe.demo.scene import NOTES, READ, WRITE, Scene, Step, Task, claims_of
from onbe_client.guard import Guard, GuardMiddleware, task_token

DEVELOPMENT = "the demo needs the development issuer: `onbe serve --development`"


async def found(scene: Scene, shown: list[str]) -> None:
    """The server says who it is, and where its endpoints and keys are."""
    (await scene.server.ask("GET", "/healthz")).good("the server is well")
    said = (await scene.server.ask("GET", "/.well-known/oauth-authorization-server")).good("it describes itself")
    expect(said.get("issuer") == scene.server.url, f"the issuer {scene.server.url}", said.get("issuer"))
    keys = (await scene.server.ask("GET", "/.well-known/jwks.json")).good("its keys are published")["keys"]
    # Before anything is registered: a server that people work with is left as it was.
    await _person(scene)
    expect(bool(keys) and all("d" not in key for key in keys), "public keys", len(keys))
    shown.append(f"issuer {said['issuer']}, {len(keys)} public key{'s' if len(keys) > 1 else ''}")


async def register(scene: Scene, shown: list[str]) -> None:
    """Two agents, each with a key that it keeps to itself."""
    before = (await scene.server.admin("GET", "/audit", params={"limit": "1"})).good("the audit is read")["records"]
    scene.newest = before[0]["seq"] if before else 0
    for agent, scopes in ((scene.scribe, [READ, WRITE]), (scene.helper, [READ])):
        await _register(scene, agent, scopes)
        scene.registered = True
        shown.append(f"{agent.name}: {', '.join(scopes)} at {NOTES}; a task 10 minutes, a token 1 minute at most")


async def _register(scene: Scene, agent: Agent, scopes: list[str]) -> None:
    members = {
        "display_name": f"{agent.name} (onbe demo)",
        "allowed_scopes": scopes,
        "allowed_audiences": [NOTES],
        "max_task_ttl": "PT10M",
        "max_token_ttl": "PT1M",
        "max_delegation_depth": 2,
        "jwks": {"keys": [agent.key.public_jwk]},
        "enabled": True,
    }
    said = await scene.server.admin("POST", "/admin/agents", json={"agent_id": agent.name, **members})
    if said.status == 409:  # from the demo before
        said = await scene.server.admin("PATCH", f"/admin/agents/{agent.name}", json=members)
    said.good(f"{agent.name} is registered")


async def sign_in(scene: Scene, shown: list[str]) -> None:
    """The person gets a token of their own from the identity provider."""
    scene.person = await _person(scene)
    await scene.server.ask("POST", "/development/person", json={"enabled": True})
    said = await scene.server.ask("POST", "/development/token", data={"scope": f"{READ} {WRITE}"})
    scene.signed_in = str(said.good("the person is given a token")["access_token"])
    claims = claims_of(scene.signed_in)
    shown.append(f"{claims['sub']} may {claims['scope']}, says {claims['iss']}")


async def _person(scene: Scene) -> str:
    person = await scene.server.ask("GET", "/development/person")
    expect(person.status == 200, "an identity provider with one person", person.text, DEVELOPMENT)
    return str(person.body["id"])


async def exchange(scene: Scene, shown: list[str]) -> None:
    """The agent exchanges it for a task: a short token, and a grant that renews it."""
    said = await scene.scribe.exchange(scene.signed_in, NOTES, READ)
    body = said.good("the exchange is granted")
    claims = claims_of(str(body["access_token"]))
    expect(claims["sub"] == scene.person, f"a token for {scene.person}", claims["sub"])
    expect(claims["act"]["sub"] == scene.scribe.name, f"that {scene.scribe.name} acts", claims["act"])
    expect(claims["scope"] == READ == body["scope"], f"the scope {READ}", body["scope"])
    expect(0 < body["expires_in"] <= 60, "a token of at most 60 s", body["expires_in"])
    expect(claims["exp"] <= claims["task"]["exp"], "that no token outlives its task", claims["task"])
    scene.task = Task(str(body["task_id"]), str(body["refresh_token"]), str(body["access_token"]))
    shown.append(
        f"{scene.task.id} until {body['task_expires_at']}: {claims['act']['sub']} for {claims['sub']}, "
        f"{body['scope']}, a token of {body['expires_in']} s"
    )


async def tool_call(scene: Scene, shown: list[str]) -> None:
    """A tool server takes the token for what it allows, and nothing else."""

    async def notes(request: Request) -> JSONResponse:
        token = task_token(request)
        return JSONResponse({"for": token.subject, "by": token.agent, "task": token.task_id})

    inside = Starlette(routes=[Route("/notes", notes, methods=["GET", "POST"])])
    async with Guard(scene.server.url, NOTES) as guard:
        app = GuardMiddleware(inside, guard, {"GET /notes": READ, "POST /notes": WRITE})
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url=NOTES) as http:
            bearer = {"Authorization": f"Bearer {scene.at_work.token}"}
            read = await http.get("/notes", headers=bearer)
            expect(read.status_code == 200, "that the call is taken", read.text)
            told = json.loads(read.text)
            wanted = {"for": scene.person, "by": scene.scribe.name, "task": scene.at_work.id}
            expect(told == wanted, f"a call {wanted}", told)
            wrote = await http.post("/notes", headers=bearer)
            expect(wrote.status_code == 403, "403 where the scope does not reach", wrote.status_code)
            bare = await http.get("/notes")
            expect(bare.status_code == 401, "401 without a token", bare.status_code)
    shown.append(f"GET /notes: 200, {told['by']} for {told['for']}; POST /notes: 403; without a token: 401")


STEPS = (
    Step("Onbe is found (/.well-known/oauth-authorization-server)", found),
    Step("two agents are registered (POST /admin/agents)", register),
    Step("a person signs in at the identity provider (/development/token)", sign_in),
    Step("an agent begins a task for them (token exchange)", exchange),
    Step("a tool server takes the task's token for what it allows (onbe_client.guard)", tool_call),
)
