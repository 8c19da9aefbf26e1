"""Onbe's settings. `onbe settings` prints them; `keel.settings` says how they are spelled and read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field
from pydantic.alias_generators import to_pascal

from keel import hosts
from keel.ids import digest
from keel.settings import Duration, Section, Settings, Words
from keel.spellings import Collector, DatabaseUrl, Issuer, Networks, Secret, Url
from onbe.names import ADMIN_KEY_LENGTH, PORT

NO_TIME = timedelta(0)
is_loopback = hosts.is_loopback


_ADMIN_KEY = re.compile(rf"[!-~]{{{ADMIN_KEY_LENGTH},200}}")
_HASHED = re.compile("sha256:[0-9a-f]{64}")


def _admin_keys(value: tuple[str, ...]) -> tuple[str, ...]:
    """The keys' digests: the keys themselves are not kept."""
    if not all(_HASHED.fullmatch(key) or (_ADMIN_KEY.fullmatch(key) and "," not in key) for key in value):
        raise ValueError(f"keys of at least {ADMIN_KEY_LENGTH} printable characters, drawn by chance, no comma in them")
    if len(value) > 2:
        raise ValueError("one key, or two while one replaces the other")
    return tuple(key if _HASHED.fullmatch(key) else f"sha256:{digest(key).hex()}" for key in value)


def _bearer(value: str) -> str:
    if not re.fullmatch(r"[!-~]+", value):
        raise ValueError("a bearer token: printable characters without spaces")
    return value


class ServerSettings(Section):
    port: int = Field(default=PORT, ge=1, le=65535, description="The port that the server listens on.")
    host: str = Field(default="127.0.0.1", min_length=1, description="The address that the server listens on.")
    public_url: Url | None = Field(
        default=None, description="The issuer: the address that agents use, where it is not http://HOST:PORT."
    )
    connections: int = Field(
        default=4096, ge=16, description="The most connections open at once, as far as the limit of open files allows."
    )
    trusted_proxies: Networks = Field(default=(), description="Networks of proxies whose X-Forwarded-For is believed.")


class DevelopmentSettings(Section):
    enabled: bool = Field(
        default=False,
        description="A start to try Onbe with: makes its own keys, and an issuer with one person. Loopback alone.",
    )


class DatabaseSettings(Section):
    url: DatabaseUrl | None = Field(
        default=None, repr=False, description="The Postgres database; without it, the embedded one in the data folder."
    )
    owner_url: DatabaseUrl | None = Field(
        default=None, repr=False,
        description="The same database under the role that owns it, for migrations alone; without it, Url's own role.",
    )  # fmt: skip


class KeySettings(Section):
    files: Words = Field(
        default=(), description="PEM files of the ES256 keys that sign tokens; without them, those in the data folder."
    )
    pem: str | None = Field(default=None, repr=False, description="The keys themselves, as PEM, instead of files.")
    active: str | None = Field(default=None, description="The key id that signs, where there are several keys.")


class TokenSettings(Section):
    default_task_ttl: Duration = Field(
        default=timedelta(minutes=30), gt=NO_TIME, description="How long a task lives, where its agent names nothing."
    )
    default_token_ttl: Duration = Field(
        default=timedelta(minutes=5), gt=NO_TIME, description="How long a token lives, where its agent names nothing."
    )


class AgentSettings(Section):
    min_task_ttl: Duration = Field(
        default=timedelta(minutes=1), gt=NO_TIME, description="The shortest max_task_ttl that a registration may have."
    )
    max_task_ttl: Duration = Field(
        default=timedelta(days=1), gt=NO_TIME, description="The longest max_task_ttl that a registration may have."
    )
    min_token_ttl: Duration = Field(
        default=timedelta(seconds=30), gt=NO_TIME,
        description="The shortest max_token_ttl that a registration may have.",
    )  # fmt: skip
    max_token_ttl: Duration = Field(
        default=timedelta(hours=1), gt=NO_TIME, description="The longest max_token_ttl that a registration may have."
    )
    key_networks: Networks = Field(
        default=(), description="Private networks where an agent's jwks_uri may be all the same."
    )


class TaskSettings(Section):
    keep_ended: Duration = Field(
        default=timedelta(days=30), ge=timedelta(hours=1),
        description="How long a task that ended stays stored; an agent with stored tasks cannot be deleted.",
    )  # fmt: skip


class SubjectSettings(Section):
    issuer: Issuer | None = Field(default=None, description="The identity provider whose tokens say who a person is.")
    jwks_uri: Url | None = Field(
        default=None, description="Where its keys are; without it, as its OpenID discovery document says."
    )
    audiences: Words = Field(default=(), description="The audiences of which a subject token must have one.")
    types: Words = Field(default=(), description="The `typ` values that a subject token may have; any without.")
    claim: str = Field(default="sub", min_length=1, description="The claim that names the person in the directory.")


class SponsorCheckSettings(Section):
    provider: Literal["keycloak", "scim"] | None = Field(
        default=None, description="How it is asked whether a person is still active; needed outside development."
    )
    url: Url | None = Field(default=None, description="Keycloak's address, or the base of the SCIM service.")
    realm: str | None = Field(default=None, description="Keycloak's realm.")
    client_id: str | None = Field(default=None, description="The client that may read Keycloak's users.")
    client_secret: str | None = Field(default=None, repr=False, description="That client's secret.")
    token: Annotated[str, AfterValidator(_bearer)] | None = Field(
        default=None, repr=False, description="The bearer token for the SCIM service."
    )
    lookup: Literal["id", "externalId", "userName"] = Field(
        default="id", description="Which SCIM attribute of a person the subject token's claim is."
    )
    timeout: Duration = Field(default=timedelta(seconds=3), gt=NO_TIME, description="How long an answer is waited for.")


class AdminSettings(Section):
    keys: Annotated[Words, AfterValidator(_admin_keys)] = Field(
        default=(), repr=False,
        description="The bearer key of the admin API, or `sha256:` and its SHA-256; two while one replaces the other.",
    )  # fmt: skip

    @property
    def digests(self) -> tuple[bytes, ...]:
        """The SHA-256 of each key, which is all that is kept of it."""
        return tuple(bytes.fromhex(key.removeprefix("sha256:")) for key in self.keys)


class LedgerSettings(Section):
    seal_every: Duration = Field(
        default=timedelta(minutes=1), gt=NO_TIME, description="How often what was recorded is sealed."
    )
    sink: Url | None = Field(
        default=None, description="An address that every sealed record is handed on to, as JSON lines by POST."
    )
    sink_token: Annotated[str, AfterValidator(_bearer)] | None = Field(
        default=None, repr=False, description="The bearer token for it."
    )


class LimitSettings(Section):
    per_source: int = Field(
        default=1200, ge=1,
        description="The most requests a minute from one address; one that asks directly from this machine is free.",
    )  # fmt: skip
    at_once: int = Field(
        default=128, ge=4,
        description="The most exchanges and refreshes that are worked on at once; other work has a share of it.",
    )  # fmt: skip
    waiting: int = Field(default=256, ge=1, description="The most requests of one kind that wait; more are sent away.")
    patience: Duration = Field(
        default=timedelta(milliseconds=800), gt=NO_TIME, description="How long one waits before it is sent away too."
    )


class LogSettings(Section):
    format: Literal["auto", "console", "json"] = Field(
        default="auto",
        description="How log lines look: `console`, `json`, or `auto`, which is JSON but on a terminal.",
    )
    level: Literal["debug", "info", "warning", "error"] = Field(
        default="warning", description="From which level on lines are written; `onbe -v` means info."
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


class OnbeSettings(Settings):
    """All of Onbe's settings. `OnbeSettings()` is the defaults; `keel.settings.load` reads them."""

    product: ClassVar[str] = "Onbe"

    server: ServerSettings = ServerSettings()
    development: DevelopmentSettings = DevelopmentSettings()
    database: DatabaseSettings = DatabaseSettings()
    keys: KeySettings = KeySettings()
    tokens: TokenSettings = TokenSettings()
    agents: AgentSettings = AgentSettings()
    tasks: TaskSettings = TaskSettings()
    subjects: SubjectSettings = SubjectSettings()
    sponsor_check: SponsorCheckSettings = SponsorCheckSettings()
    admin: AdminSettings = AdminSettings()
    ledger: LedgerSettings = LedgerSettings()
    limits: LimitSettings = LimitSettings()
    log: LogSettings = LogSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    allow_insecure_http: bool = Field(
        default=False, description="Let addresses of others be http:// also where they are not this machine's."
    )

    @property
    def issuer(self) -> str:
        """Onbe's own name in tokens: the address that agents use, without a slash at its end."""
        host = f"[{self.server.host}]" if ":" in self.server.host else self.server.host
        return self.server.public_url or f"http://{host}:{self.server.port}"

    @property
    def develops(self) -> bool:
        """Whether the development issuer is the one that is trusted: it is on, and no other is named."""
        return self.development.enabled and self.subjects.issuer is None

    @property
    def subject_issuer(self) -> str | None:
        """Who says who a person is: `iss` of the subject tokens that are taken. None: none are."""
        return f"{self.issuer}/development" if self.develops else self.subjects.issuer

    @property
    def subject_audiences(self) -> tuple[str, ...]:
        """Of these a subject token's `aud` must have one."""
        return self.subjects.audiences or ((self.issuer,) if self.develops else ())

    def missing(self) -> Iterator[str]:
        """Sentences for what a server cannot start without, and other commands can."""
        if self.sponsor_check.provider is None and not self.develops:
            yield "Onbe:SponsorCheck:Provider should be keycloak or scim: no task begins without asking for its person"
        if self.subject_issuer is None:
            yield "Onbe:Subjects:Issuer should be the identity provider whose tokens say who a person is"
        elif not self.subject_audiences:
            yield "Onbe:Subjects:Audiences should name who the tokens are for: without it, any application's would do"

    def contradictions(self) -> Iterator[str]:
        agents, tokens = self.agents, self.tokens
        if self.database.owner_url and not self.database.url:
            yield "Onbe:Database:OwnerUrl goes with Onbe:Database:Url: the embedded database has its own roles"
        for what in ("task", "token"):
            least, most = getattr(agents, f"min_{what}_ttl"), getattr(agents, f"max_{what}_ttl")
            default, name = getattr(tokens, f"default_{what}_ttl"), what.capitalize()
            if least > most:
                yield f"Onbe:Agents:Min{name}Ttl should be at most Onbe:Agents:Max{name}Ttl"
            elif not least <= default <= most:
                yield f"Onbe:Tokens:Default{name}Ttl should be from Onbe:Agents:Min{name}Ttl to Max{name}Ttl"
        if self.server.public_url and urlsplit(self.server.public_url).path:
            yield "Onbe:Server:PublicUrl should have no path: what describes Onbe stands at /.well-known of its host"
        if self.ledger.sink_token and not self.ledger.sink:
            yield "Onbe:Ledger:SinkToken goes with Onbe:Ledger:Sink"
        if not self.allow_insecure_http:
            for name, value in (
                ("Server:PublicUrl", self.server.public_url),
                ("Subjects:Issuer", self.subjects.issuer),
                ("Subjects:JwksUri", self.subjects.jwks_uri),
                ("SponsorCheck:Url", self.sponsor_check.url),
                ("Ledger:Sink", self.ledger.sink),
            ):
                if value and urlsplit(value).scheme == "http" and not is_loopback(urlsplit(value).hostname or ""):
                    yield f"Onbe:{name} should be https, unless Onbe:AllowInsecureHttp is true"
        yield from _of_people(self)
        if self.development.enabled and not all(
            is_loopback(host) for host in (urlsplit(self.issuer).hostname or "", self.server.host)
        ):
            yield "Onbe:Development:Enabled is for this machine alone, and Onbe:Server:PublicUrl or Host is another's"


def _of_people(settings: OnbeSettings) -> Iterator[str]:
    """What does not go together about the identity provider and its directory."""
    check = settings.sponsor_check
    needs = {"keycloak": ("url", "realm", "client_id", "client_secret"), "scim": ("url", "token"), None: ()}
    for name in needs[check.provider]:
        if not getattr(check, name):
            yield f"Onbe:SponsorCheck:{to_pascal(name)} is needed where Onbe:SponsorCheck:Provider is {check.provider}"
    if (settings.subjects.issuer or "").rstrip("/") == settings.issuer:
        yield "Onbe:Subjects:Issuer should be the identity provider, and is Onbe itself"
    if settings.subjects.issuer and not settings.subjects.audiences:
        yield "Onbe:Subjects:Audiences is needed with Onbe:Subjects:Issuer: a token made for others is none for Onbe"
