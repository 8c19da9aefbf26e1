"""One row a decision, allowed or denied, in the transaction that decided. The ledger itself is `keel.ledger`.

How a decision stands in the ledger's columns: `actor` is the sponsor, `via` the agent (or `admin`, `cli`, `sweeper`),
`task` the task, `outcome` `ok` or the reason of a refusal; `box` is left open.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

from keel import ledger
from keel.db import Tx
from keel.refusal import Refusal
from onbe.audit import store
from onbe.deps import Deps

STRANGER_WINDOW = 60
"""Seconds: of the refusals that name nobody, the first of each reason in each such window is a record."""

Result = TypeVar("Result")


@dataclass(slots=True)
class Row:
    """The record being written: an action fills in what it found out. Nothing in it is a token, a key or a grant."""

    action: str
    """`token.exchange`, `token.refresh`, `task.revoked`, `agent.created`, …"""
    started: float
    """Monotonic seconds."""
    sponsor: str | None = None
    agent: str | None = None
    task: str | None = None
    outcome: str = "ok"
    facts: dict[str, Any] = field(default_factory=dict)
    silent: bool = False
    """Counted elsewhere, as the later renewals of a task: no row of its own."""

    def said(self, result: Result) -> Result:
        """Take the outcome from what the action returns, and hand it through."""
        if isinstance(result, Refusal):
            self.outcome, self.silent = result.code, False
        return result


@asynccontextmanager
async def recorded(deps: Deps, row: Row, *, few_trips: bool = False) -> AsyncIterator[Tx]:
    """A transaction that ends with its record. `few_trips`: as `keel.db.Database.tx` says."""
    async with deps.db.tx(few_trips=few_trips) as tx:
        yield tx
        if not row.silent:
            await ledger.append(tx, _record(deps, row))


async def note(
    tx: Tx, deps: Deps, action: str, *, sponsor: str | None = None, agent: str | None = None, task: str | None = None,
    outcome: str = "ok", facts: Mapping[str, Any] | None = None,
) -> None:  # fmt: skip
    """Record one more thing in a transaction that is open."""
    row = Row(action, deps.clock.monotonic(), sponsor, agent, task, outcome, dict(facts or {}))
    await ledger.append(tx, _record(deps, row))


async def note_all(tx: Tx, deps: Deps, rows: Sequence[Row]) -> None:
    """Record many things in a transaction that is open, in their order."""
    if rows:
        await ledger.append_all(tx, [_record(deps, row) for row in rows])


async def stranger(deps: Deps, row: Row, refusal: Refusal) -> Refusal:
    """Record a refusal that names nobody: the first of its reason and window, and the others only as a number.

    Anybody may cause these, as often as they like. The number is summed up when the window is over.
    """
    row.said(refusal)
    second = int(deps.clock.now().timestamp())
    since = datetime.fromtimestamp(second - second % STRANGER_WINDOW, UTC)
    async with recorded(deps, row) as tx:
        row.silent = await store.count_stranger(tx, refusal.code, since) > 1
    return refusal


def _record(deps: Deps, row: Row) -> ledger.Record:
    return ledger.Record(
        at=deps.clock.now(),
        actor=row.sponsor,
        via=row.agent,
        action=row.action,
        task=row.task,
        box=None,
        outcome=row.outcome,
        duration_ms=(deps.clock.monotonic() - row.started) * 1000,
        arguments=row.facts,
    )
