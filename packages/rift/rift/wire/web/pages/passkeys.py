"""Passkeys: the questions and answers that `static/passkey.js` carries between a browser's authenticators and here."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response

from keel.refusal import Refusal
from rift.names import CEREMONY_FOR
from rift.passkeys import actions
from rift.sessions.model import Kind
from rift.wire.web.pages.sign_in import with_session
from rift.wire.web.visit import Page, Site, Visit, headers, inside

ACCOUNT = "/app/account"


async def begin(visit: Visit) -> Response | Refusal:
    """What is asked of any passkey of this place."""
    asked = await actions.begin(visit.deps, inside(_text(visit, "next")))
    return asked if isinstance(asked, Refusal) else _asked(visit, "passkey", asked)


async def sign_in(visit: Visit) -> Response | Refusal:
    """Sign in whose passkey has answered."""
    said = visit.json.get("credential") if isinstance(visit.json, dict) else None
    done = await actions.sign_in(visit.deps, _secret(visit, "passkey"), said, visit.browser)
    if isinstance(done, Refusal):
        return done
    return with_session(visit, _on(visit, "passkey", inside(done.next)), done)


async def begin_new(visit: Visit) -> Response | Refusal:
    """What is asked for a new passkey."""
    asked = await actions.begin_new(visit.deps, visit.caller)
    return asked if isinstance(asked, Refusal) else _asked(visit, "passkey_new", asked)


async def add(visit: Visit) -> Response | Refusal:
    """Keep the passkey that was made."""
    said = visit.json.get("credential") if isinstance(visit.json, dict) else None
    secret = _secret(visit, "passkey_new")
    made = await actions.add(visit.deps, visit.act("add passkey"), secret, said, _text(visit, "name"))
    if isinstance(made, Refusal):
        return made
    return visit.noticed(_on(visit, "passkey_new", ACCOUNT), f"“{made.name}” signs you in from now on.")


async def remove(visit: Visit) -> Response | Refusal:
    """Remove a passkey."""
    id = visit.said("passkey")
    removed = await actions.remove(visit.deps, visit.act("remove passkey", passkey=id), id)
    if isinstance(removed, Refusal):
        return removed
    return visit.go(ACCOUNT, f"“{removed}” signs nobody in any more. Remove it from your device, too.")


def ceremony_cookie(site: Site, kind: Kind) -> str:
    """The name of the cookie with the secret of what a browser has begun."""
    return f"__Host-rift_{kind}" if site.secure else f"rift_{kind}"


def with_ceremony(visit: Visit, response: Response, kind: Kind, secret: str, *, from_elsewhere: bool = False) -> None:
    """Give the browser its secret. `from_elsewhere`: another site leads back here, and the cookie is to come along."""
    response.set_cookie(
        ceremony_cookie(visit.site, kind), secret, max_age=int(CEREMONY_FOR.total_seconds()), path="/",
        secure=visit.site.secure, httponly=True, samesite="lax" if from_elsewhere else "strict",
    )  # fmt: skip


def without_ceremony(visit: Visit, response: Response, kind: Kind) -> None:
    """Take it away: it is over."""
    response.delete_cookie(
        ceremony_cookie(visit.site, kind), path="/", secure=visit.site.secure, httponly=True, samesite="lax"
    )


def _asked(visit: Visit, kind: Kind, asked: actions.Asked) -> Response:
    response = JSONResponse(asked.options, headers=headers(visit.site))
    with_ceremony(visit, response, kind, asked.secret)
    return response


def _on(visit: Visit, kind: Kind, path: str) -> Response:
    response = JSONResponse({"next": path}, headers=headers(visit.site))
    without_ceremony(visit, response, kind)
    return response


def _secret(visit: Visit, kind: Kind) -> str:
    return visit.request.cookies.get(ceremony_cookie(visit.site, kind), "")


def _text(visit: Visit, name: str) -> str:
    said = visit.json.get(name) if isinstance(visit.json, dict) else None
    return said if isinstance(said, str) else ""


PAGES = (
    Page("/sign-in/passkey/begin", post=begin, open=True),
    Page("/sign-in/passkey", post=sign_in, open=True),
    Page(f"{ACCOUNT}/passkeys/begin", post=begin_new),
    Page(f"{ACCOUNT}/passkeys", post=add),
    Page(f"{ACCOUNT}/passkeys/remove", post=remove),
)
