"""Cases: whose token says who a person is, and for whom it was made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from onbe.conformance.bench import READ, Bench
from onbe.conformance.case import add, case
from onbe.conformance.making import Signer, part, told


def forged(name: str, sentence: str, reason: str, *changes: Callable[[Bench, int], Mapping[str, Any]]) -> None:
    """A case in which the provider itself signs what is not to be taken. Each change is told the second of now."""

    def check(bench: Bench) -> None:
        agent, now = bench.agent(), int(bench.clock.now().timestamp())
        for change in changes:
            token = bench.people.forged(READ, change(bench, now))
            bench.denied(bench.exchange(agent, subject_token=token), reason, agent)

    add(name, sentence, check, module=__name__)


@case("A person's token whose signature is wrong is refused.")
def subject_forged(bench: Bench) -> None:
    agent = bench.agent()
    header, claims = told(bench.subject())
    token = Signer.new(str(header["kid"])).jwt(claims, {"typ": header.get("typ")})
    bench.denied(bench.exchange(agent, subject_token=token), "subject_signature", agent)


@case("A person's token whose claims were changed is refused.")
def subject_changed(bench: Bench) -> None:
    agent = bench.agent()
    head, _, signature = bench.subject(READ).split(".")
    _, claims = told(bench.subject(READ))
    token = f"{head}.{part({**claims, 'sub': 'somebody-else'})}.{signature}"
    bench.denied(bench.exchange(agent, subject_token=token), "subject_signature", agent)


@case("A person's token that is not signed is refused.")
def subject_unsigned(bench: Bench) -> None:
    agent = bench.agent()
    header, claims = told(bench.subject())
    token = Signer.new(str(header["kid"])).without_algorithm(claims)[2]
    bench.denied(bench.exchange(agent, subject_token=token), "subject_algorithm", agent)


@case("A person's token of a key that the provider does not publish is refused.")
def subject_unknown_key(bench: Bench) -> None:
    agent = bench.agent()
    _, claims = told(bench.subject())
    bench.denied(bench.exchange(agent, subject_token=Signer.new().jwt(claims)), "subject_key_unknown", agent)


@case("What is no JWT is no person's token.")
def subject_malformed(bench: Bench) -> None:
    agent = bench.agent()
    for token in ("a-password", "a.b.c", "{}"):
        bench.denied(bench.exchange(agent, subject_token=token), "subject_malformed", agent)


@case("A person's token for another audience is refused.")
def subject_audience(bench: Bench) -> None:
    agent = bench.agent()
    token = bench.people.token(READ, "https://other.invalid")
    bench.denied(bench.exchange(agent, subject_token=token), "subject_audience", agent)


@case("An agent's own assertion is no person's token.")
def subject_is_assertion(bench: Bench) -> None:
    agent = bench.agent()
    bench.denied(bench.exchange(agent, subject_token=bench.assertion(agent)), "subject_key_unknown", agent)


forged("subject-issuer", "A person's token of another issuer is refused, whoever signed it.", "subject_issuer",
       lambda bench, now: {"iss": "https://other.invalid"})  # fmt: skip
forged("subject-expired", "A person's token that has expired is refused.", "subject_expired",
       lambda bench, now: {"iat": now - 300, "exp": now - 90})  # fmt: skip
forged("subject-not-yet", "A person's token from the future is refused.", "subject_not_yet",
       lambda bench, now: {"nbf": now + 200, "exp": now + 300})  # fmt: skip
forged("subject-acts", "A token of somebody who acts for another is no person's.", "subject_is_agent",
       lambda bench, now: {"act": {"sub": "somebody"}})  # fmt: skip
forged("subject-agent", "A registered agent is no person: it sponsors nobody.", "subject_is_agent",
       lambda bench, now: {"sub": bench.agents[-1].id})  # fmt: skip
forged("subject-nameless", "A token that names nobody is refused.", "subject_nameless",
       lambda bench, now: {"sub": None}, lambda bench, now: {"sub": ""})  # fmt: skip
