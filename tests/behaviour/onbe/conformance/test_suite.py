"""The conformance suite passes on an Onbe that is right, and on one with a check taken out exactly its case fails."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from tests.behaviour.onbe.conformance.live import ADMIN_KEY, AUDIENCE, PERSON, PROVIDER, Live, live

from keel import jose
from keel.testing.plugin import FreshDatabase
from onbe.conformance.case import CASES
from onbe.conformance.run import chosen, run

Patch = pytest.MonkeyPatch
GRANTS: Any = importlib.import_module("onbe.grants.actions")
DECIDE: Any = importlib.import_module("onbe.grants.decide")
TOKENS: Any = importlib.import_module("onbe.tokens.actions")
DIRECTORY: Any = importlib.import_module("onbe.directory.decide")


@pytest.fixture
def server(onbe_database: FreshDatabase) -> Iterator[Live]:
    with live(onbe_database) as made:
        yield made


def failed(server: Live, *names: str, last: bool = False) -> dict[str, str]:
    """The cases that failed, with why, of all or of those of `names`; without those that wait, unless `last`."""
    with server.bench() as bench:
        outcomes = list(run(bench, [one for one in chosen(names) if last or one.when != "last"]))
    assert not [one.case.name for one in outcomes if one.state == "not run"]
    return {one.case.name: one.why for one in outcomes if one.state == "failed"}


def test_an_onbe_that_is_right_passes_every_case_twice_and_keeps_no_agent_that_works(server: Live) -> None:
    assert failed(server, last=True) == {}
    assert failed(server) == {}
    with server.bench() as bench:
        agents: list[dict[str, Any]] = []
        after: str | None = ""
        while after is not None:
            page = bench.admin("GET", "/admin/agents", params={"after": after, "limit": "200"}).json()
            agents, after = agents + page["agents"], page["next"]
        assert agents
        assert all(one["agent_id"].startswith("conformance-") and not one["enabled"] for one in agents)


# Checks that are taken out


def _assertion_audience(patch: Patch) -> None:
    real = TOKENS.decide_assertion
    patch.setattr(
        TOKENS, "decide_assertion",
        lambda claims, agent, audiences, now: real({**claims, "aud": audiences[0]}, agent, audiences, now),
    )  # fmt: skip


def _assertion_life(patch: Patch) -> None:
    real = TOKENS.decide_assertion

    def decide(claims: Any, agent: Any, audiences: Any, now: Any) -> Any:
        exp = claims.get("exp")
        capped = min(exp, now.timestamp() + 200) if type(exp) is int else exp
        return real({**claims, "exp": capped} if "exp" in claims else claims, agent, audiences, now)

    patch.setattr(TOKENS, "decide_assertion", decide)


def _critical(patch: Patch) -> None:
    real = jose._header_taken
    patch.setattr(
        jose, "_header_taken",
        lambda header: real({name: value for name, value in header.items() if name not in ("crit", "b64")}),
    )  # fmt: skip


def _algorithm_none(patch: Patch) -> None:
    real = jose.verified

    def verified(token: str, keys: Any) -> Any:
        read = jose._read(token)
        if read is not None and read[0]["alg"].lower() == "none" and read[1].get("iss", "").startswith("conformance"):
            return jose.Jwt(read[0], read[1])
        return real(token, keys)

    patch.setattr(jose, "verified", verified)


def _grant_of_another(patch: Patch) -> None:
    real = DECIDE.decide_grant
    patch.setattr(
        DECIDE, "decide_grant",
        lambda agent, task, line, now: real(task.agent if task else agent, task, line, now),
    )  # fmt: skip


def _scope_widened(patch: Patch) -> None:
    real = GRANTS.decide_refresh

    def decide(ask: Any, agent: Any, facts: Any, *rest: Any) -> Any:
        if facts.task is not None and ask.scope is not None:
            asked = dataclasses.replace(facts.task, scope=ask.scope)
            facts = dataclasses.replace(facts, task=asked)
        return real(ask, agent, facts, *rest)

    patch.setattr(GRANTS, "decide_refresh", decide)


def _audience_changed(patch: Patch) -> None:
    real = GRANTS.decide_refresh
    patch.setattr(
        GRANTS, "decide_refresh",
        lambda ask, *rest: real(dataclasses.replace(ask, resource=None), *rest),
    )  # fmt: skip


def _blocked(patch: Patch) -> None:
    real = DECIDE.decide_sponsor
    for module in (DECIDE, GRANTS):
        patch.setattr(module, "decide_sponsor", lambda sponsor, status: real(None, status))


def _scope_of_person(patch: Patch) -> None:
    real = GRANTS.decide_exchange
    patch.setattr(
        GRANTS, "decide_exchange",
        lambda ask, agent, person, *rest: real(ask, agent, dataclasses.replace(person, scope=None), *rest),
    )  # fmt: skip


def _token_cap_at_issue(patch: Patch) -> None:
    patch.setattr(GRANTS, "decide_exchange", _uncapped(GRANTS.decide_exchange))


def _token_cap_at_refresh(patch: Patch) -> None:
    patch.setattr(GRANTS, "decide_refresh", _uncapped(GRANTS.decide_refresh))


def _uncapped(real: Callable[..., Any]) -> Callable[..., Any]:
    """A token as long as the registration allows, whatever is left of the task."""

    def decide(*facts: Any) -> Any:
        mint = real(*facts)
        agent, clocks = facts[1], facts[-2]
        if hasattr(mint, "expires_at"):
            ttl = DECIDE.token_ttl((agent,), clocks)
            return dataclasses.replace(mint, expires_at=mint.issued_at + ttl)
        return mint

    return decide


def _depth(patch: Patch) -> None:
    patch.setattr(DECIDE, "_deep_enough", lambda agents, depth: True)


def _to_itself(patch: Patch) -> None:
    real = GRANTS.decide_parent
    patch.setattr(
        GRANTS, "decide_parent",
        lambda agent, line, now: real(dataclasses.replace(agent, agent_id="nobody"), line, now),
    )  # fmt: skip


def _high_risk_subset(patch: Patch) -> None:
    real = DIRECTORY._Reading.together
    patch.setattr(
        DIRECTORY._Reading, "together",
        lambda self, values: real(self, {**values, "high_risk_audiences": ()}),
    )  # fmt: skip


def _subject_agent_by_act(patch: Patch) -> None:
    real = TOKENS.decide_subject

    def decide(header: Any, claims: Any, *rest: Any) -> Any:
        return real(header, {name: value for name, value in claims.items() if name != "act"}, *rest)

    patch.setattr(TOKENS, "decide_subject", decide)


TAKEN_OUT: dict[str, Callable[[Patch], None]] = {
    "assertion-audience": _assertion_audience,
    "assertion-too-long": _assertion_life,
    "assertion-critical": _critical,
    "assertion-unsigned": _algorithm_none,
    "subject-acts": _subject_agent_by_act,
    "grant-of-another": _grant_of_another,
    "scope-widened": _scope_widened,
    "audience-changed": _audience_changed,
    "sponsor-blocked": _blocked,
    "scope-meets": _scope_of_person,
    "token-within-task": _token_cap_at_issue,
    "token-within-task-at-refresh": _token_cap_at_refresh,
    "delegation-too-deep": _depth,
    "delegation-to-itself": _to_itself,
    "registration-high-risk": _high_risk_subset,
}
"""By the case that guards it: a check, taken out of the decision that makes it."""


@pytest.mark.parametrize("name", TAKEN_OUT)
def test_with_a_check_taken_out_its_case_fails_and_no_other_guard_does(
    name: str, server: Live, monkeypatch: Patch
) -> None:
    TAKEN_OUT[name](monkeypatch)
    assert list(failed(server, *TAKEN_OUT)) == [name]


def test_with_all_of_them_taken_out_exactly_their_cases_fail(server: Live, monkeypatch: Patch) -> None:
    """With the test above: no case fails for a check that is not its own, at the price of one whole run."""
    for take_out in TAKEN_OUT.values():
        take_out(monkeypatch)
    assert set(failed(server)) == set(TAKEN_OUT)


def test_without_the_last_five_seconds_exactly_that_case_fails(server: Live, monkeypatch: Patch) -> None:
    monkeypatch.setattr(DECIDE, "TASK_ENDING", timedelta(0))
    monkeypatch.setattr("onbe.tasks.decide.TASK_ENDING", timedelta(0))
    with server.bench() as bench:
        outcomes = list(run(bench, chosen(["task-e"])))
    assert [(one.case.name, one.state) for one in outcomes] == [("task-ending", "failed"), ("task-expired", "passed")]


def test_a_person_who_has_tasks_of_other_agents_is_not_blocked(server: Live) -> None:
    with server.bench() as other, server.bench() as bench:
        body, _ = other.begin(agent := other.agent())
        (outcome,) = run(bench, chosen(["sponsor-blocked"]))
        assert (outcome.state, outcome.why) == ("not run", "the person has tasks of other agents, which this would end")
        other.given(other.refresh(agent, body["refresh_token"]))


def test_a_refusal_that_is_not_recorded_fails_its_case(server: Live, monkeypatch: Patch) -> None:
    async def forgetful(deps: Any, row: Any, refusal: Any) -> Any:
        return refusal

    monkeypatch.setattr("onbe.wire.oauth.token.stranger", forgetful)
    with server.bench() as bench:
        (outcome,) = run(bench, chosen(["grant-type-unknown"]))
    assert outcome.why == "the refusal is not on the record under its reason, unsupported_grant"


# The command


@pytest.fixture
def issuer_key(server: Live, tmp_path: Path) -> list[str]:
    path = tmp_path / "issuer.pem"
    private = server.key.private_key
    assert private is not None
    path.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return ["--issuer-key", str(path), "--issuer", PROVIDER, "--audience", AUDIENCE, "--person", PERSON]


def onbe_conformance(*words: str, key: str = ADMIN_KEY) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "onbe.cli", "conformance", *words]
    environment = {"ONBE_ADMIN_KEY": key, "ONBE_DATA": "/nowhere", "PATH": os.environ["PATH"]}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)


def test_the_command_tells_a_line_a_case_and_its_exit_code_is_the_sum(
    server: Live, issuer_key: list[str], monkeypatch: Patch
) -> None:
    words = ("--url", server.url, *issuer_key, "--only", "delegation", "--only", "subject")
    good = onbe_conformance(*words)
    assert good.returncode == 0, good.stdout + good.stderr
    lines = good.stdout.splitlines()
    assert sum(line.startswith("passed") for line in lines) == len(lines) - 1 == len(chosen(["delegation", "subject"]))
    monkeypatch.setattr(DECIDE, "_deep_enough", lambda agents, depth: True)
    bad = onbe_conformance(*words, "--json")
    assert bad.returncode == 1
    told = json.loads(bad.stdout)
    assert told["failed"] == 1
    assert [one["name"] for one in told["cases"] if one["state"] == "failed"] == ["delegation-too-deep"]


@pytest.mark.parametrize("words", [
    ("--only", "no-such-case"), ("--url", "http://127.0.0.1:9"), ("--url", "http://example.com"), ("--url", "x"),
    ("--issuer-key", "/nowhere"),
])  # fmt: skip
def test_what_cannot_be_run_is_exit_code_two(words: tuple[str, ...]) -> None:
    done = onbe_conformance(*words)
    assert done.returncode == 2
    assert done.stderr.startswith("onbe: ")


def test_a_wrong_key_and_a_server_without_people_are_exit_code_two(server: Live) -> None:
    assert onbe_conformance("--url", server.url).returncode == 2
    assert onbe_conformance("--url", server.url, "--subject-token-command", "true", key="k" * 40).returncode == 2
    assert onbe_conformance("--url", server.url, key="").returncode == 2


def test_the_list_has_a_line_for_each_of_more_than_forty_cases() -> None:
    done = onbe_conformance("--list")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == len(CASES) > 40
    assert all(one.sentence.endswith(".") and one.sentence[0].isupper() for one in CASES.values())
    assert {one["name"] for one in json.loads(onbe_conformance("--list", "--json").stdout)} == set(CASES)


def test_every_subject_token_of_a_command_is_asked_for_with_its_scope(server: Live, tmp_path: Path) -> None:
    with server.bench() as bench:
        token = bench.subject("conformance:read")
    script = tmp_path / "token.sh"
    script.write_text(f'#!/bin/sh\necho "$1" >> {tmp_path}/asked\necho {token}\n')
    script.chmod(0o755)
    words = (
        "--url",
        server.url,
        "--subject-token-command",
        str(script),
        "--only",
        "scope-empty",
        "--only",
        "subject-e",
    )
    done = onbe_conformance(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed, 0 failed, 1 not run" in done.stdout
    assert (tmp_path / "asked").read_text() == "conformance:read conformance:write\n"
