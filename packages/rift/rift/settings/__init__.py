"""Rift's settings. `rift settings` prints them; `keel.settings` says how they are spelled and read."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field

from keel import hosts
from keel.settings import Bytes, Duration, Section, Settings, Words
from keel.sizes import GIB, MIB
from keel.spellings import (
    BaseUrl,
    Collector,
    DatabaseUrl,
    HostName,
    Issuer,
    MailAddress,
    MailDomains,
    Networks,
    Paths,
    Secret,
)
from rift.names import LIMITS
from rift.settings.repositories import EnvironmentSettings, GitHubSettings, RepoSettings, VaultSettings

__all__ = [
    "AuditSettings",
    "BoxSettings",
    "CommandSettings",
    "DatabaseSettings",
    "EnvironmentSettings",
    "GitHubSettings",
    "LogSettings",
    "MailSettings",
    "OnbeSettings",
    "RepoSettings",
    "RiftSettings",
    "ServerSettings",
    "SignInSettings",
    "TaskSettings",
    "TelemetrySettings",
    "TokenSettings",
    "VaultSettings",
]

NO_TIME = timedelta(0)
is_loopback = hosts.is_loopback


class ServerSettings(Section):
    port: int = Field(default=7433, ge=1, le=65535, description="The port that the server listens on.")
    host: str = Field(default="127.0.0.1", min_length=1, description="The address that the server listens on.")
    public_url: BaseUrl | None = Field(
        default=None, description="The address that people and agents use, where it is not http://HOST:PORT."
    )
    hosts: Words = Field(
        default=(),
        description="More names for the server in a request's Host header, beside the public address and loopback.",
    )
    connections: int = Field(
        default=4096, ge=16, description="The most connections open at once, as far as the limit of open files allows."
    )
    calls_per_token: int = Field(
        default=2500, ge=1, description="The most calls of one token that are being answered at once."
    )
    trusted_proxies: Networks = Field(
        default=(), description="Networks whose X-Forwarded-For is believed, such as 10.0.0.0/8."
    )

    @property
    def address(self) -> str:
        """The address that people and agents use, without a slash at its end."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.public_url or f"http://{host}:{self.port}"


class MailSettings(Section):
    host: HostName | None = Field(
        default=None,
        description="The SMTP server; without one, letters wait on the admin's Mailbox page.",
    )
    port: int = Field(default=587, ge=1, le=65535, description="The SMTP server's port.")
    security: Literal["starttls", "tls", "none"] = Field(
        default="starttls", description="How the way to it is kept: `starttls`, `tls` from the first byte, or `none`."
    )
    user: str | None = Field(default=None, min_length=1, description="The name to sign in with there; none without.")
    password: str | None = Field(default=None, repr=False, min_length=1, description="The password that goes with it.")
    sender: MailAddress = Field(default="rift@localhost.localdomain", description="The address that letters come from.")
    keep_letters: Duration = Field(
        default=timedelta(days=14), ge=timedelta(days=3),
        description="How long a letter is kept after it was written, sent or not; its text never is.",
    )  # fmt: skip


class SignInSettings(Section):
    link_for: Duration = Field(
        default=timedelta(minutes=15), gt=NO_TIME, description="How long a one-time sign-in link is good."
    )
    invitation_for: Duration = Field(
        default=timedelta(days=14),
        gt=NO_TIME,
        description="How long an invitation is open, and the link in its letter.",
    )
    session_for: Duration = Field(
        default=timedelta(days=30), gt=NO_TIME, description="How long a browser stays signed in at most."
    )
    session_quiet: Duration = Field(
        default=timedelta(days=7), gt=NO_TIME, description="How long a browser that is not used stays signed in."
    )
    oidc_issuer: Issuer | None = Field(
        default=None, description="The OpenID provider for single sign-on, as https://id.example.com/realms/main."
    )
    oidc_client: str | None = Field(default=None, min_length=1, description="Rift's client id at that provider.")
    oidc_secret: str | None = Field(
        default=None, min_length=1, repr=False, description="Rift's client secret at that provider."
    )
    oidc_name: str = Field(default="single sign-on", min_length=1, description="What its button on the page says.")
    oidc_domains: MailDomains = Field(
        default=(),
        description="Mail domains whose people, signed in there, get an account by that; without any, the invited do.",
    )


class TokenSettings(Section):
    access_for: Duration = Field(
        default=timedelta(hours=1), gt=NO_TIME, description="How long an access token of a client is good."
    )
    refresh_for: Duration = Field(
        default=timedelta(days=30), gt=NO_TIME, description="How long a client that is not used stays signed in."
    )
    reach_networks: Networks = Field(
        default=(), description="Private networks from which the documents of MCP clients are fetched too."
    )


class DatabaseSettings(Section):
    url: DatabaseUrl | None = Field(
        default=None, repr=False, description="The Postgres database; without it, the embedded one in the data folder."
    )
    owner_url: DatabaseUrl | None = Field(
        default=None, repr=False,
        description="The same database under the role that owns it, for migrations alone; without it, Url's own role.",
    )  # fmt: skip


class TaskSettings(Section):
    quiet_lease: Duration = Field(
        default=timedelta(minutes=30), gt=NO_TIME, description="How long a quiet task stays with its holder."
    )
    quiet_close: Duration = Field(
        default=timedelta(hours=4),
        gt=NO_TIME,
        description="How long a task may be quiet before it is closed and its boxes destroyed.",
    )
    per_person: int = Field(default=100, ge=1, description="The most open tasks of one person.")


def _limit(name: str, default: int, what: str) -> Any:
    least, most = LIMITS[name]
    return Field(default=default, ge=least, le=most, description=f"{what}; `rift repo limits` sets a repository's own.")


class BoxSettings(Section):
    park_after: Duration = Field(
        default=timedelta(minutes=30), gt=NO_TIME, description="How long a box may be unused before it is parked."
    )
    show_read_only: Paths = Field(
        default=(), description="Folders of the host outside /usr and /opt that every box sees, read-only."
    )
    reach_networks: Networks = Field(
        default=(),
        description="Private networks that boxes may reach, such as 10.1.0.0/16; by a proxy, their listed hosts alone.",
    )
    uid_base: int = Field(
        default=700000, ge=100000, le=2_000_000_000,
        description="Started as root, each box runs under a user id of its own, counted from here.",
    )  # fmt: skip
    per_person: int = Field(default=32, ge=1, description="The most boxes in the tasks of one person, parked ones too.")
    per_organization: int = Field(
        default=128, ge=1, description="The most boxes of one organization's repositories, warm ones too."
    )
    most: int | None = Field(
        default=None,
        ge=1,
        description="The most boxes of this host; without it, one for each 256 MiB of its memory, and at least 8.",
    )
    disk_reserve: Bytes = Field(
        default=2 * GIB,
        ge=0,
        description="No box is made while less than this is free on the disk of the data folder; warm ones keep twice.",
    )
    memory_reserve: Bytes = Field(
        default=512 * MIB,
        ge=0,
        description="No box is made while the host has less memory than this available; warm ones keep twice.",
    )
    memory: Bytes = _limit("memory", 4 * GIB, "How much memory all that runs in one box may have, in bytes")
    processes: int = _limit("processes", 1024, "How many processes, threads included, one box may have")
    disk: Bytes = _limit("disk", 20 * GIB, "How much one box may write, in bytes")
    cpu_shares: int = _limit("cpu_shares", 1024, "A box's share of the CPU where boxes compete for it")
    open_files: int = _limit("open_files", 65_536, "How many files one process of a box may have open")


class CommandSettings(Section):
    spool_limit: Bytes = Field(
        default=256 * MIB,
        ge=MIB,
        description="How much output of one command is kept in its box, in bytes; the oldest goes first.",
    )


class AuditSettings(Section):
    keep_texts: Duration = Field(
        default=timedelta(days=90),
        gt=NO_TIME,
        description="How long the text of a command is kept beside its record; the record stays, with the text's hash.",
    )


class OnbeSettings(Section):
    enabled: bool = Field(
        default=True, description="Whether `rift up` starts Onbe too, where it is installed; `--without-onbe` says no."
    )


class LogSettings(Section):
    format: Literal["auto", "console", "json"] = Field(
        default="auto",
        description="How log lines look: `console`, `json`, or `auto`, which is JSON but on a terminal.",
    )
    level: Literal["debug", "info", "warning", "error"] = Field(
        default="warning", description="From which level on lines are written; `rift -v` means info."
    )


class TelemetrySettings(Section):
    otlp_endpoint: Collector | None = Field(
        default=None,
        description="Where traces go: an OpenTelemetry collector, as http://127.0.0.1:4318 (OTLP over HTTP).",
    )
    metrics_token: Secret | None = Field(
        default=None, repr=False,
        description="The bearer token with which /metrics may be read from anywhere; without it, from this machine.",
    )  # fmt: skip
    worker_port: int | None = Field(
        default=None, ge=1, le=65535,
        description="The port of loopback on which `rift worker` answers /metrics, /healthz and /readyz; none without.",
    )  # fmt: skip


class RiftSettings(Settings):
    """All of Rift's settings. `RiftSettings()` is the defaults; `keel.settings.load` reads them."""

    product: ClassVar[str] = "Rift"

    server: ServerSettings = ServerSettings()
    database: DatabaseSettings = DatabaseSettings()
    tasks: TaskSettings = TaskSettings()
    boxes: BoxSettings = BoxSettings()
    commands: CommandSettings = CommandSettings()
    repos: RepoSettings = RepoSettings()
    github: GitHubSettings = GitHubSettings()
    environments: EnvironmentSettings = EnvironmentSettings()
    mail: MailSettings = MailSettings()
    sign_in: SignInSettings = SignInSettings()
    tokens: TokenSettings = TokenSettings()
    audit: AuditSettings = AuditSettings()
    vault: VaultSettings = VaultSettings()
    onbe: OnbeSettings = OnbeSettings()
    log: LogSettings = LogSettings()
    telemetry: TelemetrySettings = TelemetrySettings()

    def contradictions(self) -> Iterator[str]:
        if self.database.owner_url and not self.database.url:
            yield "Rift:Database:OwnerUrl goes with Rift:Database:Url: the embedded database has its own roles"
        if self.tasks.quiet_lease > self.tasks.quiet_close:
            yield "Rift:Tasks:QuietLease should be at most Rift:Tasks:QuietClose: a closed task has no holder"
        if self.boxes.park_after > self.tasks.quiet_close:
            yield "Rift:Boxes:ParkAfter should be at most Rift:Tasks:QuietClose: a closed task has no boxes to park"
        if self.sign_in.oidc_issuer and not self.sign_in.oidc_client:
            yield "Rift:SignIn:OidcIssuer needs Rift:SignIn:OidcClient: the id that Rift is known by there"
        issuer = urlsplit(self.sign_in.oidc_issuer or "")
        if issuer.scheme == "http" and not is_loopback(issuer.hostname or ""):
            yield "Rift:SignIn:OidcIssuer should be https, unless it is this machine"
        app = self.github
        parts = (app.app_id, app.app_slug, app.client_id, app.client_secret, app.private_key)
        if any(parts) and not all(parts):
            yield "Rift:Github:AppId, AppSlug, ClientId, ClientSecret and PrivateKey are set together or not at all"
        if self.mail.password and not self.mail.user:
            yield "Rift:Mail:Password goes with Rift:Mail:User"
        if self.mail.user and self.mail.security == "none":
            yield "Rift:Mail:User needs Rift:Mail:Security starttls or tls: a password goes over no unprotected way"
