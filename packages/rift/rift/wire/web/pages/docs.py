"""The documentation: its pages, their index, and a search. Open to everybody; changes nothing."""

from __future__ import annotations

import hashlib
from functools import partial

from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from keel.refusal import Refusal
from rift.wire.docs import pages, render, searching
from rift.wire.web.visit import Page, Visit


async def index(visit: Visit) -> Response | Refusal:
    """Every page with what it tells."""
    return _kept(visit, visit.render("docs_index.html", groups=pages.groups(), here="", asked=""))


async def page(visit: Visit) -> Response | Refusal:
    """One page."""
    name = visit.request.path_params["name"]
    if name.endswith(".md") and pages.text(name.removesuffix(".md")) is not None:
        return RedirectResponse(f"/docs/{name.removesuffix('.md')}", 308)
    made = await run_in_threadpool(render.page, name)
    if made is None:
        return visit.render("docs_missing.html", 404, groups=pages.groups(), here="", asked="", name=name[:200])
    order = pages.listed()
    at = next((number for number, one in enumerate(order) if one.name == name), None)
    before = order[at - 1] if at else None
    after = order[at + 1] if at is not None and at + 1 < len(order) else None
    heads = [section for section in made.sections if section.level == 2]
    return _kept(
        visit,
        visit.render(
            "docs.html", groups=pages.groups(), here=name, asked="", made=made, heads=heads, before=before, after=after
        ),
    )


async def search(visit: Visit) -> Response | Refusal:
    """Where the words of `q` stand."""
    asked = visit.request.query_params.get("q", "")[: searching.ASKED_MOST].strip()
    found = await run_in_threadpool(partial(searching.search, asked))
    return visit.render("docs_search.html", groups=pages.groups(), here="", asked=asked, found=found)


def _kept(visit: Visit, response: Response) -> Response:
    """The answer, or word that the browser has it already. What somebody was told once is not kept."""
    if visit.request.cookies.get(visit.site.notice):
        return response
    tag = f'"{hashlib.sha256(bytes(response.body)).hexdigest()[:32]}"'
    response.headers["ETag"] = tag
    response.headers["Cache-Control"] = "private, no-cache"
    response.headers["Vary"] = "Cookie"
    said = visit.request.headers.get("if-none-match", "")
    if tag in (one.strip().removeprefix("W/") for one in said.split(",")):
        headers = {name: value for name, value in response.headers.items() if not name.startswith("content-l")}
        headers.pop("content-type", None)
        return Response(status_code=304, headers=headers)
    return response


PAGES = (
    Page("/docs", index, open=True),
    Page("/docs/search", search, open=True),
    Page("/docs/{name:path}", page, open=True),
)
