"""The composition: everything concrete is chosen here, and nowhere else.

`connect` opens what every program needs, `work` is the background side; `serving.py` is the HTTP side.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from keel.clock import Clock, SystemClock
from keel.db import Database
from keel.ids import Ids, SystemIds
from keel.settings import SettingsError
from keel.ticking import Tick, tick_on
from onbe import meters
from onbe.audit import jobs as denial_jobs
from onbe.credentials import jobs as credential_jobs
from onbe.deps import Deps
from onbe.drivers.development.issuer import OwnIssuer
from onbe.drivers.development.keys import WithOwnIssuer
from onbe.drivers.development.protocol import DevelopmentIssuer
from onbe.drivers.keys.http import HttpKeys
from onbe.drivers.keys.protocol import PublishedKeys
from onbe.drivers.signing.away import NoSigning
from onbe.drivers.signing.folder import KeyFolder
from onbe.drivers.signing.local import LocalSigning, given_keys
from onbe.drivers.signing.protocol import Signing
from onbe.drivers.sink.http import SECONDS as SINK_SECONDS
from onbe.drivers.sink.http import HttpSink
from onbe.drivers.sink.protocol import Sink
from onbe.drivers.sponsors.away import NoDirectory
from onbe.drivers.sponsors.cached import CachedDirectory
from onbe.drivers.sponsors.circuit import CircuitBreaker
from onbe.drivers.sponsors.development import DevelopmentDirectory
from onbe.drivers.sponsors.fetching import client_for
from onbe.drivers.sponsors.keycloak import KeycloakDirectory, Service
from onbe.drivers.sponsors.protocol import SponsorDirectory
from onbe.drivers.sponsors.scim import ScimDirectory
from onbe.records import jobs as records
from onbe.settings import OnbeSettings
from onbe.tasks import jobs as task_jobs

PATIENCE_SECONDS = 2.0
"""How long a request waits for a connection to the database before it hears that there is none now."""


@asynccontextmanager
async def connect(
    settings: OnbeSettings,
    data: Path,
    url: str,
    *,
    signing: Signing | None = None,
    keys: PublishedKeys | None = None,
    sponsors: SponsorDirectory | None = None,
) -> AsyncIterator[Deps]:
    """Everything a program of Onbe needs, for the length of the block.

    `url` is the database's, under the runtime role and in Onbe's schema. The drivers are those of the settings, unless
    others are given. Raises KeyTrouble where there is no key to sign with.
    """
    clock, ids = SystemClock(), SystemIds()
    signing = signing or LocalSigning(settings, data, clock)
    own = own_issuer(settings, clock, ids)
    async with AsyncExitStack() as held:
        if keys is None:
            keys = await held.enter_async_context(HttpKeys(settings, clock))
        if sponsors is None:
            asks = not any(settings.missing())
            sponsors = await held.enter_async_context(people(settings, clock, own)) if asks else NoDirectory()
        yield Deps(
            clock=clock,
            ids=ids,
            db=await held.enter_async_context(Database(url, patience=PATIENCE_SECONDS)),
            signing=signing,
            keys=with_own_keys(keys, own),
            sponsors=sponsors,
            settings=settings,
            data=data,
            development=own,
            sink=await held.enter_async_context(sink_of(settings)),
        )


def signing_kid(settings: OnbeSettings, data: Path) -> str | None:
    """The key that signs here; None where a start for development would make it. Raises KeyTrouble."""
    if settings.development.enabled and not given_keys(settings) and not KeyFolder(data / "keys").held().keys:
        return None
    return LocalSigning(settings, data, SystemClock()).active


async def keys_of_issuer(settings: OnbeSettings, issuer: str) -> int:
    """How many keys an identity provider publishes, asked now. Raises KeysUnavailable."""
    async with HttpKeys(settings, SystemClock()) as keys:
        return len(await keys.of_issuer(issuer, None))


def no_signing() -> Signing:
    """For a program that issues nothing, and so needs no key."""
    return NoSigning()


def ticks(deps: Deps) -> list[Tick[Deps]]:
    """The background work: each by name, every so many seconds. Any number of replicas may do it at once."""
    every = deps.settings.ledger.seal_every.total_seconds()
    return [
        Tick("records.seal", every, records.seal),
        Tick("records.months", 3600, records.months),
        Tick("records.deliver", 1, records.deliver),
        Tick("tasks", 5, task_jobs.tick),
        Tick("credentials", 60, credential_jobs.tick),
        Tick("denials", 30, denial_jobs.tick),
    ]


async def work(deps: Deps) -> None:
    """Do background work until cancelled: what fails is logged, and tried again at its next time."""
    await tick_on(ticks(deps), deps, lambda name, outcome: meters.TICKS.labels(name, outcome).inc())


@asynccontextmanager
async def sink_of(settings: OnbeSettings) -> AsyncIterator[Sink | None]:
    """Who else keeps the records; None where the settings name nobody."""
    url = settings.ledger.sink
    if url is None:
        yield None
        return
    async with client_for(url, SINK_SECONDS) as client:
        yield HttpSink(url, settings.ledger.sink_token, client)


def own_issuer(settings: OnbeSettings, clock: Clock, ids: Ids) -> DevelopmentIssuer | None:
    """The issuer to try Onbe with; None where another one is trusted."""
    return OwnIssuer(f"{settings.issuer}/development", clock, ids) if settings.develops else None


def with_own_keys(keys: PublishedKeys, own: DevelopmentIssuer | None) -> PublishedKeys:
    """The keys of others, and those of the development issuer where there is one."""
    return keys if own is None else WithOwnIssuer(keys, own)


@asynccontextmanager
async def people(
    settings: OnbeSettings, clock: Clock, own: DevelopmentIssuer | None
) -> AsyncIterator[SponsorDirectory]:
    """The directory of people that the settings name, or the development issuer's own.

    Raises SettingsError where there is none: no server starts that could not ask about people.
    """
    if lacking := tuple(settings.missing()):
        raise SettingsError(lacking)
    check = settings.sponsor_check
    if check.provider is None:
        assert own is not None  # or it would be missing
        yield DevelopmentDirectory(own, clock)
        return
    seconds, url = check.timeout.total_seconds(), check.url or ""
    async with client_for(url, seconds) as client:
        directory: SponsorDirectory
        if check.provider == "keycloak":
            service = Service(check.realm or "", check.client_id or "", check.client_secret or "")
            directory = KeycloakDirectory(url, service, clock, client, seconds)
        else:
            directory = ScimDirectory(url, check.token or "", check.lookup, clock, client, seconds)
        cached = CachedDirectory(CircuitBreaker(directory, clock), clock)
        try:
            yield cached
        finally:
            await cached.close()
