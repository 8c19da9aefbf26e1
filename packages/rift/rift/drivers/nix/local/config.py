"""How environments are built on this host."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from keel.sizes import GIB, MIB
from rift.drivers.boxes.allow import DEFAULT_ALLOW
from rift.drivers.boxes.local import LocalConfig

#: Where flakes and what they fetch come from, beside what boxes may reach.
NIX_HOSTS = ("*.nixos.org", "*.cachix.org", "api.flakehub.com", "flakehub.com", "install.determinate.systems")


@dataclass(frozen=True, slots=True)
class NixConfig:
    """`boxes` is how boxes are made here: builds use the same programs, and uids of the same range.

    All of it stands in `<data>/nix`, a folder a repository. `memory`, `disk` are bytes, of one build and of all that
    was built for a repository; `log_most` bytes of one build's log.
    """

    boxes: LocalConfig
    build_seconds: float = 7200.0
    at_once: int = 2
    substituters: tuple[str, ...] = ()
    public_keys: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    memory: int = 8 * GIB
    processes: int = 2048
    disk: int = 50 * GIB
    log_most: int = 64 * MIB
    places: str = "/usr/local/bin:/usr/bin:/bin"
    """Where Nix is looked for."""

    @property
    def folder(self) -> Path:
        return self.boxes.data / "nix"

    @property
    def allow(self) -> tuple[str, ...]:
        """The hosts that a build may reach."""
        caches = (urlsplit(url).hostname or "" for url in self.substituters)
        return tuple(dict.fromkeys((*DEFAULT_ALLOW, *NIX_HOSTS, *filter(None, caches), *self.hosts)))
