"""What the checklist is made of: one look at all that a person has."""

from __future__ import annotations

from rift.audit import Act, audited
from rift.checklist.decide import NO_GITHUB, decide_gaps, decide_ready
from rift.checklist.model import WhoAmI
from rift.deps import Deps
from rift.invites import actions as invites
from rift.repos import actions as repos


async def whoami(deps: Deps, act: Act) -> WhoAmI:
    """The agent's checklist. Source: rift_whoami."""
    caller = act.caller
    async with audited(deps, act) as (tx, _):
        orgs = await repos.orgs_of(tx, caller)
        invitations = await invites.invitations_of(tx, deps, caller.email)
        ready = decide_ready(orgs)
        branches = await repos.branches_of(tx, [view.repo.id for org in orgs for view in org.repos])
        gaps = decide_gaps(orgs, branches, bool(ready), invitations)
        return WhoAmI(caller.email, caller.admin, caller.label, NO_GITHUB, tuple(invitations), orgs, gaps, ready)
