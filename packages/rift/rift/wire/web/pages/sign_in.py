"""Signing in by a link, and signing out. With a passkey: `passkeys`; somewhere else: `sso`."""

from __future__ import annotations

from urllib.parse import quote

from starlette.responses import Response

from keel.refusal import Refusal
from rift.authenticators import place_of
from rift.mail import actions as mail
from rift.sessions import actions
from rift.sessions.model import SignedIn
from rift.wire.web.visit import Page, Visit, inside


async def sign_in(visit: Visit) -> Response | Refusal:
    """How to sign in."""
    if visit.session is not None:
        return visit.go(wanted(visit))
    return page(visit)


async def ask(visit: Visit) -> Response | Refusal:
    """Have a letter sent to an address, if it may sign in: whether it may shows nowhere."""
    email = visit.said("email")
    refusal = await actions.ask_link(visit.deps, email, wanted(visit))
    if refusal is not None:
        return page(visit, 422, email=email, error=refusal.sentence)
    return visit.render("sign_in_sent.html", email=email, by_mail=by_mail(visit), next=wanted(visit))


async def link(visit: Visit) -> Response | Refusal:
    """Whose link it is: what only opens links signs nobody in, as the button is to be pressed."""
    found = await mail.look_at(visit.deps, visit.request.path_params["secret"])
    return over(visit, found) if isinstance(found, Refusal) else visit.render("link.html", link=found)


async def use_link(visit: Visit) -> Response | Refusal:
    """Sign in by the link."""
    done = await actions.use_link(visit.deps, visit.request.path_params["secret"], visit.browser)
    return over(visit, done) if isinstance(done, Refusal) else signed_in(visit, done)


async def sign_out(visit: Visit) -> Response | Refusal:
    """End this session."""
    await actions.sign_out(visit.deps, visit.act("sign out"))
    return signed_out(visit, "You are signed out.")


def page(visit: Visit, status: int = 200, *, email: str = "", error: str = "") -> Response:
    """The sign-in page."""
    return visit.render(
        "sign_in.html", status, email=email, error=error, by_mail=by_mail(visit), next=wanted(visit),
        passkeys=place_of(visit.site.public),
        sign_on=visit.deps.settings.sign_in.oidc_name if visit.deps.signon else None,
    )  # fmt: skip


def by_mail(visit: Visit) -> bool:
    """Whether letters go out; without a mail server they wait on the admin's Mailbox page."""
    return mail.sends(visit.deps)


def wanted(visit: Visit) -> str:
    """The path of the page that somebody wanted, and was sent here from."""
    return inside(visit.said("next") or visit.request.query_params.get("next", ""))


def over(visit: Visit, refusal: Refusal) -> Response | Refusal:
    """What a link that is not good any more shows: it may be good news, to who has just used it."""
    return visit.render("link_over.html", 410, refusal=refusal) if refusal.code == "link_over" else refusal


def signed_in(visit: Visit, done: SignedIn) -> Response:
    """On to where somebody wanted to go, with the cookie that says who they are."""
    return with_session(visit, visit.go(inside(done.next)), done)


def with_session(visit: Visit, response: Response, done: SignedIn) -> Response:
    """The answer with the cookie of a new session."""
    response.set_cookie(
        visit.site.cookie, done.secret, max_age=int(visit.deps.settings.sign_in.session_for.total_seconds()), path="/",
        secure=visit.site.secure, httponly=True, samesite="lax",
    )  # fmt: skip
    return response


def signed_out(visit: Visit, notice: str) -> Response:
    """To the sign-in page, without the cookie."""
    response = visit.go("/sign-in", notice)
    response.delete_cookie(visit.site.cookie, path="/", secure=visit.site.secure, httponly=True, samesite="lax")
    return response


def sign_in_path(next: str) -> str:
    """The sign-in page that leads on to another."""
    return f"/sign-in?next={quote(next, safe='')}"


PAGES = (
    Page("/sign-in", sign_in, ask, open=True),
    Page("/sign-in/link/{secret}", link, use_link, open=True),
    Page("/sign-out", post=sign_out),
)
