"""Cases: the admin API and the record are for who has the key, and a registration is what it may be."""

from __future__ import annotations

from onbe.conformance.bench import OTHER_TOOL, READ, WRITE, Bench
from onbe.conformance.case import case, expect
from onbe.conformance.making import Signer

YEARS, MOMENT = "P3650D", "PT0.001S"
WRONG_KEYS: tuple[dict[str, str], ...] = ({}, {"Authorization": "Bearer " + "x" * 43}, {"Authorization": "Basic eDp5"})


@case("The admin API answers nobody without its key, and says so on the record.")
def admin_key(bench: Bench) -> None:
    for headers in WRONG_KEYS:
        for method, path in (("GET", "/admin/agents"), ("POST", "/admin/agents"), ("DELETE", "/admin/agents/x")):
            answer = bench.http.request(method, f"{bench.url}{path}", headers=headers)
            expect(answer.status_code == 401, f"{method} {path} answers HTTP {answer.status_code} without the key")
    bench.recorded("admin_key_wrong")


@case("The record is read by nobody without the key.")
def audit_key(bench: Bench) -> None:
    for headers in WRONG_KEYS:
        for path in ("/audit", "/audit/checkpoints", "/audit/summary?by=agent", "/audit/records/1/proof"):
            answer = bench.http.get(f"{bench.url}{path}", headers=headers)
            expect(answer.status_code == 401, f"{path} answers HTTP {answer.status_code} without the key")


@case("A registration with a member that does not exist is refused, naming it.")
def registration_unknown_member(bench: Bench) -> None:
    _refused(bench, "is_admin", is_admin=True)


@case("A registration that shows a private key, or a shared secret, is refused.")
def registration_private_key(bench: Bench) -> None:
    signer = Signer.new()
    private = {**signer.key.as_dict(private=True), "kid": "a"}
    for key in (private, {"kty": "oct", "k": "c2VjcmV0LXNlY3JldA", "kid": "a"}):
        answer = bench.admin("POST", "/admin/agents", bench.members(signer, jwks={"keys": [key]}))
        expect(answer.status_code == 422, f"it answers HTTP {answer.status_code}")
        expect(str(key.get("d", "c2VjcmV0")) not in answer.text, "the answer repeats the private key")


@case("A registration names scopes and audiences.")
def registration_empty(bench: Bench) -> None:
    _refused(bench, "allowed_scopes", allowed_scopes=[])
    _refused(bench, "allowed_audiences", allowed_audiences=[])


@case("A registration is held inside the bounds of the two clocks.")
def registration_clocks(bench: Bench) -> None:
    _refused(bench, "max_task_ttl", max_task_ttl=YEARS)
    _refused(bench, "max_token_ttl", max_token_ttl=YEARS)
    _refused(bench, "max_token_ttl", max_token_ttl=MOMENT)


@case("A registration allows delegations one to five deep.")
def registration_depth(bench: Bench) -> None:
    for depth in (0, 6, -1, 1.5, True):
        _refused(bench, "max_delegation_depth", max_delegation_depth=depth)


@case("An audience that is high-risk is one of those that are allowed.")
def registration_high_risk(bench: Bench) -> None:
    _refused(bench, "high_risk_audiences", high_risk_audiences=[OTHER_TOOL])


@case("An agent of which tasks are stored is not deleted.")
def agent_in_use(bench: Bench) -> None:
    agent = bench.agent()
    bench.begin(agent)
    answer = bench.admin("DELETE", f"/admin/agents/{agent.id}")
    expect(answer.status_code == 409, f"deleting it answers HTTP {answer.status_code}")


@case("What is granted is on the record, with who, for whom and what; no token and no grant is.")
def granted_recorded(bench: Bench) -> None:
    agent = bench.agent()
    body, claims = bench.begin(agent, scope=f"{READ} {WRITE}")
    answer = bench.admin("GET", "/audit", params={"agent_id": agent.id, "decision": "allow"})
    records = [one for one in answer.json()["records"] if one["action"] == "token.exchange"]
    expect(len(records) == 1, "the exchange is not on the record once")
    told = (records[0]["sponsor"], records[0]["task_id"])
    expect(told == (claims["sub"], body["task_id"]), "the record does not name the sponsor and the task")
    leaked = any(body[name] in answer.text for name in ("access_token", "refresh_token"))
    expect(not leaked, "the record holds a token or a grant")


def _refused(bench: Bench, member: str, **members: object) -> None:
    answer = bench.admin("POST", "/admin/agents", bench.members(Signer.new(), **members))
    expect(answer.status_code == 422, f"it answers HTTP {answer.status_code}")
    named = any(member in str(error.get("pointer")) for error in answer.json().get("errors", ()))
    expect(named, f"the refusal does not name {member}")
