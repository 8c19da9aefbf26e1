"""What the running system is made of, in one frozen value that `app.py` makes and every action takes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from keel.clock import Clock
from keel.db import Database
from keel.ids import Ids
from onbe.drivers.development.protocol import DevelopmentIssuer
from onbe.drivers.keys.protocol import PublishedKeys
from onbe.drivers.signing.protocol import Signing
from onbe.drivers.sink.protocol import Sink
from onbe.drivers.sponsors.protocol import SponsorDirectory
from onbe.settings import OnbeSettings


@dataclass(frozen=True, slots=True)
class Deps:
    """Time, chance, the database, the drivers, the settings."""

    clock: Clock
    ids: Ids
    db: Database
    signing: Signing
    keys: PublishedKeys
    sponsors: SponsorDirectory
    settings: OnbeSettings
    data: Path
    """The data folder: signing keys, the ledger's keys."""
    development: DevelopmentIssuer | None = None
    """The issuer to try Onbe with; None outside development."""
    sink: Sink | None = None
    """Who else keeps the records; None where nobody does."""
