"""The Feedback page: what agents drafted, for its person to change, drop, approve and submit."""

from __future__ import annotations

from starlette.responses import Response

from keel.refusal import Refusal
from rift.feedback import actions
from rift.feedback.decide import CONTEXT_MOST, TEXT_MOST
from rift.feedback.model import CATEGORIES, Said
from rift.feedback.refusals import PAGE as PATH
from rift.wire.web import refusals
from rift.wire.web.paging import page_of, pager
from rift.wire.web.visit import Page, Visit


async def feedback(visit: Visit) -> Response | Refusal:
    """The draft, and what was submitted before."""
    page = page_of(visit)
    before, more = await actions.submitted(visit.deps, visit.caller, page)
    return visit.render(
        "feedback.html", draft=await actions.draft(visit.deps, visit.caller), submitted=before, page=page,
        pager=pager(PATH, page, more), text_most=TEXT_MOST, context_most=CONTEXT_MOST,
    )  # fmt: skip


async def edit(visit: Visit) -> Response | Refusal:
    """Change an item of the draft."""
    item = visit.said("item")
    category = next((one for one in CATEGORIES if one == visit.said("category")), None)
    if category is None:
        return refusals.bad_form()
    said = Said(category, visit.said("text"), visit.said("context"))
    refusal = await actions.edit(visit.deps, visit.act("edit feedback", item=item), item, said)
    return refusal or visit.go(PATH, "The item is changed.")


async def drop(visit: Visit) -> Response | Refusal:
    """Remove an item of the draft."""
    item = visit.said("item")
    refusal = await actions.drop(visit.deps, visit.act("drop feedback", item=item), item)
    return refusal or visit.go(PATH, "The item is dropped.")


async def submit(visit: Visit) -> Response | Refusal:
    """Submit what was ticked."""
    ticked = list(visit.form.get("item", ()))
    done = await actions.submit(visit.deps, visit.act("submit feedback", items=ticked), ticked)
    if isinstance(done, Refusal):
        return done
    return visit.go(PATH, f"{done} item{' is' if done == 1 else 's are'} submitted. Thank you.")


PAGES = (
    Page(PATH, feedback),
    Page(f"{PATH}/edit", post=edit),
    Page(f"{PATH}/drop", post=drop),
    Page(f"{PATH}/submit", post=submit),
)
