"""Cases: what is published, how requests are read, what every answer keeps to."""

from __future__ import annotations

from onbe import names
from onbe.conformance.bench import READ, TOOL, Bench
from onbe.conformance.case import case, expect
from onbe.conformance.making import holds, told

NOT_A_JWT = "x"
PRIVATE = {"d", "p", "q", "dp", "dq", "qi", "oth", "k"}


@case("Both discovery documents are the same and name the issuer, and what they list answers.")
def discovery(bench: Bench) -> None:
    other = bench.http.get(f"{bench.url}/.well-known/openid-configuration")
    expect(other.status_code == 200 and other.json() == bench.metadata, "the two documents differ")
    for name, address in bench.metadata.items():
        if name.endswith("_endpoint"):
            expect(address.startswith(f"{bench.issuer}/"), f"{name} is not below the issuer")
            expect(bench.http.post(address).status_code in (400, 401), f"{name} does not answer as it should")


@case("The published keys are public: no private member, no shared secret.")
def keys_public(bench: Bench) -> None:
    keys = bench.http.get(bench.metadata["jwks_uri"]).json()["keys"]
    expect(keys, "no key is published")
    for key in keys:
        expect(key.get("kty") != "oct" and PRIVATE.isdisjoint(key), "a private member is published")


@case("A token is verified by the published key of its kid, is of the type at+jwt, and says all that it must.")
def token_whole(bench: Bench) -> None:
    agent = bench.agent()
    body, claims = bench.begin(agent, scope=READ)
    header, _ = told(body["access_token"])
    expect((header.get("alg"), header.get("typ")) == ("ES256", names.ISSUED_TYP), "alg or typ of the token is wrong")
    keys = bench.http.get(bench.metadata["jwks_uri"]).json()["keys"]
    found = [key for key in keys if key.get("kid") == header.get("kid")]
    expect(len(found) == 1 and holds(body["access_token"], found[0]), "the token is not of the published key")
    wanted = {"iss": bench.issuer, "aud": TOOL, "scope": READ, "client_id": agent.id}
    expect(wanted.items() <= claims.items(), "iss, aud, scope or client_id of the token is wrong")
    expect(claims["act"]["sub"] == agent.id and claims["act"]["depth"] == 1, "act of the token is wrong")
    expect(claims["task"]["id"] == body["task_id"] and claims["task"]["sponsor"] == claims["sub"], "task is wrong")
    expect(claims["exp"] - claims["iat"] >= body["expires_in"] > 0, "expires_in is more than the token has")


@case("No answer with a token in it, and no refusal, may be stored.")
def answers_not_stored(bench: Bench) -> None:
    agent = bench.agent()
    for answer in (bench.exchange(agent), bench.exchange(agent, actor_token=NOT_A_JWT)):
        expect("no-store" in answer.headers.get("cache-control", ""), "Cache-Control is not no-store")


@case("A parameter is sent once.")
def parameter_twice(bench: Bench) -> None:
    body = f"grant_type={names.REFRESH}&grant_type={names.REFRESH}"
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = bench.http.post(bench.metadata["token_endpoint"], content=body.encode(), headers=headers)
    bench.denied(answer, "malformed_request")
    expect("twice" in answer.text or "once" in answer.text, "it is refused, and not for being there twice")


@case("A request without one of its parameters is refused.")
def parameter_missing(bench: Bench) -> None:
    agent = bench.agent()
    for name in ("subject_token", "actor_token", "resource", "subject_token_type", "actor_token_type"):
        bench.denied(bench.exchange(agent, **{name: None}), "malformed_request")


@case("A body over 64 KiB is refused.")
def body_too_large(bench: Bench) -> None:
    bench.denied(bench.post("token", {"grant_type": "x" * (names.BODY_BYTES + 1)}), "too_large")


@case("Parameters in the address, and bodies that are no form, are refused.")
def parameters_elsewhere(bench: Bench) -> None:
    url = bench.metadata["token_endpoint"]
    bench.denied(bench.http.post(f"{url}?grant_type={names.REFRESH}", data={"x": "y"}), "malformed_request")
    bench.denied(bench.http.post(url, json={"grant_type": names.REFRESH}), "malformed_request")


@case("A grant type that is not one of the two is refused.")
def grant_type_unknown(bench: Bench) -> None:
    for kind in ("password", "client_credentials", "authorization_code", "urn:x"):
        bench.denied(bench.post("token", {"grant_type": kind}), "unsupported_grant")


@case("A token type that is not taken is refused by name.")
def token_type_unknown(bench: Bench) -> None:
    agent = bench.agent()
    saml = "urn:ietf:params:oauth:token-type:saml2"
    for name in ("subject_token_type", "actor_token_type", "requested_token_type"):
        bench.denied(bench.exchange(agent, **{name: saml}), "unsupported_token_type")


@case("The token endpoint takes POST alone.")
def token_by_post(bench: Bench) -> None:
    for method in ("GET", "PUT", "DELETE"):
        answer = bench.http.request(method, bench.metadata["token_endpoint"])
        expect(answer.status_code == 405, f"{method} answers HTTP {answer.status_code}")
