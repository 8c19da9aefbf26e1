"""The pages' routes, and what a request goes through before its page answers: host, session, form, origin."""

from __future__ import annotations

import hashlib
import hmac
import math
import re
from functools import cache
from pathlib import Path
from urllib.parse import quote, unquote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from keel.buckets import Buckets, Rate
from keel.db import within
from keel.refusal import Refusal, Retry
from keel.sizes import KIB
from keel.web.sources import networks, source
from rift.deps import Deps
from rift.secrecy import without_secrets
from rift.sessions import actions as sessions
from rift.times import age, ahead, rfc3339, span, took
from rift.wire.hosts import hosts_of
from rift.wire.refusals import mend_text, mend_value, refusal_problem
from rift.wire.web import refusals
from rift.wire.web.api import api_routes
from rift.wire.web.navigation import Menu
from rift.wire.web.pages import (
    account,
    audit,
    boxes,
    builds,
    connections,
    consent,
    docs,
    feedback,
    github,
    home,
    inbox,
    mailbox,
    organizations,
    passkeys,
    people,
    repositories,
    secrets,
    sign_in,
    sso,
    waitlist,
)
from rift.wire.web.visit import Handler, Page, Site, Visit, headers, parse_form, parse_json

STATIC = Path(__file__).parent / "static"
BODY_BYTES = 256 * KIB
ANSWER_SECONDS = 45.0
"""The longest that a page waits for its answer: longer than for a connection to the database."""
OPEN_FORMS = Rate(30, 60.0)
"""So many forms may one source send that is not signed in."""

PAGES: tuple[Page, ...] = (
    *home.PAGES,
    *sign_in.PAGES,
    *passkeys.PAGES,
    *sso.PAGES,
    *account.PAGES,
    *boxes.PAGES,
    *connections.PAGES,
    *consent.PAGES,
    *repositories.PAGES,
    *builds.PAGES,
    *secrets.PAGES,
    *audit.PAGES,
    *docs.PAGES,
    *feedback.PAGES,
    *inbox.PAGES,
    *mailbox.PAGES,
    *organizations.PAGES,
    *github.PAGES,
    *people.PAGES,
    *waitlist.PAGES,
)
"""Every page there is."""
UNDONE = "You were not signed in any more, so nothing was done. Sign in, and do it again."
"""What somebody reads whose form came after they were signed out."""
OWN_PATH = re.compile(r"(?<![\w/.:<])/app(?:/[a-z-]+)*(?![\w-])")
"""The path of a page, where a mend names one."""


def web_site(deps: Deps, public: str) -> Site:
    """What every page has. `public` is the public address."""
    return Site(deps, public, hosts_of(deps.settings, public), templates())


def web_routes(deps: Deps, public: str) -> list[BaseRoute]:
    """The routes of every page, and of what they are made with."""
    site = web_site(deps, public)
    door = Door(site)
    routes: list[BaseRoute] = [*api_routes(site), *(door.route(page) for page in PAGES)]
    return [*routes, Mount("/static", StaticFiles(directory=STATIC))]


def templates() -> Environment:
    """The templates: whatever a person or a client has named is text in them, never markup."""
    made = Environment(
        loader=PackageLoader("rift.wire.web"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, finalize=straight,
    )  # fmt: skip
    made.filters |= {"age": age, "ahead": ahead, "rfc3339": rfc3339, "span": span, "mend": mend_text}
    made.filters |= {"without_secrets": without_secrets, "ticked": ticked, "linked": linked}
    made.filters["took"] = took
    menu = Menu({page.path for page in PAGES})
    made.globals |= {"static": static, "menu": menu.of, "open_menu": menu.open}
    made.globals["ui"] = made.get_template("ui.html").module
    return made


_TURNING = re.compile("[\u202a-\u202e\u2066-\u2069]")


def straight(value: object) -> object:
    """What a template shows, with what would turn around the text that follows it spelled out: `\\u202e`.

    So the name of a task or a client cannot change what the page says beside it.
    """
    if not isinstance(value, str) or isinstance(value, Markup) or not _TURNING.search(value):
        return value
    return _TURNING.sub(lambda one: f"\\u{ord(one[0]):04x}", value)


def ticked(text: str) -> Markup:
    """A sentence of ours or with words of others in it: what stands between two backticks is code, all else is text."""
    parts = str(straight(without_secrets(text))).split("`")
    whole = len(parts) % 2 == 1  # a backtick without its other is one
    marked = [Markup("<code>{}</code>").format(part) if at % 2 else escape(part) for at, part in enumerate(parts)]
    return Markup().join(marked) if whole else escape("`".join(parts))


def linked(text: str) -> Markup:
    """The same, with the paths of pages in it as links to them."""
    return Markup(OWN_PATH.sub(r'<a href="\g<0>">\g<0></a>', str(ticked(text))))  # noqa: S704 - escaped before


@cache
def static(name: str) -> str:
    """The address of a static file, which changes with what is in it."""
    return f"/static/{name}?v={hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]}"


class Door:
    """What stands before every page."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._buckets = Buckets(OPEN_FORMS)
        self._trusted = networks(site.deps.settings.server.trusted_proxies)

    def route(self, page: Page) -> Route:
        """The route of one page."""

        buckets = Buckets(page.rate) if page.rate is not None else None

        async def answer(request: Request) -> Response:
            who = source(request.scope, self._trusted)
            wait = (
                buckets.take(who, self._site.deps.clock.monotonic()) if buckets is not None and who is not None else 0.0
            )
            if wait > 0:
                return self._refused(Visit(self._site, request, None), refusals.too_often(math.ceil(wait)))
            async with within(ANSWER_SECONDS, page.path):
                return await self._answer(page, request)

        methods = [method for method, handler in (("GET", page.get), ("POST", page.post)) if handler]
        return Route(page.path, answer, methods=methods)

    async def refuse(self, request: Request, refusal: Refusal) -> Response:
        """A refusal as a page of who asks, where no page answers."""
        if (other := self._site.hosts.refused(request)) is not None:
            return other
        secret = request.cookies.get(self._site.cookie, "")
        async with within(ANSWER_SECONDS, "a page that is not there"):
            session = await sessions.visitor(self._site.deps, secret) if secret else None
        return self._refused(Visit(self._site, request, session, secret if session else ""), refusal)

    async def _answer(self, page: Page, request: Request) -> Response:
        site = self._site
        if (other := site.hosts.refused(request)) is not None:
            return other
        if "\0" in unquote(f"{request.url.path}?{request.url.query}"):
            return self._refused(Visit(site, request, None), refusals.no_such_page())  # no text of ours has a NUL
        secret = request.cookies.get(site.cookie, "")
        session = await sessions.visitor(site.deps, secret) if secret else None
        visit = Visit(site, request, session, secret if session else "")
        if request.method == "POST":
            ready = await self._posted(page, visit)
            if not isinstance(ready, Visit):
                return self._refused(visit, ready) if isinstance(ready, Refusal) else ready
            visit = ready
        if visit.session is None and not page.open:
            return self._sign_in_first(request)
        if page.admin and not (visit.session and visit.session.admin):
            return self._refused(visit, refusals.no_such_page())
        handler: Handler | None = page.post if request.method == "POST" else page.get
        assert handler is not None  # the route knows its methods
        said = await handler(visit)
        return self._refused(visit, said) if isinstance(said, Refusal) else said

    async def _posted(self, page: Page, visit: Visit) -> Visit | Refusal | Response:
        """The visit with its form, if the form is from a page of ours and not too large."""
        request = visit.request
        if not self._site.hosts.sent(request):
            return refusals.foreign_form()
        if visit.session is None:
            who = source(request.scope, self._trusted)
            wait = self._buckets.take(who, self._site.deps.clock.monotonic()) if who is not None else 0.0
            if wait > 0:
                return refusals.too_often(math.ceil(wait))
            if not page.open:
                return self._sign_in_first(request)
        try:
            body = await _body(request)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it
        if body is None:
            return refusals.form_too_large(BODY_BYTES // KIB)
        json = is_json(request)
        try:
            parsed = parse_json(body) if json else parse_form(body)
        except (ValueError, RecursionError):
            return refusals.bad_form()
        # The body may have taken its time: who was signed out or put out meanwhile does nothing by it.
        session = await sessions.visitor(visit.deps, visit.secret) if visit.session is not None else None
        if visit.session is not None and session is None:
            return self._sign_in_first(request)
        read = Visit(visit.site, request, session, visit.secret, {} if json else parsed, parsed if json else None)
        shown = request.headers.get("x-csrf-token", "") if json else read.said("csrf")
        if visit.session is not None and not hmac.compare_digest(shown.encode(), visit.csrf.encode()):
            return refusals.foreign_form()
        return read

    def _sign_in_first(self, request: Request) -> Response:
        back = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        if request.method == "GET":
            return RedirectResponse(f"/sign-in?next={quote(back, safe='')}", 303, headers=headers(self._site))
        said = "" if request.url.path == "/sign-out" else UNDONE  # signing out twice is done as well as once
        to = RedirectResponse("/sign-in", 303, headers=headers(self._site))
        return Visit(self._site, request, None).noticed(to, said)

    def _refused(self, visit: Visit, refusal: Refusal) -> Response:
        status, problem = refusal_problem(refusal)
        status = STATUS.get(refusal.code, status)
        response: Response
        if is_json(visit.request):  # a script of ours asks, and tells the person itself
            response = JSONResponse({**problem, "status": status}, status, headers=headers(self._site))
        else:
            heading = HEADINGS.get(status, "Not done")
            mends = [{**mend_value(mend), "text": mend_text(mend)} for mend in refusal.mends]
            response = visit.render("refused.html", status, refusal=refusal, heading=heading, mends=mends)
        for mend in refusal.mends:
            if isinstance(mend, Retry):
                response.headers["Retry-After"] = str(math.ceil(mend.after))
        return response


STATUS = {"no_such_page": 404, "foreign_form": 403, "form_too_large": 413, "bad_form": 400, "too_often": 429,
          "disabled": 403, "needs_platform_admin": 403, "needs_admin": 403, "link_over": 410, "invitation_over": 410,
          "no_such_session": 404, "no_such_passkey": 404, "sign_in_over": 410, "passkey_not_taken": 403,
          "unknown_passkey": 403, "passkey_copied": 403,
          "no_sign_on": 404, "sign_on_away": 503, "sign_on_refused": 403, "sign_on_unverified": 403,
          "sign_on_taken": 403, "sign_on_unknown": 403, "no_such_identity": 404,
          "unknown_client": 400, "client_unreadable": 400, "redirect_refused": 400,
          "invalid_request": 400, "no_such_token": 404, "invited_enough": 429,
          "no_such_letter": 404, "letter_is_over": 410, "no_such_feedback": 404, "feedback_no_text": 400,
          "feedback_too_long": 400, "feedback_none_ticked": 400, "feedback_full": 409,
          "no_github_app": 404, "github_app_set": 409, "github_making_over": 410, "github_away": 503,
          "github_busy": 503, "no_github_login": 409, "no_github_account": 404, "github_connect_over": 410,
          "github_not_yours": 403, "github_not_owner": 403, "github_account_unknown": 404,
          "nothing_to_erase": 404, "not_sealed": 409, "no_such_secret": 404, "secrets_unusable": 503}  # fmt: skip
"""The HTTP status of a refusal on a page, where it is not that of the JSON APIs."""


HEADINGS = {403: "Not allowed", 404: "Not here", 410: "Over", 413: "Too large", 429: "Too often"}
"""What such a page says above all."""


def is_json(request: Request) -> bool:
    """Whether a script of ours sent this, in place of a form."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"


async def _body(request: Request) -> bytes | None:
    """The whole body, or None of one that is too large. Raises ClientDisconnect."""
    body = bytearray()  # it may come byte by byte: what is there already is not copied for each
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES:
            return None
    return bytes(body)
