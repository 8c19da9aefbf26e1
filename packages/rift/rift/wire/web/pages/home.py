"""The first page of who is not signed in, and of who is: what Rift is, and what to do next."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.responses import RedirectResponse, Response

from keel.refusal import Call, Refusal
from rift.boxes import actions as boxes
from rift.checklist import actions as checklist
from rift.connections import actions as connections
from rift.repos.decide import claimable
from rift.wire.refusals import mend_text, mend_value
from rift.wire.web.visit import Page, Visit, headers

PROMPT = (
    "Call rift_whoami and do what it says is missing. Then open a Rift task, take a box of my repository at main, "
    "and run its tests."
)
"""What a person says to their agent."""


@dataclass(frozen=True, slots=True)
class Stands:
    """How far somebody is on the way to a box."""

    clients: int
    """How many clients act for them."""
    called: bool
    """Whether one of these has called."""
    refs: int
    """How many watched refs can give a box."""
    tasks: int
    boxes: int

    @property
    def ready(self) -> bool:
        """Whether nothing is left to be done before a box can be had."""
        return self.called and self.refs > 0


async def landing(visit: Visit) -> Response | Refusal:
    """What Rift is, for whoever comes by; those who are signed in go on to their own first page."""
    if visit.session is not None:
        return RedirectResponse("/app", 303, headers=headers(visit.site))
    return visit.render("landing.html")


async def home(visit: Visit) -> Response | Refusal:
    """What to do next."""
    stand = await checklist.look(visit.deps, visit.caller)
    clients = await connections.connections(visit.deps, visit.caller.user)
    views = await boxes.look(visit.deps, visit.caller)
    watched = [watch for org in stand.orgs for view in org.repos for watch in view.watches]
    stands = Stands(
        len(clients),
        any(client.used_at for client in clients),
        sum(claimable(watch) for watch in watched),
        len(views),
        sum(len(view.boxes) for view in views),
    )
    gaps = [
        {**mend_value(gap.mend), "text": gap.text, "call": mend_text(gap.mend)}
        for gap in stand.gaps
        if not (isinstance(gap.mend, Call) and gap.mend.tool == "rift_org_accept")  # the person does that themselves
    ]
    url = connections.resource(visit.deps)
    return visit.render("home.html", stands=stands, gaps=gaps, url=url, prompt=PROMPT, invitations=stand.invitations)


PAGES = (Page("/", landing, open=True), Page("/app", home))
