"""What is done with the App. What takes `deps` is one transaction, with what GitHub is asked outside of it."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import timedelta
from urllib.parse import urlsplit

import structlog

from keel.db import Tx
from keel.hosts import is_loopback
from keel.ids import digest
from keel.refusal import Refusal
from keel.vault import VaultTrouble
from rift.audit import Act, audited, refuse
from rift.deps import Deps
from rift.drivers.github.protocol import App, GitHubBusy, GitHubError
from rift.people import actions as people
from rift.registration import refusals, store
from rift.registration.decide import app_page, is_organization, manifest, new_app_url
from rift.registration.model import ABOUT, Making, Registered, Standing

log = structlog.get_logger()

SEALED = store.SEALED
"""What is sealed of it in the database."""
MAKING_FOR = timedelta(hours=1)
"""GitHub keeps the code of a new App for an hour."""


async def app_of(deps: Deps) -> App | None:
    """The App: the settings', or the one that was made from here. Raises GitHubError where it cannot be unsealed."""
    given = _given(deps)
    if given is not None:
        return given
    async with deps.db.look("github app") as tx:
        found = await store.find(tx)
    if found is None:
        return None
    try:
        secrets = json.loads(deps.vault.open(found.sealed, ABOUT))
    except VaultTrouble as error:
        raise GitHubError(f"the secrets of the App cannot be opened: {error}") from None
    hook = deps.settings.github.webhook_secret or secrets["webhook_secret"]
    return App(
        found.app_id, found.slug, found.html_url, found.client_id, secrets["client_secret"], secrets["private_key"],
        hook,
    )  # fmt: skip


async def there_is_one(tx: Tx, deps: Deps) -> bool:
    """Whether there is an App."""
    return _given(deps) is not None or await store.find(tx) is not None


async def standing(deps: Deps) -> Standing | None:
    """The App in words. Raises GitHubError as `app_of` does. Source: `rift github status`, the doctor."""
    app = await app_of(deps)
    if app is None:
        return None
    given = _given(deps) is not None
    return Standing(app.id, app.slug, app.html_url, app.client_id, bool(app.webhook_secret), given)


async def begin_making(deps: Deps, act: Act, org: str | None) -> Making | Refusal:
    """What to send to GitHub for a new App. Source: the page of `rift github app-manifest`."""
    github, public = deps.settings.github, deps.settings.server.address
    asked = manifest(public, reachable=_reachable(deps))
    state = deps.ids.token()
    async with audited(deps, act) as (tx, row):
        refused = await people.platform_only(tx, act, "to make the GitHub App")
        if refused is None and github.app_id is not None:
            refused = refusals.app_set(github.app_slug or str(github.app_id))
        if refused is not None:
            return row.said(refused)
        there = await store.find(tx)
        await store.insert_making(tx, digest(state), act.caller.user, deps.clock.now() + MAKING_FOR)
    owner = org if org and is_organization(org) else None
    replaces = there.slug if there is not None else None
    return Making(new_app_url(github.url, owner, state), state, json.dumps(asked), replaces)


async def finish_making(deps: Deps, act: Act, code: str, state: str) -> App | Refusal:
    """Take the App that GitHub has made. Source: the address that it sends the browser back to."""
    async with deps.db.tx(act.caller.user) as tx:
        refused = await people.platform_only(tx, act, "to make the GitHub App")
        good = refused is None and await store.take_making(tx, digest(state), act.caller.user, deps.clock.now())
    if not good or not code:
        return await refuse(deps, act, refused or refusals.making_over())
    try:
        app = await deps.github.convert(code)
        if not _reachable(deps):
            app = replace(app, webhook_secret="")  # GitHub gives one to every App, also to one without webhooks
        sealed = deps.vault.seal(_secrets(app), ABOUT)
    except GitHubError as error:
        return await refuse(deps, act, trouble(deps, error))
    except VaultTrouble as error:
        return await refuse(deps, act, refusals.away(str(error)))
    async with audited(deps, act) as (tx, row):
        if refused := await people.platform_only(tx, act, "to make the GitHub App"):
            return row.said(refused)  # put out of that while GitHub was asked
        made = Registered(app.id, app.slug, app.html_url, app.client_id, sealed)
        await store.put(tx, made)
    return app


def trouble(deps: Deps, error: GitHubError) -> Refusal:
    """What GitHub did not do, as a refusal of ours."""
    log.warning("github.failed", reason=error.reason)
    if isinstance(error, GitHubBusy):
        return refusals.busy(max(1, math.ceil((error.until - deps.clock.now()).total_seconds())))
    return refusals.away(error.reason.rstrip("."))


def _given(deps: Deps) -> App | None:
    """The App of the settings, which are whole or have none (`RiftSettings.contradictions`)."""
    said = deps.settings.github
    if not (said.app_id and said.app_slug and said.client_id and said.client_secret and said.private_key):
        return None
    return App(
        said.app_id, said.app_slug, app_page(said.url, said.app_slug), said.client_id, said.client_secret,
        said.private_key, said.webhook_secret or "",
    )  # fmt: skip


def _reachable(deps: Deps) -> bool:
    """Whether GitHub can reach this Rift, to tell it what happens."""
    return not is_loopback(urlsplit(deps.settings.server.address).hostname or "")


def _secrets(app: App) -> bytes:
    told = {
        "client_secret": app.client_secret, "private_key": app.private_key, "webhook_secret": app.webhook_secret,
    }  # fmt: skip
    return json.dumps(told).encode()
