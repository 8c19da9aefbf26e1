"""Cases: an agent shows itself by an assertion that holds in every way, or not at all (RFC 7523; RFC 8725)."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable

from onbe.conformance.bench import Agent, Bench
from onbe.conformance.case import add, case, expect
from onbe.conformance.making import Signer

Forge = Callable[[Bench, Agent], Iterable[str]]


def attack(name: str, sentence: str, reason: str, forge: Forge, *, named: bool = False) -> None:
    """A case in which each of some assertions is refused. `named`: the record names the agent, whose key it was."""

    def check(bench: Bench) -> None:
        agent = bench.agent()
        for assertion in forge(bench, agent):
            bench.denied(bench.exchange(agent, actor_token=assertion), reason, agent if named else None)

    add(name, sentence, check, module=__name__)


def wrong(name: str, sentence: str, reason: str, *changes: Callable[[Bench, int], dict[str, object]]) -> None:
    """An attack by claims that the agent's own key signed. Each change is told the second of now."""

    def forge(bench: Bench, agent: Agent) -> Iterable[str]:
        now = int(bench.clock.now().timestamp())
        return [bench.assertion(agent, **change(bench, now)) for change in changes]

    attack(name, sentence, reason, forge, named=True)


# The signature

attack(
    "assertion-unsigned", "An assertion with the algorithm none is refused, however it is spelled.",
    "assertion_algorithm",
    lambda bench, agent: [agent.signer.without_algorithm(bench.claims(agent), name)[2] for name in ("none", "NoNe")],
)  # fmt: skip
attack(
    "assertion-hmac", "A public key is never taken for a shared secret (HS256).", "assertion_algorithm",
    lambda bench, agent: agent.signer.with_the_public_key(bench.claims(agent)),
)  # fmt: skip
attack(
    "assertion-other-algorithm", "The algorithm is the key's: a header that names another is refused.",
    "assertion_algorithm",
    lambda bench, agent: [agent.signer.jwt(bench.claims(agent), {"alg": alg}) for alg in ("PS256", "EdDSA", "ES384")],
)  # fmt: skip
attack(
    "assertion-forged", "An assertion that another key signed is refused.", "assertion_signature",
    lambda bench, agent: [Signer.new(agent.signer.kid).jwt(bench.claims(agent))],
)  # fmt: skip


def _brings_a_key(bench: Bench, agent: Agent) -> Iterable[str]:
    stranger = Signer.new(agent.signer.kid)
    for brought in ({"jwk": stranger.public}, {"jku": f"{bench.url}/.well-known/jwks.json"}, {"x5u": bench.url}):
        yield stranger.jwt(bench.claims(agent), brought)


attack(
    "assertion-brings-key", "A key that the header brings along or points to is not looked at (jwk, jku, x5u).",
    "assertion_signature", _brings_a_key,
)  # fmt: skip
attack(
    "assertion-critical", "A header with crit or b64 is refused.", "assertion_malformed",
    lambda bench, agent: [
        agent.signer.jwt(bench.claims(agent), header) for header in ({"crit": ["exp"]}, {"crit": ["b64"], "b64": False})
    ],
)  # fmt: skip
attack(
    "assertion-unknown-key", "A key id that the agent has not registered is refused.", "assertion_key_unknown",
    lambda bench, agent: [Signer(agent.signer.key, "another").jwt(bench.claims(agent))],
)  # fmt: skip
attack(
    "assertion-of-another", "An agent's key signs for no other agent.", "assertion_key_unknown",
    lambda bench, agent: [bench.agent().signer.jwt(bench.claims(agent))],
)  # fmt: skip


def _spelled(bench: Bench, agent: Agent) -> Iterable[str]:
    header, claims, signature = bench.assertion(agent).split(".")
    padded = base64.urlsafe_b64encode(base64.urlsafe_b64decode(signature + "==")).decode()
    return [f"{header}.{claims}.{padded}", f"{header}.{claims}.{signature}.", f"{header}.{claims}"]


attack(
    "assertion-spelling", "An assertion has one spelling: padding and parts too many or too few are refused.",
    "assertion_malformed", _spelled,
)  # fmt: skip


def _twice(bench: Bench, agent: Agent) -> Iterable[str]:
    text = json.dumps(bench.claims(agent))
    yield agent.signer.jwt(text.replace("{", '{"sub": "somebody-else", ', 1).encode())
    yield agent.signer.jwt(text.replace("{", '{"note": NaN, ', 1).encode())
    yield agent.signer.jwt(b'{"x":' + b"[" * 3000 + b"]" * 3000 + b"}")


attack(
    "assertion-strict-json", "Members twice, NaN and endless nesting in an assertion are refused.",
    "assertion_malformed", _twice,
)  # fmt: skip

# The claims

wrong("assertion-subject", "An assertion speaks for its issuer alone: sub is iss.", "assertion_issuer",
      lambda bench, now: {"sub": "somebody-else"}, lambda bench, now: {"sub": None})  # fmt: skip
attack(
    "assertion-stranger", "Who is not registered is refused.", "assertion_issuer",
    lambda bench, agent: [Signer.new().jwt({**bench.claims(agent), "iss": "conformance-nobody",
                                            "sub": "conformance-nobody"})],
)  # fmt: skip
wrong("assertion-audience", "An assertion for another audience is refused; so is one that only begins like the issuer.",
      "assertion_audience", lambda bench, now: {"aud": "https://other.invalid"},
      lambda bench, now: {"aud": f"{bench.issuer}.other.invalid"}, lambda bench, now: {"aud": f"{bench.issuer}/"},
      lambda bench, now: {"aud": [bench.issuer, "https://other.invalid"]},
      lambda bench, now: {"aud": None})  # fmt: skip
wrong("assertion-expired", "An assertion that has expired is refused, a minute of skew allowed.", "assertion_expired",
      lambda bench, now: {"iat": now - 300, "exp": now - 90})  # fmt: skip
wrong("assertion-endless", "An assertion without an end is refused.", "assertion_malformed",
      lambda bench, now: {"exp": None}, lambda bench, now: {"exp": str(now + 60)},
      lambda bench, now: {"exp": True})  # fmt: skip
wrong("assertion-too-long", "An assertion that expires more than five minutes from now is refused.",
      "assertion_too_long", lambda bench, now: {"exp": now + 400})  # fmt: skip
wrong("assertion-not-yet", "An assertion from the future is refused (iat, nbf).", "assertion_not_yet",
      lambda bench, now: {"iat": now + 200, "exp": now + 250},
      lambda bench, now: {"nbf": now + 200, "exp": now + 250})  # fmt: skip
wrong("assertion-jti", "An assertion without an id of its own is refused.", "assertion_no_jti",
      lambda bench, now: {"jti": None}, lambda bench, now: {"jti": ""}, lambda bench, now: {"jti": 7})  # fmt: skip
wrong("assertion-instance", "An instance is 1 to 128 printable characters.", "assertion_instance",
      lambda bench, now: {"instance": "x" * 129}, lambda bench, now: {"instance": "a\nb"},
      lambda bench, now: {"instance": ""})  # fmt: skip


@case("An assertion is good for one request.")
def assertion_replayed(bench: Bench) -> None:
    agent = bench.agent()
    assertion = bench.assertion(agent)
    bench.begin(agent, actor_token=assertion)
    bench.denied(bench.exchange(agent, actor_token=assertion), "assertion_replayed", agent)


@case("A stranger cannot use up an agent's id of an assertion: the signature is checked before it counts.")
def assertion_burned(bench: Bench) -> None:
    agent = bench.agent()
    claims = bench.claims(agent)
    forged = Signer.new(agent.signer.kid).jwt(claims)
    bench.denied(bench.exchange(agent, actor_token=forged), "assertion_signature")
    bench.begin(agent, actor_token=agent.signer.jwt(claims))


@case("Ids of assertions are each agent's own.")
def assertion_ids_apart(bench: Bench) -> None:
    one, other, jti = bench.agent(), bench.agent(), bench.ids.hex()
    bench.begin(one, actor_token=bench.assertion(one, jti=jti))
    bench.begin(other, actor_token=bench.assertion(other, jti=jti))


@case("A key that was taken out of a registration signs no more.")
def assertion_old_key(bench: Bench) -> None:
    agent = bench.agent()
    bench.begin(agent)
    bench.change(agent, jwks={"keys": [Signer.new().public]})
    bench.denied(bench.exchange(agent), "assertion_key_unknown")


@case("An assertion may be for the token endpoint as well as for the issuer, and its instance is told in the token.")
def assertion_taken(bench: Bench) -> None:
    agent = bench.agent()
    assertion = bench.assertion(agent, aud=bench.metadata["token_endpoint"], instance="run 7")
    _, claims = bench.begin(agent, actor_token=assertion)
    expect(claims["act"].get("instance") == "run 7", "act.instance is not the assertion's instance")


@case("A refused assertion is repeated nowhere in the answer.")
def assertion_not_echoed(bench: Bench) -> None:
    agent = bench.agent()
    assertion = Signer.new(agent.signer.kid).jwt(bench.claims(agent, note="a-word-that-nobody-else-says"))
    answer = bench.exchange(agent, actor_token=assertion)
    echoed = any(word in answer.text for word in (assertion, assertion.split(".")[2], "a-word-that-nobody-else"))
    expect(answer.status_code == 401 and not echoed, "the answer repeats what was sent")
