"""An agent, a task and requests that are allowed: each test changes one thing of them."""

from __future__ import annotations

from datetime import datetime, timedelta

from keel.refusal import Refusal
from keel.testing import FakeClock
from onbe.directory.model import Registration, Sponsor
from onbe.grants.decide import decide_refresh
from onbe.grants.model import Clocks, Exchange, Facts, Line, Mint, Refresh, Status
from onbe.tasks.model import Task

NOW = FakeClock().now()
TOOL = "https://tool.example"


def span(minutes: float = 0, seconds: float = 0) -> timedelta:
    return timedelta(minutes=minutes, seconds=seconds)


CLOCKS = Clocks(span(30), span(5), (span(1), timedelta(days=1)), (span(seconds=30), span(60)))
AGENT = Registration(
    "scribe", "Scribe", ("read", "write"), (TOOL,), None, None, 2, (), None, {"keys": []}, True, NOW, NOW
)
TASK = Task("task_1", "scribe", "ada", TOOL, ("read", "write"), NOW, NOW + span(30), None, 1, ("scribe",))
ASK = Exchange("", "", TOOL, None)
AGAIN = Refresh("", "", None, None)


def code(said: Mint | Refusal | None) -> str | None:
    return said.code if isinstance(said, Refusal) else None


def minted(said: Mint | Refusal) -> Mint:
    assert isinstance(said, Mint), said
    return said


def refreshed(
    ask: Refresh = AGAIN, agent: Registration = AGENT, task: Task | None = TASK, sponsor: Sponsor | None = None,
    status: Status | None = "active", line: Line | None = None, now: datetime = NOW,
) -> Mint | Refusal:  # fmt: skip
    return decide_refresh(ask, agent, Facts(agent, sponsor, task), line or Line(), status, CLOCKS, now)
