"""What is done with passkeys: each of these is one transaction.

A ceremony is two requests of one browser: the first gets a question and a cookie, the second brings the answer and that
cookie back. The question's challenge is made from the cookie's secret, so that it is bound to the browser, and the
database has neither of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from keel.ids import digest
from keel.refusal import Refusal
from rift.audit import Act, SystemAct, audited
from rift.authenticators import NotTaken, Place, answered, asked_for, asked_for_new, claimed, new_key, place_of
from rift.deps import Deps
from rift.passkeys import refusals, store
from rift.passkeys.decide import PASSKEYS_MOST, name_of, went_back
from rift.passkeys.model import Passkey
from rift.people import actions as people
from rift.people import refusals as people_refusals
from rift.people.model import Caller
from rift.sessions import actions as sessions
from rift.sessions.model import Browser, SignedIn


@dataclass(frozen=True, slots=True)
class Asked:
    """A question for the browser's authenticators, and the secret that the browser keeps until it answers."""

    options: dict[str, Any]
    secret: str = field(repr=False)


async def of_caller(deps: Deps, caller: Caller) -> list[Passkey]:
    """A person's passkeys, oldest first. Source: the account page."""
    async with deps.db.look(caller.user) as tx:
        return await store.of_user(tx, caller.user)


async def begin_new(deps: Deps, caller: Caller) -> Asked | Refusal:
    """Ask a browser for a new passkey of this person. Source: the account page."""
    place = _place(deps)
    if isinstance(place, Refusal):
        return place
    async with deps.db.tx(caller.user) as tx:
        known = await store.of_user(tx, caller.user)
        if len(known) >= PASSKEYS_MOST:
            return refusals.too_many_passkeys(len(known))
        secret = await sessions.begin_ceremony(tx, deps, "passkey_new", {}, caller.user)
    had = [(one.credential, one.transports) for one in known]
    return Asked(asked_for_new(place, _challenge(secret), caller.user, caller.email, had), secret)


async def add(deps: Deps, act: Act, secret: str, said: object, name: str) -> Passkey | Refusal:
    """Keep the passkey that the browser made. Source: the account page."""
    place = _place(deps)
    async with audited(deps, act) as (tx, row):
        if isinstance(place, Refusal):
            return row.said(place)
        begun = await sessions.end_ceremony(tx, deps, "passkey_new", secret)
        if isinstance(begun, Refusal):
            return row.said(begun)
        if begun.user != act.caller.user:  # somebody else has signed in here since
            return row.said(refusals.passkey_not_taken())
        try:
            key = new_key(place, _challenge(secret), said)
        except NotTaken:
            return row.said(refusals.passkey_not_taken())
        await people.hold_person(tx, act.caller.user)
        known = await store.of_user(tx, act.caller.user)
        if len(known) >= PASSKEYS_MOST:
            return row.said(refusals.too_many_passkeys(len(known)))
        passkey = Passkey(
            "key_" + deps.ids.short(12), act.caller.user, act.caller.email, key.credential, key.public_key,
            key.sign_count, key.transports, name_of(name), deps.clock.now(), None,
        )  # fmt: skip
        return row.said(passkey if await store.insert(tx, passkey) else refusals.passkey_known())


async def begin(deps: Deps, next: str) -> Asked | Refusal:
    """Ask a browser for any passkey of this place. Source: the sign-in page."""
    place = _place(deps)
    if isinstance(place, Refusal):
        return place
    async with deps.db.tx("passkeys") as tx:
        secret = await sessions.begin_ceremony(tx, deps, "passkey", {"next": next})
    return Asked(asked_for(place, _challenge(secret)), secret)


async def sign_in(deps: Deps, secret: str, said: object, browser: Browser) -> SignedIn | Refusal:
    """Sign in whose passkey has answered. Source: the sign-in page."""
    place, told = _place(deps), {"by": "passkey"}
    act = SystemAct("web sign in", told, deps.clock.monotonic(), via="web")
    async with audited(deps, act) as (tx, row):
        if isinstance(place, Refusal):
            return row.said(place)
        begun = await sessions.end_ceremony(tx, deps, "passkey", secret)
        if isinstance(begun, Refusal):
            return row.said(begun)
        try:
            claim = claimed(said)
            passkey = await store.hold(tx, claim.credential)
            if passkey is None or claim.user not in (None, passkey.user):
                return row.said(refusals.unknown_passkey())
            count = answered(place, _challenge(secret), said, passkey.public_key)
        except NotTaken:
            return row.said(refusals.passkey_not_taken())
        row.actor, told["passkey"] = passkey.user, passkey.id
        if went_back(passkey.sign_count, count):
            return row.said(refusals.passkey_copied())
        user = await people.find(tx, passkey.email)
        if user is None:
            return row.said(people_refusals.no_such_user(passkey.email))
        signed_in = await sessions.begin(tx, deps, user, "passkey", browser, str(begun.facts.get("next", "")))
        if isinstance(signed_in, SignedIn):
            await store.used(tx, passkey.id, count, deps.clock.now())
        return row.said(signed_in)


async def remove(deps: Deps, act: Act, id: str) -> str | Refusal:
    """Remove a passkey of the caller's: the name that it had. Source: the account page."""
    async with audited(deps, act) as (tx, row):
        return row.said(await store.remove(tx, act.caller.user, id) or refusals.no_such_passkey())


def _place(deps: Deps) -> Place | Refusal:
    address = deps.settings.server.address
    return place_of(address) or refusals.no_passkeys_here(address)


def _challenge(secret: str) -> bytes:
    """What is to be signed: made from the browser's secret, of which it tells nothing."""
    return digest(f"passkey challenge {secret}")
