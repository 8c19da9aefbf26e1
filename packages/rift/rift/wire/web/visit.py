"""One request for a page: who looks, what their form says, and what a page can answer with."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from keel.buckets import Rate
from keel.refusal import Refusal
from rift.audit import Act
from rift.deps import Deps
from rift.people.model import Caller
from rift.sessions.model import Browser, Session
from rift.wire.hosts import Hosts
from rift.wire.mcp.scrub import short
from rift.wire.web.live import Places

NOTICE_MOST = 1000
WAY_MOST = 17_000
"""The longest path that somebody is sent on to, in characters: a client's request for consent is the longest there is.
Longer ones are kept by nobody until a stranger may have signed in."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
)
"""Nothing from other hosts, nothing inline, in nobody's frame, no form to anywhere else."""


@dataclass(frozen=True, slots=True)
class Site:
    """What every page has: the system, the public address without a slash at its end, the names, the templates."""

    deps: Deps
    public: str
    hosts: Hosts
    templates: Environment
    live: Places = field(default_factory=Places)
    """Who looks at a page that goes on."""

    @property
    def secure(self) -> bool:
        """Whether people come by https."""
        return self.public.startswith("https:")

    @property
    def cookie(self) -> str:
        """The name of the cookie with the session's secret: where it can be, one that no other host can set."""
        return "__Host-rift" if self.secure else "rift_session"

    @property
    def notice(self) -> str:
        """The name of the cookie that carries one sentence to the next page: no other host puts words in our mouth."""
        return "__Host-rift_notice" if self.secure else "rift_notice"


@dataclass(frozen=True, slots=True)
class Visit:
    """One request for a page."""

    site: Site
    request: Request
    session: Session | None
    secret: str = field(default="", repr=False)
    """The session's."""
    form: Mapping[str, Sequence[str]] = field(default_factory=dict)
    json: Any = None
    """What a script of ours sent in place of a form."""

    @property
    def deps(self) -> Deps:
        """The system."""
        return self.site.deps

    @property
    def caller(self) -> Caller:
        """Who is signed in; only where the page is for those who are."""
        if self.session is None:
            raise RuntimeError("this page is open to anybody: there may be no caller")
        return self.session.caller

    def act(self, what: str, **arguments: object) -> Act:
        """What the person does, for its record: `what` follows `web`, as `web remove member`.

        Arguments may be what was typed: a secret among them is left out of the record, and a long text is cut.
        """
        kept = {name: short(value) for name, value in arguments.items()}
        return Act(self.caller, f"web {what}", kept, self.deps.clock.monotonic())

    @property
    def browser(self) -> Browser:
        """The browser that looks, as somebody may sign in with it."""
        return Browser(self.request.headers.get("user-agent", ""), self.session.id if self.session else None)

    def said(self, name: str, otherwise: str = "") -> str:
        """One field of the form, without the blanks around it."""
        values = self.form.get(name, ())
        return values[0].strip() if values else otherwise

    def asked(self, name: str, otherwise: str = "") -> str:
        """One parameter of the address, without the blanks around it."""
        return self.request.query_params.get(name, otherwise).strip()

    @property
    def csrf(self) -> str:
        """What every form of this session carries, and no other site can know."""
        return csrf_of(self.secret) if self.secret else ""

    def html(self, template: str, **facts: object) -> str:
        """A template as text, with what every page knows."""
        return self.site.templates.get_template(template).render(
            visit=self, viewer=self.session, csrf=self.csrf, path=self.request.url.path, now=self.deps.clock.now(),
            **facts,
        )  # fmt: skip

    def render(self, template: str, status: int = 200, *, form_action: str = "", **facts: object) -> Response:
        """A page. `form_action`: where else than here its form may lead (after a redirect), as `http://127.0.0.1:1`."""
        notice = unquote(self.request.cookies.get(self.site.notice, ""))[:NOTICE_MOST]
        html = self.html(template, notice=notice, **facts)
        response = HTMLResponse(html, status, headers=headers(self.site, form_action))
        if notice:
            response.delete_cookie(self.site.notice, path="/", secure=self.site.secure, httponly=True, samesite="lax")
        return response

    def go(self, path: str, notice: str = "") -> Response:
        """On to another page of ours, which says `notice` once."""
        return self.noticed(RedirectResponse(path, 303, headers={"Cache-Control": "no-store"}), notice)

    def noticed(self, response: Response, notice: str) -> Response:
        """The answer, after which the next page says `notice` once."""
        if notice:
            response.set_cookie(
                self.site.notice, quote(notice[:NOTICE_MOST]), max_age=60, path="/", secure=self.site.secure,
                httponly=True, samesite="lax",
            )  # fmt: skip
        return response


Handler = Callable[[Visit], Awaitable[Response | Refusal]]


@dataclass(frozen=True, slots=True)
class Page:
    """A path and what answers there. A refusal becomes a page by itself.

    `open`: to people who are not signed in, too; others are sent to sign in first, and back. `admin`: for the platform
    admin alone; to everybody else it is not there. A form that is posted by somebody signed in carries `csrf`.
    `rate`: so often may one source ask for it.
    """

    path: str
    get: Handler | None = None
    post: Handler | None = None
    open: bool = False
    admin: bool = False
    rate: Rate | None = None


def csrf_of(secret: str) -> str:
    """The token of a session's forms, from the session's secret: nothing of the secret can be read in it."""
    made = hmac.new(secret.encode(), b"rift csrf", hashlib.sha256).digest()
    return base64.urlsafe_b64encode(made).rstrip(b"=").decode()


def headers(site: Site, form_action: str = "") -> dict[str, str]:
    """What every page is sent with."""
    told = {
        "Content-Security-Policy": f"{POLICY} {form_action}".rstrip(),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-store",
    }
    if site.secure:
        told["Strict-Transport-Security"] = "max-age=31536000"
    return told


def inside(path: str) -> str:
    """The path if it leads to a page of ours, else the first page: nobody is sent elsewhere by what a link says."""
    if len(path) > WAY_MOST:
        return "/app"
    parts = urlsplit(path)
    plain = path.startswith("/") and not path.startswith(("//", "/\\")) and "\\" not in path and path.isprintable()
    return path if plain and path.isascii() and not parts.netloc and not parts.scheme else "/app"


def parse_form(body: bytes) -> dict[str, list[str]]:
    """The fields of a form. Raises ValueError on one that is none, or has a NUL, which Postgres keeps in no text."""
    fields = parse_qs(body.decode("utf-8"), keep_blank_values=True, strict_parsing=bool(body), max_num_fields=200)
    if any("\0" in text for name, values in fields.items() for text in (name, *values)):
        raise ValueError("a NUL in a form")
    return fields


def parse_json(body: bytes) -> Any:
    """What a script of ours sent. Raises ValueError on what is none, or has text that Postgres does not keep."""
    try:
        parsed = json.loads(body)
        told = json.dumps(parsed, ensure_ascii=False)
    except RecursionError:
        raise ValueError("a form that is too deep") from None
    told.encode()  # UnicodeEncodeError, a ValueError, of half a character
    if "\\u0000" in told:
        raise ValueError("a NUL in a form")
    return parsed
