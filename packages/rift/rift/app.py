"""The composition: everything concrete is chosen here, and nowhere else.

`connect` opens what every program needs, `work` is the background side; `serving.py` is the HTTP side.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import structlog

from keel import ledger
from keel.clock import Clock, SystemClock
from keel.db import Database
from keel.ending import end, on_signals
from keel.ids import SystemIds
from keel.jobs import Jobs
from keel.signals import Signals
from keel.vault import GivenKeys, Ring, Vault, VaultTrouble, keys_of
from keel.vault_folder import FolderKeys, read_key
from keel.vault_rows import Rows
from rift import meters, sealed
from rift.boxes import jobs as boxes
from rift.commands import jobs as commands
from rift.connections import jobs as connections
from rift.coverage import jobs as coverage
from rift.deps import Deps
from rift.drivers.boxes.local import LocalBoxes, LocalConfig
from rift.drivers.boxes.observed import ObservedBoxes
from rift.drivers.boxes.protocol import BoxDriver
from rift.drivers.boxes.remote import RemoteBoxes
from rift.drivers.carrier.http import HttpCarrier
from rift.drivers.documents.http import HttpDocuments
from rift.drivers.documents.protocol import Documents
from rift.drivers.forge.local import LocalForge
from rift.drivers.forge.local.reader import Reader
from rift.drivers.forge.protocol import Forge
from rift.drivers.forge.remote import RemoteForge
from rift.drivers.github.http import HttpGitHub
from rift.drivers.github.protocol import GitHub
from rift.drivers.line import Line
from rift.drivers.nix.local import LocalBuilder, NixConfig
from rift.drivers.nix.protocol import Builder
from rift.drivers.nix.remote import RemoteBuilder
from rift.drivers.post.protocol import Post
from rift.drivers.post.smtp import SmtpConfig, SmtpPost
from rift.drivers.signon.oidc import OidcConfig, OidcSignOn
from rift.drivers.signon.protocol import SignOn
from rift.environments import jobs as environments
from rift.hosts import jobs as hosts
from rift.logins import actions as login_actions
from rift.logins import jobs as logins
from rift.mail import jobs as mail
from rift.origins import jobs as origins
from rift.pools import jobs as pools
from rift.records import jobs as records
from rift.registration import actions as registration
from rift.secrets import actions as secrets
from rift.sessions import jobs as sessions
from rift.settings import RiftSettings
from rift.tasks import jobs as tasks

log = structlog.get_logger()

NOUNS = (
    mail, sessions, connections, logins, origins, coverage, tasks, hosts, environments, boxes, commands, pools, records,
)  # fmt: skip
"""Those that have background work, in the written order."""
JOBS_AT_ONCE = 8
"""How many jobs a worker does at once, beside the builds of environments."""

SEALED: tuple[Rows, ...] = (*registration.SEALED, *login_actions.SEALED, secrets.SEALED)
"""What the nouns have sealed in the database."""


@asynccontextmanager
async def connect(
    settings: RiftSettings,
    data: Path,
    url: str,
    *,
    agent_url: str = "",
    boxes: BoxDriver | None = None,
    forge: Forge | None = None,
    builder: Builder | None = None,
    post: Post | None = None,
    documents: Documents | None = None,
    github: GitHub | None = None,
) -> AsyncIterator[Deps]:
    """Everything a program of Rift needs, for the length of the block.

    `url` is the database's, under the runtime role; `agent_url` is where boxes' agents reach this server.
    """
    clock, ids = SystemClock(), SystemIds()
    async with Database(url) as db, Signals(url) as signals, github_of(settings, clock) as there:
        yield Deps(
            clock=clock,
            ids=ids,
            db=db,
            signals=signals,
            boxes=ObservedBoxes(boxes or local_boxes(settings, data), clock),
            forge=forge or local_forge(settings, data),
            builder=builder or local_builder(settings, data),
            carrier=HttpCarrier(settings.boxes.reach_networks),
            documents=documents or HttpDocuments(settings.tokens.reach_networks),
            vault=Vault(vault_keys(settings, data), ids),
            github=github or there,
            settings=settings,
            data=data,
            agent_url=agent_url,
            post=post or smtp(settings),
            signon=openid(settings, clock),
        )


def local_boxes(settings: RiftSettings, data: Path) -> BoxDriver:
    """The driver that makes boxes on this host; as root, it gives each a user of its own."""
    return LocalBoxes(local_config(settings, data))


def local_forge(settings: RiftSettings, data: Path) -> Forge:
    """The forge that reads repositories by git, as whoever runs this process; as root, a user without rights reads
    what boxes push.
    """
    config = local_config(settings, data)
    return LocalForge(data=data, reader=Reader(config.reader_uid, config.group) if os.geteuid() == 0 else None)


def vault_keys(settings: RiftSettings, data: Path) -> Ring:
    """The keys that seal secrets: those of the settings, or else those in the data folder."""
    given = [key for text in settings.vault.keys if (key := read_key(text)) is not None]
    return GivenKeys(keys_of(given)) if given else FolderKeys(data / "vault")


@asynccontextmanager
async def github_of(settings: RiftSettings, clock: Clock) -> AsyncIterator[GitHub]:
    """GitHub, or the GitHub Enterprise Server that is set. Nothing is connected before something is asked."""
    there = HttpGitHub(settings.github.url, settings.github.api, clock)
    try:
        yield there
    finally:
        await there.close()


def local_builder(settings: RiftSettings, data: Path) -> Builder:
    """What builds environments on this host; as root, under a user of each repository's own."""
    return local_nix(settings, data)


def local_nix(settings: RiftSettings, data: Path) -> LocalBuilder:
    """The same, for who tries a folder out: what is in no mirror is built on this host alone."""
    there = settings.environments
    return LocalBuilder(
        NixConfig(
            boxes=local_config(settings, data),
            build_seconds=there.build_for.total_seconds(),
            at_once=there.at_once,
            substituters=there.substituters,
            public_keys=there.public_keys,
            hosts=there.hosts,
            memory=there.memory,
            processes=there.processes,
            disk=there.disk,
        )
    )


def smtp(settings: RiftSettings) -> Post | None:
    """What sends letters, where a server for that is set."""
    mail = settings.mail
    if mail.host is None:
        return None
    return SmtpPost(SmtpConfig(mail.host, mail.port, mail.security, mail.user, mail.password, mail.sender))


def openid(settings: RiftSettings, clock: Clock) -> SignOn | None:
    """Signing in elsewhere, where an OpenID provider is set."""
    there = settings.sign_in
    if there.oidc_issuer is None or there.oidc_client is None:
        return None
    return OidcSignOn(OidcConfig(there.oidc_issuer, there.oidc_client, there.oidc_secret), clock)


def remote_drivers(line: Line) -> tuple[BoxDriver, Forge, Builder]:
    """The drivers of a server that gave root away: what they do is the keeper's, at the other end of the line."""
    return RemoteBoxes(line), RemoteForge(line), RemoteBuilder(line)


def local_config(settings: RiftSettings, data: Path) -> LocalConfig:
    """How boxes on this host are made."""
    return LocalConfig(
        data=data,
        first_uid=settings.boxes.uid_base,
        show_read_only=tuple(Path(path) for path in settings.boxes.show_read_only),
        reach=settings.boxes.reach_networks,
        spool_limit=settings.commands.spool_limit,
    )


def address(settings: RiftSettings) -> str:
    """The address that people and agents use."""
    return settings.server.address


async def work(deps: Deps) -> None:
    """Do background work until cancelled."""
    worker: Jobs[Deps] = Jobs(deps.db.url, lambda job: meters.job(job, deps.clock))
    for noun in NOUNS:
        noun.register(worker)
    worker.every("ledger.months", 60, months)
    worker.every("vault.reseal", 60, reseal)
    await months(deps)
    await reseal(deps)
    await hosts.report(deps)
    await boxes.look_at_all(deps)
    # A build may take hours: it takes the place of no other job.
    await worker.work(deps, at_once=JOBS_AT_ONCE + deps.settings.environments.at_once)


async def months(deps: Deps) -> None:
    """Have the ledger's partitions of this month and the next."""
    async with deps.db.tx() as tx:
        await ledger.have_months(tx, deps.clock.now())


async def reseal(deps: Deps) -> None:
    """Seal by the newest key what an older one sealed; the first key is there from the first start on."""
    try:
        again = await sealed.reseal(deps, SEALED)
    except VaultTrouble as trouble:
        log.error("vault.not_usable", reason=str(trouble))
        return
    if again.done:
        log.info("vault.sealed_again", secrets=again.done)
    if again.shut:
        log.error(
            "vault.shut", secrets=again.shut, reason="their key is not here, or they were changed: set them again"
        )


async def work_until_signal(deps: Deps, ending: asyncio.Event | None = None) -> None:
    """Do background work until SIGINT or SIGTERM, or until `ending` is set."""
    background = asyncio.create_task(work(deps), name="work")
    stop = ending or asyncio.Event()
    on_signals(stop.set)
    waiting = asyncio.create_task(stop.wait())
    await asyncio.wait([background, waiting], return_when=asyncio.FIRST_COMPLETED)
    await end(background)
