"""Signing in elsewhere, and coming back."""

from __future__ import annotations

from starlette.responses import Response

from keel.buckets import Rate
from keel.refusal import Refusal
from rift.identities import actions
from rift.identities.actions import BACK
from rift.identities.model import Back
from rift.wire.web.pages.passkeys import ceremony_cookie, with_ceremony, without_ceremony
from rift.wire.web.pages.sign_in import signed_in, wanted
from rift.wire.web.visit import Page, Visit

ACCOUNT = "/app/account"
COMES_BACK = Rate(30, 60.0)
"""So often may one source come back: each time may ask the provider and write a record."""


async def begin(visit: Visit) -> Response | Refusal:
    """On to the other sign-in, by a page that leads there: a form may be sent to nobody but us, by no way round."""
    begun = await actions.begin(visit.deps, wanted(visit))
    if isinstance(begun, Refusal):
        return begun
    response = visit.render("sso.html", url=begun.url, name=visit.deps.settings.sign_in.oidc_name)
    with_ceremony(visit, response, "sso", begun.secret, from_elsewhere=True)
    return response


async def back(visit: Visit) -> Response | Refusal:
    """Back from there."""
    said = visit.request.query_params
    came = Back(said.get("state", ""), said.get("code", ""), said.get("iss"), said.get("error", ""))
    secret = visit.request.cookies.get(ceremony_cookie(visit.site, "sso"), "")
    done = await actions.finish(visit.deps, secret, came, visit.browser)
    if isinstance(done, Refusal):
        return done
    response = signed_in(visit, done)
    without_ceremony(visit, response, "sso")
    return response


async def unlink(visit: Visit) -> Response | Refusal:
    """Take a sign-on from the account."""
    issuer, subject = visit.said("issuer"), visit.said("subject")
    act = visit.act("unlink sign-on", issuer=issuer[:300], subject=subject[:300])
    refusal = await actions.unlink(visit.deps, act, issuer, subject)
    return refusal or visit.go(ACCOUNT, "Unlinked. Signing in there links it again while the address is the same.")


PAGES = (
    Page("/sign-in/sso", post=begin, open=True),
    Page(BACK, back, open=True, rate=COMES_BACK),
    Page(f"{ACCOUNT}/identities/unlink", post=unlink),
)
