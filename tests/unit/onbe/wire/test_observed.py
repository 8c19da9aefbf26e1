"""What is told of an exchange or a refresh."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import pytest
from starlette.types import Scope

from keel.telemetry import tracing
from keel.telemetry.tracing import Fact, Kind, Place
from keel.testing import FakeClock
from keel.web.observed import EXCHANGE_KEY, Exchange
from onbe.wire.observed import decided
from onbe.wire.refusals import OAUTH

PARENT = Place(7, 8, True)


@dataclass
class Begun:
    facts: dict[str, Fact] = field(default_factory=dict)
    parent: Place | None = None
    ended: bool = False

    @property
    def place(self) -> Place:
        return Place(7, 9, True)

    def set(self, facts: Mapping[str, Fact]) -> None:
        self.facts.update(facts)

    def end(self, at: datetime | None, error: str | None) -> None:
        self.ended = True


class Recorder:
    def __init__(self) -> None:
        self.spans: list[Begun] = []

    def begin(self, service: str, name: str, kind: Kind, parent: Place | None, since: datetime | None) -> Begun:
        self.spans.append(Begun({"name": name, "kind": kind}, parent))
        return self.spans[-1]

    def close(self, seconds: float) -> None:
        pass


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    made = Recorder()
    tracing.start(made)
    yield made
    tracing.stop()


def scope(clock: FakeClock) -> Scope:
    exchange = Exchange("r-1", clock.now(), PARENT)
    return {"type": "http", "method": "POST", "path": "/oauth2/token", "headers": [], EXCHANGE_KEY: exchange}


def test_a_decision_about_a_known_agent_is_a_span_under_its_own(recorder: Recorder, clock: FakeClock) -> None:
    decided(scope(clock), "task_ending")
    (span,) = recorder.spans
    assert (span.parent, span.facts["onbe.reason"], span.facts["rift.request"]) == (PARENT, "task_ending", "r-1")


@pytest.mark.parametrize("reason", [code for code, (_, error) in OAUTH.items() if error == "invalid_client"])
def test_a_stranger_fills_nobodys_trace(reason: str, recorder: Recorder, clock: FakeClock) -> None:
    decided(scope(clock), reason)
    assert recorder.spans == []


def test_an_application_that_is_served_bare_is_only_counted(recorder: Recorder) -> None:
    decided({"type": "http", "method": "POST", "path": "/", "headers": []}, "ok")
    assert recorder.spans == []
