"""The Boxes page: the person's open tasks with their boxes. It changes nothing (contract: Tasks, In the app)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from starlette.responses import PlainTextResponse, Response

from keel.refusal import Call, Refusal
from rift.boxes import actions
from rift.boxes.model import Box, TaskView
from rift.deps import Deps
from rift.names import SILENT_AFTER
from rift.people.model import Caller
from rift.sessions import actions as sessions
from rift.tasks import actions as tasks
from rift.tasks.model import Clocks, Task
from rift.wire.web import live
from rift.wire.web.visit import Page, Visit, headers

KINDS = {"starting": "busy", "running": "ok", "parked": "quiet", "destroying": "quiet", "failed": "bad"}
"""How a box's state looks."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A task as the page shows it: its two clocks read, and how another agent gets it."""

    view: TaskView
    free_at: datetime | None
    """When its lease may be taken without `takeover`; None while nobody holds it."""
    closes_at: datetime
    attach: str
    """The call by which another agent gets it."""

    @property
    def task(self) -> Task:
        """The task itself."""
        return self.view.task


async def boxes(visit: Visit) -> Response | Refusal:
    """Every open task of the person: holder, last activity, boxes, and what runs in them."""
    return visit.render("boxes.html", **facts(visit.deps, await actions.look(visit.deps, visit.caller)))


async def events(visit: Visit) -> Response | Refusal:
    """The same, again and again while it is looked at, as long as the session goes on."""
    if visit.site.live.full(visit.caller.user):
        return PlainTextResponse("As many pages of yours are live as may be.", 429, {"Retry-After": "30"})

    async def show() -> live.Shown:
        views = await actions.look(visit.deps, visit.caller)
        text = visit.html("boxes_now.html", **facts(visit.deps, views))
        return text, topics(visit.caller, views)

    going = live.events(
        visit.deps.signals,
        lambda: sessions.goes_on(visit.deps, visit.secret),
        show,
        visit.request.headers.get("last-event-id", ""),
    )
    return live.Events(visit.site.live, visit.caller.user, going, headers(visit.site))


def facts(deps: Deps, views: list[TaskView]) -> dict[str, Any]:
    """What the templates are made from."""
    clocks, now = tasks.clocks(deps), deps.clock.now()
    return {
        "tasks": [shown(view, clocks) for view in views],
        "clocks": clocks,
        "kinds": KINDS,
        "silent": {line.box.id for view in views for line in view.boxes if is_silent(line.box, now)},
    }


def shown(view: TaskView, clocks: Clocks) -> Shown:
    """A task with its clocks read."""
    task = view.task
    return Shown(
        view,
        task.activity_at + clocks.lease if task.holder is not None else None,
        task.activity_at + clocks.close,
        Call("rift_task_attach", {"task": task.id, **({} if task.holder is None else {"takeover": True})}).text,
    )


def is_silent(box: Box, now: datetime) -> bool:
    """Whether a box that should run has an agent that is not heard."""
    return box.state == "running" and box.seen_at is not None and now - box.seen_at > SILENT_AFTER


def topics(caller: Caller, views: list[TaskView]) -> set[str]:
    """What is notified when the page becomes another."""
    told = {tasks.topic(caller.user)}
    for view in views:
        for line in view.boxes:
            told |= {f"box:{line.box.id}", f"agent:{line.box.id}", *(f"command:{one.id}" for one in line.open)}
    return told


PAGES = (Page("/app/boxes", boxes), Page("/app/boxes/live", events))
