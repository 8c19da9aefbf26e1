"""What a list of GitHub's changes here, and what a webhook asks to look at again. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from rift.coverage.model import Heard, Known, Listed, Plan
from rift.origins.decide import name_of

RESTS_LEAST = timedelta(minutes=1)
"""How long an account that could not be listed is left alone, the first time."""
_WORD = re.compile(r"[a-z_]{1,64}", re.ASCII)
COVERS = frozenset({"installation", "installation_repositories", "installation_target", "repository"})
"""The events after which the list of what is covered may be another."""


def decide_cover(
    org: str, installation: int, listed: Sequence[Listed], known: Sequence[Known], taken: Mapping[str, str], whole: bool
) -> Plan:
    """What makes the rows what the list says.

    `known` are the rows of this installation, and those of the organization with an id that is listed: a repository
    that was renamed or moved keeps its row. `taken` are the organization's other repositories, by full name, each with
    where it comes from: a name belongs to the one that has it. A list that is not `whole` takes nothing off.
    """
    rows = {row.github_id: row for row in known if row.org == org}
    insert, update, untaken = [], [], []
    kept: set[int] = set()
    for one in sorted(listed, key=lambda each: each.github_id):
        if why := _untakable(one, taken):
            untaken.append(f"{one.full}: {why}")
            continue
        kept.add(one.github_id)
        row = rows.get(one.github_id)
        if row is None:
            insert.append(one)
        elif not _same(row, one, installation):
            update.append((row, one))
    there = {one.github_id for one in listed}
    uncover = [
        row
        for row in known
        if row.covered
        and row.account == installation
        and (row.org != org or (row.github_id not in kept and (whole or row.github_id in there)))
    ]
    return Plan(tuple(insert), tuple(update), tuple(uncover), tuple(untaken))


def decide_settled(listed: Sequence[Listed]) -> bool:
    """Whether a list can be of one moment: a name that changed hands between two of its pages stands there twice."""
    return len({one.full.lower() for one in listed}) == len(listed)


def _untakable(one: Listed, taken: Mapping[str, str]) -> str | None:
    if name_of(one.full) is None:
        return "no repository has such a name here; another name at GitHub lets it in"
    if one.full in taken:
        return (
            f"a repository of that name is here already, from {taken[one.full]}; "
            f"`rift repo rename {one.full} OWNER/NAME` on the server makes room for it"
        )
    return None


def _same(row: Known, one: Listed, installation: int) -> bool:
    there = (installation, one.owner, one.name, one.default_branch, one.archived, True)
    return there == (row.account, row.owner, row.name, row.default_branch, row.archived, row.covered)


def rests_until(failures: int, every: timedelta, now: datetime) -> datetime:
    """When an account that could not be listed so often in a row has its turn again: twice as late each time."""
    twice: int = 2 ** min(failures, 16)
    return now + min(RESTS_LEAST * twice, max(every, RESTS_LEAST))


def decide_heard(event: str, body: Mapping[str, Any]) -> Heard | None:
    """What an event asks to look at again; None for one that asks for nothing, or is of no shape that is known."""
    installation = _id(body.get("installation"))
    if installation is None:
        return None
    if event in COVERS:
        return Heard(installation, None)
    repository = _id(body.get("repository"))
    return Heard(installation, repository) if event == "push" and repository is not None else None


def decide_revoked(event: str, body: Mapping[str, Any]) -> int | None:
    """Whose account (by id) an event says has taken its authorization of the App back; None for every other event."""
    return _id(body.get("sender")) if event == "github_app_authorization" else None


def action_of(body: Mapping[str, Any]) -> str | None:
    """What became of what an event is about, as `renamed`; None where it says nothing of that shape."""
    action = body.get("action")
    return action if isinstance(action, str) and _WORD.fullmatch(action) else None


def _id(of: object) -> int | None:
    found = of.get("id") if isinstance(of, Mapping) else None
    whole = isinstance(found, int) and not isinstance(found, bool) and 0 < found < 2**63
    return found if whole else None
