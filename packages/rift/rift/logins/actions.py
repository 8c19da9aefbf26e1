"""What is done with people's GitHub accounts. GitHub is asked between transactions, never in one.

A token is used of nobody who was put out. A refresh token is good once, so of all who need newer tokens at a moment one
claims the attempt (`refresh_epoch`), and the others wait for what it gets.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Coroutine
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

import structlog

from keel import jobs
from keel.db import Tx
from keel.refusal import Refusal
from keel.vault import VaultTrouble
from rift.audit import Act, audited, note, refuse
from rift.deps import Deps
from rift.drivers.github.protocol import (
    Account,
    App,
    GitHubDenied,
    GitHubError,
    NoDeviceFlow,
    NoLogin,
    NotYet,
    UserTokens,
)
from rift.logins import refusals, store
from rift.logins.model import Gone, Login, Pending, Person, Step, about, about_code
from rift.people import refusals as people_refusals
from rift.registration import actions as registration
from rift.registration import refusals as registration_refusals

log = structlog.get_logger()

SEALED = store.SEALED
"""What is sealed of them in the database."""
FRESH_FOR = timedelta(minutes=5)
"""A token with less left is renewed first: what it is for may take its time."""
CLAIM_FOR = timedelta(seconds=60)
"""Longer than one question to GitHub may take."""
PATIENCE_SECONDS = 25.0
"""How long a call waits for another one that gets newer tokens."""
KEPT = timedelta(days=1)
LOST = "the tokens cannot be opened"
Result = TypeVar("Result")
_begun: set[asyncio.Future[Any]] = set()


async def of_user(tx: Tx, user: str) -> Login | None:
    """The GitHub account of a person (by id), unless they were put out."""
    return await store.find(tx, user)


async def everybody(deps: Deps) -> list[Login]:
    """Everybody's. Source: `rift github status`."""
    async with deps.db.tx() as tx:
        return await store.everybody(tx)


# Logging in: the device flow ------------------------------------------------------------------------------------------


async def login(deps: Deps, act: Act) -> Step | Refusal:
    """One step: the address and the code first, then whether they were typed. Source: rift_github_login."""
    user, now = act.caller.user, deps.clock.now()
    async with deps.db.look(user) as tx:
        known, begun = await store.find(tx, user), await store.pending(tx, user, now)
    if known is not None and known.failure is None:
        return await _recorded(deps, act, Step("already", known.login))
    try:
        app = await registration.app_of(deps)
        if app is None:
            return await refuse(deps, act, registration_refusals.no_app())
        if begun is None:
            return await _begin(deps, act, app)
        return await _check(deps, act, app, begun)
    except GitHubError as error:
        return await refuse(deps, act, registration.trouble(deps, error))
    except VaultTrouble as error:
        return await refuse(deps, act, registration_refusals.away(str(error)))


async def _begin(deps: Deps, act: Act, app: App) -> Step | Refusal:
    user = act.caller.user
    try:
        code = await deps.github.device_code(app)
    except NoDeviceFlow:
        return await refuse(deps, act, registration_refusals.no_device_flow(app.slug, app.html_url))
    now = deps.clock.now()
    made = Pending(
        deps.vault.seal(code.device_code.encode(), about_code(user)), code.user_code, code.url, code.every,
        now + timedelta(seconds=code.every), now + timedelta(seconds=code.expires_in),
    )  # fmt: skip
    async with audited(deps, act) as (tx, row):
        if not await store.begin(tx, user, made, now):
            made = await store.pending(tx, user, now) or made  # another call was first: its code is shown by both
        return row.said(Step("begun", "", made.url, made.user_code, made.every_seconds))


async def _check(deps: Deps, act: Act, app: App, begun: Pending) -> Step | Refusal:
    user, code, now = act.caller.user, begun.user_code, deps.clock.now()
    async with deps.db.tx(user) as tx:
        mine = await store.claim_ask(tx, user, code, now, now + timedelta(seconds=begun.every_seconds))
    if not mine:
        return await _recorded(deps, act, _waiting(begun, now))
    device = deps.vault.open(begun.sealed, about_code(user)).decode()
    said = await deps.github.device_tokens(app, device)
    if isinstance(said, NotYet):
        every = max(begun.every_seconds, said.every)
        later = replace(begun, every_seconds=every, ask_after=now + timedelta(seconds=every))
        async with audited(deps, act) as (tx, row):
            await store.slow_down(tx, user, code, every, later.ask_after)
            return row.said(_waiting(later, now))
    if isinstance(said, NoLogin):
        async with audited(deps, act) as (tx, row):
            await store.end_pending(tx, user, code)
            return row.said(refusals.denied() if said.why == "denied" else refusals.expired())
    return await _connect(deps, act, app, code, said)


async def _connect(deps: Deps, act: Act, app: App, code: str, tokens: UserTokens) -> Step | Refusal:
    """The code is used up from here on: a failure means another login."""
    user = act.caller.user
    try:
        account = await deps.github.user(tokens.access)
    except GitHubError as error:
        async with audited(deps, act) as (tx, row):
            await store.end_pending(tx, user, code)
            return row.said(registration.trouble(deps, error))
    async with audited(deps, act) as (tx, row):
        if await store.end_pending(tx, user, code):
            if not await keep(tx, deps, user, account, tokens):
                return row.said(people_refusals.disabled(act.caller.email))
            return row.said(Step("connected", account.login))
        gone = row.said(refusals.no_login())
    await _revoke(deps, app, tokens.access)  # the person disconnected while GitHub was asked
    return gone


async def keep(tx: Tx, deps: Deps, user: str, account: Account, tokens: UserTokens) -> bool:
    """Connect an account that a person has shown to be theirs; False where the person was put out meanwhile."""
    sealed = deps.vault.seal(_tokens(tokens), about(user))
    kept = await store.put(tx, user, account, sealed, tokens, deps.clock.now())
    if kept:
        await note(tx, deps, "github login", task=None, box=None, actor=user, arguments={"login": account.login})
    return kept


# The token that acts as a person --------------------------------------------------------------------------------------


async def person_token(deps: Deps, user: str) -> Person | Refusal:
    """Who a person is at GitHub, with a token that is good for five minutes at least.

    Newer tokens are got once, by one of all who need them. Not in a transaction.
    """
    until = deps.clock.monotonic() + PATIENCE_SECONDS
    with deps.signals.on(_topic(user)) as signal:
        while True:
            async with deps.db.look(user) as tx:
                found = await store.find(tx, user)
            if found is None:
                return refusals.no_login()
            if found.failure is not None:
                return refusals.login_over(found.login, found.failure)
            now = deps.clock.now()
            if found.expires_at is None or found.expires_at > now + FRESH_FOR:
                return await _opened(deps, found)
            async with deps.db.tx(user) as tx:
                epoch = await store.claim(tx, user, found.refresh_epoch, now, now + CLAIM_FOR)
            if epoch is not None:
                return await _to_its_end(_renew(deps, found, epoch))
            left = until - deps.clock.monotonic()
            if left <= 0 or signal.closing:
                return registration_refusals.away("another call is renewing your login")
            await signal.wait(min(left, 1.0))


async def _to_its_end(work: Coroutine[Any, Any, Result]) -> Result:
    """Whoever waits may go away; what has begun may not: the refresh token is used up, and the new one is nowhere."""
    task = asyncio.ensure_future(work)
    _begun.add(task)
    task.add_done_callback(_begun.discard)
    return await asyncio.shield(task)


async def _opened(deps: Deps, found: Login) -> Person | Refusal:
    try:
        return Person(found.login, _access(deps, found))
    except VaultTrouble as error:
        log.error("github.sealed", reason=str(error))
        return refusals.login_over(found.login, LOST)


async def _renew(deps: Deps, found: Login, epoch: int) -> Person | Refusal:
    """Use the refresh token, which is this attempt's alone."""
    failure: str | None = None
    try:
        app = await registration.app_of(deps)
        if app is None:
            return registration_refusals.no_app()
        refresh = json.loads(deps.vault.open(found.sealed, about(found.user)))["refresh"]
        over = found.refresh_expires_at is not None and found.refresh_expires_at <= deps.clock.now()
        if refresh is None or over:
            failure = "it was not used for too long"
            return refusals.login_over(found.login, failure)
        tokens = await deps.github.refresh(app, refresh)
        return await _renewed(deps, app, found, epoch, tokens)
    except VaultTrouble as error:
        log.error("github.sealed", reason=str(error))
        return refusals.login_over(found.login, LOST)
    except GitHubDenied:
        failure = "it was taken back there, or not used for too long"
        return refusals.login_over(found.login, failure)
    except GitHubError as error:
        return registration.trouble(deps, error)
    finally:
        async with deps.db.tx(found.user) as tx:  # of no effect on tokens that were kept: their failure is none
            await store.let_go(tx, found.user, epoch, failure)
            await tx.notify(_topic(found.user))


async def _renewed(deps: Deps, app: App, found: Login, epoch: int, tokens: UserTokens) -> Person | Refusal:
    if tokens.refresh is None:
        tokens = replace(tokens, refresh_expires_at=None)
    sealed = deps.vault.seal(_tokens(tokens), about(found.user))
    async with deps.db.tx(found.user) as tx:
        kept = await store.renewed(tx, found.user, epoch, sealed, tokens)
        there = await store.find(tx, found.user)
    if there is None:  # disconnected or put out meanwhile: what GitHub has just given is taken back
        await _revoke(deps, app, tokens.access)
        return refusals.no_login()
    return Person(found.login, tokens.access) if kept else await _opened(deps, there)


# Disconnecting --------------------------------------------------------------------------------------------------------


async def disconnect(deps: Deps, act: Act) -> Gone | Refusal:
    """Forget a person's account and tokens, and take the authorization back at GitHub. Source: the Connections page."""
    async with audited(deps, act) as (tx, row):
        await store.end_pending(tx, act.caller.user)
        gone = await store.remove(tx, act.caller.user)
        if gone is None:
            return row.said(refusals.none_connected())
    return Gone(gone.login, await _revoke_of(deps, gone))


async def check_token(deps: Deps, user: str, token: str) -> Refusal | None:
    """GitHub did not take a token of a person's: whether their authorization was taken back there.

    Then their account is forgotten, and this says so. None where GitHub takes it, or another token is kept by now.
    """
    async with deps.db.look(user) as tx:
        found = await store.find(tx, user)
    if found is None:
        return refusals.no_login()
    person = await _opened(deps, found)
    if isinstance(person, Refusal) or person.token != token:
        return None
    try:
        await deps.github.user(token)
    except GitHubDenied:
        await _revoked_there(deps, found)
        return refusals.login_over(found.login, "it was taken back there")
    except GitHubError:
        return None
    return None


async def look_again(tx: Tx, github_id: int) -> None:
    """Have the tokens of an account checked, once this transaction commits: GitHub says that they were taken back."""
    await jobs.defer(tx, "logins.check", once=f"check:{github_id}", github_id=github_id)


async def check_account(deps: Deps, github_id: int) -> None:
    """Ask GitHub whether it takes the tokens of an account; who took them back is forgotten. Source: the job."""
    async with deps.db.tx("github logins") as tx:
        found = await store.of_account(tx, github_id)
    for one in found:
        person = await person_token(deps, one.user)
        if not isinstance(person, Refusal):
            await check_token(deps, one.user, person.token)


async def _revoked_there(deps: Deps, one: Login) -> None:
    async with deps.db.tx(one.user) as tx:
        if await store.remove(tx, one.user, one.sealed) is not None:  # else newer tokens are kept by now
            await note(
                tx, deps, "github login revoked", task=None, box=None, actor=one.user, arguments={"login": one.login}
            )


async def end_put_out(deps: Deps) -> None:
    """Forget the accounts of who was put out. Source: the job."""
    while True:
        async with deps.db.tx("github logins") as tx:
            gone = [one for found in await store.put_out(tx) if (one := await store.remove(tx, found.user))]
            for one in gone:
                await store.end_pending(tx, one.user)
                await note(
                    tx, deps, "github login ended", task=None, box=None, actor=one.user, arguments={"login": one.login}
                )
        for one in gone:
            await _revoke_of(deps, one)
        if not gone:
            return


async def forget(deps: Deps) -> int:
    """Delete what was begun and is over, and what people who were put out have left; how many rows of the former."""
    await end_put_out(deps)
    now = deps.clock.now()
    async with deps.db.tx("github logins") as tx:
        return await store.forget(tx, now, now - KEPT)


async def _revoke_of(deps: Deps, gone: Login) -> bool:
    try:
        app = await registration.app_of(deps)
        access = _access(deps, gone)
    except (GitHubError, VaultTrouble) as error:
        log.warning("github.not_revoked", login=gone.login, reason=str(error))
        return False
    return app is not None and await _revoke(deps, app, access)


async def _revoke(deps: Deps, app: App, access: str) -> bool:
    try:
        await deps.github.revoke(app, access)
    except GitHubError as error:
        log.warning("github.not_revoked", reason=error.reason)
        return False
    return True


def _access(deps: Deps, found: Login) -> str:
    return str(json.loads(deps.vault.open(found.sealed, about(found.user)))["access"])


async def _recorded(deps: Deps, act: Act, step: Step) -> Step:
    async with audited(deps, act) as (_, row):
        return row.said(step)


def _waiting(begun: Pending, now: datetime) -> Step:
    seconds = max(1, math.ceil((begun.ask_after - now).total_seconds()))
    return Step("waiting", "", begun.url, begun.user_code, seconds)


def _tokens(tokens: UserTokens) -> bytes:
    return json.dumps({"access": tokens.access, "refresh": tokens.refresh}).encode()


def _topic(user: str) -> str:
    return f"github-user:{user}"
