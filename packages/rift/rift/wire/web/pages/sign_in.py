"""Signing in and out."""

from __future__ import annotations

from starlette.responses import RedirectResponse, Response

from keel.refusal import Refusal
from rift.mail import actions as mail
from rift.sessions import actions
from rift.sessions.model import SignedIn
from rift.wire.web.visit import Page, Visit, inside


async def home(visit: Visit) -> Response | Refusal:
    """The first page: for now, the boxes."""
    return RedirectResponse("/app/boxes", 303)


async def sign_in(visit: Visit) -> Response | Refusal:
    """How to sign in."""
    if visit.session is not None:
        return visit.go(inside(visit.request.query_params.get("next", "/app")))
    return visit.render("sign_in.html")


async def link(visit: Visit) -> Response | Refusal:
    """Whose link it is: what only opens links signs nobody in, as the button is to be pressed."""
    found = await mail.look_at(visit.deps, visit.request.path_params["secret"])
    return found if isinstance(found, Refusal) else visit.render("link.html", link=found)


async def use_link(visit: Visit) -> Response | Refusal:
    """Sign in by the link."""
    agent = visit.request.headers.get("user-agent", "")
    done = await actions.use_link(visit.deps, visit.request.path_params["secret"], agent)
    return done if isinstance(done, Refusal) else signed_in(visit, done)


async def sign_out(visit: Visit) -> Response | Refusal:
    """End this session."""
    await actions.sign_out(visit.deps, visit.act("sign out"))
    response = visit.go("/sign-in", "You are signed out.")
    response.delete_cookie(visit.site.cookie, path="/", secure=visit.site.secure, httponly=True, samesite="lax")
    return response


def signed_in(visit: Visit, done: SignedIn) -> Response:
    """On to where somebody wanted to go, with the cookie that says who they are."""
    response = visit.go(inside(done.next or "/app"))
    response.set_cookie(
        visit.site.cookie, done.secret, max_age=int(visit.deps.settings.sign_in.session_for.total_seconds()), path="/",
        secure=visit.site.secure, httponly=True, samesite="lax",
    )  # fmt: skip
    return response


PAGES = (
    Page("/", home, open=True),
    Page("/app", home),
    Page("/sign-in", sign_in, open=True),
    Page("/sign-in/link/{secret}", link, use_link, open=True),
    Page("/sign-out", post=sign_out),
)
