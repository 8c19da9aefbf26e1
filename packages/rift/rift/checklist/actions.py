"""What the checklist is made of: one look at all that a person has."""

from __future__ import annotations

from keel.db import Tx
from rift.audit import Act, audited
from rift.checklist.decide import decide_gaps, decide_github, decide_ready
from rift.checklist.model import AtGitHub, WhoAmI
from rift.deps import Deps
from rift.invites import actions as invites
from rift.logins import actions as logins
from rift.people.model import Caller
from rift.registration import actions as registration
from rift.repos import actions as repos


async def whoami(deps: Deps, act: Act) -> WhoAmI:
    """The agent's checklist. Source: rift_whoami."""
    async with audited(deps, act) as (tx, _):
        return await _stand(tx, deps, act.caller)


async def look(deps: Deps, caller: Caller) -> WhoAmI:
    """The same for a page, which writes no record."""
    async with deps.db.look(caller.user) as tx:
        return await _stand(tx, deps, caller)


async def _stand(tx: Tx, deps: Deps, caller: Caller) -> WhoAmI:
    orgs = await repos.orgs_of(tx, caller)
    invitations = await invites.invitations_of(tx, deps, caller.email)
    ready = decide_ready(orgs)
    branches = await repos.branches_of(tx, [view.repo.id for org in orgs for view in org.repos])
    mine = await logins.of_user(tx, caller.user)
    app = await registration.there_is_one(tx, deps)
    github = AtGitHub(app, mine.login if mine else None, mine is not None and mine.failure is not None)
    gaps = decide_gaps(caller.email, orgs, branches, bool(ready), invitations, github)
    told = decide_github(github)
    return WhoAmI(caller.email, caller.admin, caller.label, told, tuple(invitations), orgs, gaps, ready)
