"""One row a call: every action runs inside `audited`, so a decision and its record are one transaction.

Source: design of the audit; the ledger itself is `keel.ledger`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from keel import ledger
from keel.db import Busy, Tx
from keel.refusal import Refusal
from rift.deps import Deps
from rift.people.model import Caller

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Act:
    """One call as it arrived: who, which tool, its scrubbed arguments, and when (monotonic seconds)."""

    caller: Caller
    tool: str
    arguments: Mapping[str, object]
    """Without handles, file content or secrets; the command's own text goes to `text`."""
    started: float
    text: str | None = None

    @property
    def actor(self) -> str | None:
        """The user's id."""
        return self.caller.user

    @property
    def via(self) -> str:
        """The label of their token."""
        return self.caller.label


@dataclass(frozen=True, slots=True)
class SystemAct:
    """What nobody's token did: a command on the server (`via` is `cli`), or the system's own upkeep."""

    tool: str
    """The command, as `rift repo add`."""
    arguments: Mapping[str, object]
    started: float
    via: str = "cli"
    text: str | None = None

    @property
    def actor(self) -> str | None:
        """Nobody that the system knows."""
        return None


@dataclass(slots=True)
class Row:
    """The record being written: an action fills in what it found out."""

    task: str | None = None
    box: str | None = None
    org: str | None = None
    """The organization (its id) that it is about: its admins read it, as they read what was done in its boxes."""
    actor: str | None = None
    """Who turned out to act (a user's id), where the act began with nobody known: the record is then theirs."""
    outcome: str = field(default="ok")
    hide: Callable[[str], str] | None = None
    """What takes the secrets of the repository that it is about out of a text, where it has any."""

    def said(self, result: Result) -> Result:
        """Take the outcome from what the action returns, and hand it through."""
        if isinstance(result, Refusal):
            self.outcome = result.code
        return result


class NotBegun(Exception):
    """The database was too busy for an action to begin: nothing was done, nothing is recorded."""


@asynccontextmanager
async def audited(deps: Deps, act: Act | SystemAct) -> AsyncIterator[tuple[Tx, Row]]:
    """A transaction with its record. An exception rolls the action back and leaves a record with outcome `error`."""
    row, begun = Row(), False
    try:
        async with deps.db.tx(act.actor) as tx:
            begun = True
            yield tx, row
            await _append(tx, deps, act, row)
    except Exception as error:
        if isinstance(error, Busy) and not begun:
            raise NotBegun from error  # nothing was decided, so there is nothing to record, and nowhere
        row.outcome = "error"
        async with deps.db.tx() as tx:
            await _append(tx, deps, act, row)
        raise


async def refuse(deps: Deps, act: Act | SystemAct, refusal: Refusal) -> Refusal:
    """Record a refusal that was decided before any transaction (a bad argument), and hand it through."""
    async with deps.db.tx(act.actor) as tx:
        await ledger.append(tx, _record(deps, act, Row(outcome=refusal.code)))
    return refusal


async def note(
    tx: Tx, deps: Deps, action: str, *, task: str | None, box: str | None, actor: str | None = None,
    via: str = "upkeep", outcome: str = "ok", arguments: Mapping[str, object] | None = None, org: str | None = None,
) -> None:  # fmt: skip
    """Record what happened without a call, in the transaction of whoever heard of it, or of the upkeep that does it."""
    record = ledger.Record(deps.clock.now(), actor, via, action, task, box, outcome, 0.0, arguments or {})
    await ledger.append(tx, record)
    if org is not None:
        await ledger.let_read(tx, record, org)


async def _append(tx: Tx, deps: Deps, act: Act | SystemAct, row: Row) -> None:
    record = _record(deps, act, row)
    await ledger.append(tx, record)
    if row.org is not None:
        await ledger.let_read(tx, record, row.org)


def _hidden(hide: Callable[[str], str], value: object) -> object:
    """The value with each of its texts hidden, names of a mapping too: a push's refs are some."""
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, Mapping):
        return {_hidden(hide, name): _hidden(hide, one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden(hide, one) for one in value]
    return value


def _record(deps: Deps, act: Act | SystemAct, row: Row) -> ledger.Record:
    arguments, text = act.arguments, act.text
    if row.hide is not None:
        arguments = {name: _hidden(row.hide, one) for name, one in arguments.items()}
        text = row.hide(text) if text is not None else None
    return ledger.Record(
        at=deps.clock.now(),
        actor=act.actor or row.actor,
        via=act.via,
        action=act.tool,
        task=row.task,
        box=row.box,
        outcome=row.outcome,
        duration_ms=(deps.clock.monotonic() - act.started) * 1000,
        arguments=arguments,
        text=text,
        salt=deps.ids.hex(32) if text is not None else "",
    )
