"""What the running system is made of, in one frozen value that `app.py` makes and every action takes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from keel.clock import Clock
from keel.db import Database
from keel.ids import Ids
from keel.signals import Signals
from keel.vault import Vault
from rift.drivers.boxes.protocol import BoxDriver
from rift.drivers.carrier.protocol import Carrier
from rift.drivers.documents.protocol import Documents
from rift.drivers.forge.protocol import Forge
from rift.drivers.github.protocol import GitHub
from rift.drivers.nix.protocol import Builder
from rift.drivers.post.protocol import Post
from rift.drivers.signon.protocol import SignOn
from rift.settings import RiftSettings


@dataclass(frozen=True, slots=True)
class Deps:
    """Time, chance, the database, what wakes waiters, the drivers, the settings."""

    clock: Clock
    ids: Ids
    db: Database
    signals: Signals
    boxes: BoxDriver
    forge: Forge
    builder: Builder
    carrier: Carrier
    documents: Documents
    vault: Vault
    """What seals secrets before they are written to the database."""
    github: GitHub
    settings: RiftSettings
    data: Path
    """The data folder: mirrors, boxes and what else is not in the database."""
    agent_url: str
    """Where a box's agent reaches this control plane."""
    post: Post | None = None
    """What sends letters; None where no SMTP server is set: they wait on the Mailbox page."""
    signon: SignOn | None = None
    """Signing in elsewhere; None where no OpenID provider is set."""
