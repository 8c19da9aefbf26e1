"""The Inbox page, for the platform admin: the feedback that people have submitted."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.responses import Response

from keel.refusal import Refusal
from rift.feedback import actions
from rift.feedback.actions import INBOX as PATH
from rift.feedback.model import CATEGORIES, Category, Show
from rift.wire.web.paging import address, page_of, pager
from rift.wire.web.visit import Page, Visit

SHOWS: tuple[Show, ...] = ("open", "handled", "all")


@dataclass(frozen=True, slots=True)
class Filter:
    """Which items somebody looks at."""

    show: Show
    category: Category | None

    @property
    def said(self) -> dict[str, str]:
        """As an address says it; what is usual is left out."""
        return {"show": self.show if self.show != "open" else "", "category": self.category or ""}


async def inbox(visit: Visit) -> Response | Refusal:
    """The items, newest first."""
    asked, page = (
        _filter(visit.request.query_params.get("show"), visit.request.query_params.get("category")),
        page_of(visit),
    )
    found = await actions.inbox(visit.deps, asked.show, asked.category, page)
    tabs = [(show, address(PATH, 1, **Filter(show, asked.category).said)) for show in SHOWS]
    return visit.render(
        "inbox.html", found=found, asked=asked, tabs=tabs, page=page, pager=pager(PATH, page, found.more, **asked.said)
    )


async def handle(visit: Visit) -> Response | Refusal:
    """Mark an item as handled, or as open again, and go back to where that was asked for."""
    item, handled = visit.said("item"), visit.said("mark") == "handled"
    what = "handle feedback" if handled else "reopen feedback"
    refusal = await actions.handle(visit.deps, visit.act(what, item=item), item, handled=handled)
    if refusal is not None:
        return refusal
    asked = _filter(visit.said("show"), visit.said("category"))
    notice = "The item is marked as handled." if handled else "The item is open again."
    return visit.go(address(PATH, 1, **asked.said), notice)


def _filter(show: str | None, category: str | None) -> Filter:
    """What an address or a form asks for; the usual where it asks for what there is not."""
    return Filter(
        next((one for one in SHOWS if one == show), "open"), next((one for one in CATEGORIES if one == category), None)
    )


PAGES = (
    Page(PATH, inbox, admin=True),
    Page(f"{PATH}/handle", post=handle, admin=True),
)
