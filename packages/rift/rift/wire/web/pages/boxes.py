"""The Boxes page: the person's open tasks with their boxes. It changes nothing (contract: Tasks, In the app)."""

from __future__ import annotations

from starlette.responses import Response

from keel.refusal import Refusal
from rift.boxes import actions
from rift.wire.web.visit import Page, Visit


async def boxes(visit: Visit) -> Response | Refusal:
    """Every open task of the person: holder, last activity, boxes."""
    return visit.render("boxes.html", tasks=await actions.list_tasks(visit.deps, visit.act("boxes")))


PAGES = (Page("/app/boxes", boxes),)
