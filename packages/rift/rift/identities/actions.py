"""What is done with identities: signing in elsewhere, and what that is linked with here.

The way there and back is bound to one browser: state, nonce and PKCE's verifier are made from the secret in its cookie,
and the database has that secret's digest alone.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field

import structlog

from keel.db import Tx
from keel.ids import digest
from keel.refusal import Refusal
from rift.audit import Act, SystemAct, audited, note, refuse
from rift.deps import Deps
from rift.drivers.signon.protocol import Claim, SignOn, SignOnRefused, SignOnUnavailable, Way
from rift.identities import refusals, store
from rift.identities.model import Back, Identity
from rift.invites import actions as invites
from rift.people import actions as people
from rift.people import refusals as people_refusals
from rift.people.decide import email_of
from rift.people.model import Caller, User
from rift.sessions import actions as sessions
from rift.sessions import refusals as sessions_refusals
from rift.sessions.model import Browser, Ceremony, SignedIn

log = structlog.get_logger()

BACK = "/sign-in/sso/back"
"""The path that the provider sends browsers back to."""


@dataclass(frozen=True, slots=True)
class Begun:
    """Where to send the browser, and the secret that it keeps until it is back."""

    url: str
    secret: str = field(repr=False)


async def begin(deps: Deps, next: str) -> Begun | Refusal:
    """Send a browser to the other sign-in. Source: the sign-in page."""
    if deps.signon is None:
        return refusals.no_sign_on()
    async with deps.db.tx("single sign-on") as tx:
        secret = await sessions.begin_ceremony(tx, deps, "sso", {"next": next})
    try:
        return Begun(await deps.signon.start(_way(deps, secret)), secret)
    except SignOnUnavailable as error:
        log.warning("sign_on.away", reason=str(error))
        return refusals.sign_on_away(_name(deps))


async def finish(deps: Deps, secret: str, back: Back, browser: Browser) -> SignedIn | Refusal:
    """Sign in whom the other sign-in has sent back. Source: the address that it sends to."""
    told = {"by": "sso"}
    act = SystemAct("web sign in", told, deps.clock.monotonic(), via="web")
    if deps.signon is None:
        return refusals.no_sign_on()
    began = await _began(deps, secret, back)
    if isinstance(began, Refusal):  # no sign-in was begun: whoever opens addresses fills no ledger
        return began
    claim = await _claim(deps, deps.signon, secret, back)
    if isinstance(claim, Refusal):
        return await refuse(deps, act, claim)
    told |= {"issuer": claim.issuer}
    async with audited(deps, act) as (tx, row):
        user = await _account(tx, deps, claim)
        if isinstance(user, Refusal):
            return row.said(user)
        row.actor = user.id
        return row.said(await sessions.begin(tx, deps, user, "sso", browser, str(began.facts.get("next", ""))))


async def of_caller(deps: Deps, caller: Caller) -> list[Identity]:
    """What a person's account is linked with. Source: the account page."""
    async with deps.db.look(caller.user) as tx:
        return await store.of_user(tx, caller.user)


async def unlink(deps: Deps, act: Act, issuer: str, subject: str) -> Refusal | None:
    """Take an identity from the caller's account. Source: the account page."""
    async with audited(deps, act) as (tx, row):
        removed = await store.remove(tx, act.caller.user, issuer, subject)
        return None if removed else row.said(refusals.no_such_identity())


async def _began(deps: Deps, secret: str, back: Back) -> Ceremony | Refusal:
    """What this browser began, if it is this that came back; else it goes on waiting for that."""
    if not secret or not hmac.compare_digest(_way(deps, secret).state.encode(), back.state.encode()):
        return sessions_refusals.sign_in_over()
    async with deps.db.tx("single sign-on") as tx:
        return await sessions.end_ceremony(tx, deps, "sso", secret)


async def _claim(deps: Deps, signon: SignOn, secret: str, back: Back) -> Claim | Refusal:
    if back.error or not back.code:
        log.info("sign_on.refused", reason=f"the provider answered {back.error[:100]!r}")
        return refusals.sign_on_refused(_name(deps))
    try:
        return await signon.finish(_way(deps, secret), back.code, back.issuer)
    except SignOnUnavailable as error:
        log.warning("sign_on.away", reason=str(error))
        return refusals.sign_on_away(_name(deps))
    except SignOnRefused as error:
        log.warning("sign_on.refused", reason=str(error))
        return refusals.sign_on_refused(_name(deps))


async def _account(tx: Tx, deps: Deps, claim: Claim) -> User | Refusal:
    """Whose account a claim opens: the identity's; else that of its address, which is linked with it from then on."""
    known = await store.find(tx, claim.issuer, claim.subject)
    if known is not None:
        return await people.find(tx, known.email) or people_refusals.no_such_user(known.email)
    email = email_of(claim.email or "")
    if email is None:
        return refusals.sign_on_unverified(_name(deps))
    user = await people.find(tx, email) or await _new_account(tx, deps, email)
    if isinstance(user, Refusal):
        return user
    if user.disabled_at is not None:
        return people_refusals.disabled(user.email)
    await people.hold_person(tx, user.id)
    theirs = [one for one in await store.of_user(tx, user.id) if one.issuer == claim.issuer]
    if any(one.subject != claim.subject for one in theirs):
        return refusals.sign_on_taken(user.email, _name(deps))
    if not theirs:
        await store.insert(tx, claim.issuer, claim.subject, user.id, deps.clock.now())
        await note(
            tx, deps, "web link sign-on", task=None, box=None, actor=user.id, via="web",
            arguments={"issuer": claim.issuer, "subject": claim.subject},
        )  # fmt: skip
    return user


async def _new_account(tx: Tx, deps: Deps, email: str) -> User | Refusal:
    """An account for an address that has none, if it is invited or its domain gets one by that."""
    invited = await invites.account_for(tx, deps, email)
    domains = {domain.lower() for domain in deps.settings.sign_in.oidc_domains}
    if isinstance(invited, User) or email.rpartition("@")[2].lower() not in domains:
        return invited if isinstance(invited, User) else refusals.sign_on_unknown(email)
    return await people.make_user(tx, deps, email) or await people.find(tx, email) or refusals.sign_on_unknown(email)


def _way(deps: Deps, secret: str) -> Way:
    back = f"{deps.settings.server.address}{BACK}"
    state, nonce, verifier = (digest(f"sso {what} {secret}").hex() for what in ("state", "nonce", "verifier"))
    return Way(back, state, nonce, verifier)


def _name(deps: Deps) -> str:
    return deps.settings.sign_in.oidc_name
