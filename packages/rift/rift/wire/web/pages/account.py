"""The account page: the person's address, how they sign in, and where they are signed in."""

from __future__ import annotations

from starlette.responses import Response

from keel.refusal import Refusal
from rift.authenticators import place_of
from rift.identities import actions as identities
from rift.passkeys import actions as passkeys
from rift.sessions import actions as sessions
from rift.sessions.decide import browser_of
from rift.wire.web.pages.sign_in import signed_out
from rift.wire.web.visit import Page, Visit

PATH = "/app/account"


async def account(visit: Visit) -> Response | Refusal:
    """Everything of the person's own account."""
    return visit.render(
        "account.html", sessions=await sessions.of_caller(visit.deps, visit.caller), browser_of=browser_of,
        here=visit.caller.token, passkeys=await passkeys.of_caller(visit.deps, visit.caller),
        place=place_of(visit.site.public), identities=await identities.of_caller(visit.deps, visit.caller),
        sign_on=visit.deps.settings.sign_in.oidc_name if visit.deps.signon else None,
    )  # fmt: skip


async def end_session(visit: Visit) -> Response | Refusal:
    """Sign out in one browser, which may be this one."""
    session = visit.said("session")
    refusal = await sessions.end(visit.deps, visit.act("end session", session=session), session)
    if refusal is not None:
        return refusal
    if session == visit.caller.token:
        return signed_out(visit, "You are signed out.")
    return visit.go(PATH, "That browser is signed out.")


async def sign_out_others(visit: Visit) -> Response | Refusal:
    """Sign out everywhere but here."""
    ended = await sessions.end_all(visit.deps, visit.act("sign out everywhere", here=False), this_too=False)
    return visit.go(PATH, f"Signed out in {ended} other browser{'' if ended == 1 else 's'}.")


async def sign_out_all(visit: Visit) -> Response | Refusal:
    """Sign out everywhere, here too."""
    await sessions.end_all(visit.deps, visit.act("sign out everywhere", here=True), this_too=True)
    return signed_out(visit, "You are signed out, in every browser.")


PAGES = (
    Page(PATH, account),
    Page(f"{PATH}/sessions/end", post=end_session),
    Page(f"{PATH}/sessions/end-others", post=sign_out_others),
    Page(f"{PATH}/sessions/end-all", post=sign_out_all),
)
