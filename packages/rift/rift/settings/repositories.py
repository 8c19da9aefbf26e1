"""Settings of repositories: how their origins are read, GitHub, environments, and the keys that seal secrets."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, Field

from keel.settings import Bytes, Duration, Section, Words
from keel.sizes import GIB, MIB
from keel.spellings import BaseUrl, HostPatterns, PrivateKey, SigningKeys, Urls, Word
from keel.vault_folder import read_key

NO_TIME = timedelta(0)


class RepoSettings(Section):
    poll_every: Duration = Field(
        default=timedelta(seconds=10),
        ge=timedelta(seconds=1),
        description="How often the heads of watched repositories are looked at.",
    )


class GitHubSettings(Section):
    url: BaseUrl = Field(
        default="https://github.com", description="Where GitHub is; the base address of a GitHub Enterprise Server."
    )
    app_id: int | None = Field(
        default=None, ge=1, description="The App's id; without it, the App that `rift github app-manifest` made."
    )
    app_slug: Word | None = Field(default=None, description="The App's name in addresses.")
    client_id: Word | None = Field(default=None, description="The App's client id.")
    client_secret: Word | None = Field(default=None, repr=False, description="The App's client secret.")
    private_key: PrivateKey | None = Field(
        default=None, repr=False, description="The App's private key, in PEM, line breaks as \\n."
    )
    webhook_secret: str | None = Field(
        default=None, min_length=1, repr=False, description="The secret that GitHub signs webhooks with."
    )
    poll_every: Duration = Field(
        default=timedelta(minutes=1),
        ge=timedelta(seconds=1),
        description="How often watched repositories of GitHub's are looked at, beside what webhooks tell.",
    )
    cover_every: Duration = Field(
        default=timedelta(minutes=15),
        ge=timedelta(seconds=1),
        description="How often the repositories that the App covers are listed, beside what webhooks tell.",
    )

    @property
    def api(self) -> str:
        """Where the API is, without a slash at its end."""
        return "https://api.github.com" if self.url == "https://github.com" else f"{self.url}/api/v3"


class EnvironmentSettings(Section):
    build_for: Duration = Field(
        default=timedelta(hours=2), gt=NO_TIME, description="How long one environment may be built."
    )
    setup_for: Duration = Field(
        default=timedelta(minutes=30), gt=NO_TIME, description="How long a repository's setup may run in a box."
    )
    at_once: int = Field(default=2, ge=1, description="The most environments that are built at once on this host.")
    substituters: Urls = Field(
        default=("https://cache.nixos.org",), description="The caches that Nix asks before it builds; none is allowed."
    )
    public_keys: SigningKeys = Field(
        default=("cache.nixos.org-1:6NCHdD59X431o0gWypbMrAURkbJ16ZPMQFGspcDShjY=",),
        description="The keys that those caches sign with.",
    )
    hosts: HostPatterns = Field(
        default=(),
        description="More hosts that builds may reach, `*.` for names below; `*` alone: the whole public internet.",
    )
    memory: Bytes = Field(
        default=8 * GIB, ge=256 * MIB, description="How much memory the build of one environment may have, in bytes."
    )
    processes: int = Field(default=2048, ge=64, description="How many processes, threads included, one build may have.")
    disk: Bytes = Field(
        default=50 * GIB, ge=GIB, description="How much all that was built for one repository may take, in bytes."
    )


def _vault_keys(value: tuple[str, ...]) -> tuple[str, ...]:
    if any(read_key(key) is None for key in value):
        raise ValueError("keys of 32 random bytes in base64 (`openssl rand -base64 32`), newest last")
    return value


class VaultSettings(Section):
    keys: Annotated[Words, AfterValidator(_vault_keys)] = Field(
        default=(), repr=False,
        description="The keys that seal secrets, each 32 random bytes in base64, newest last; without any, those in "
        "the data folder's `vault/`. For several machines.",
    )  # fmt: skip
