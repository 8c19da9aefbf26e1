"""Keys of this host: from the settings (`Onbe:Keys:Files`, `Onbe:Keys:Pem`), or else the folder `keys` of the data."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import structlog

from keel.clock import Clock
from onbe.drivers.signing.folder import KeyFolder, read_file
from onbe.drivers.signing.ring import KeyTrouble, Ring, SigningKey, read
from onbe.settings import OnbeSettings

LOOK_SECONDS = 1.0
"""How often the folder is looked at: what `onbe keys rotate` made signs within this time, with no restart."""

log = structlog.get_logger("onbe.keys")


class LocalSigning:
    """A `Signing` over PEM files, inline PEM or the key folder. Made by `LocalSigning(settings, data, clock)`.

    Without any key, a start for development makes one, and `made` is its kid; every other raises KeyTrouble.
    """

    def __init__(self, settings: OnbeSettings, data: Path, clock: Clock) -> None:
        self._settings, self._data, self._clock = settings, data, clock
        self._folder = KeyFolder(data / "keys")
        self.made: str | None = None
        self._follows = not given_keys(settings)
        if self._follows and settings.development.enabled and not self._folder.held().keys:
            self.made = self._folder.make(first=True)
        # The number first: what changes while the keys are read is then read once more.
        self._looked, self._version = clock.monotonic(), self._folder.version()
        self._ring = ring_of(settings, data)

    @property
    def active(self) -> str:
        """The kid of the key that signs now."""
        return self._now().active.kid

    def sign(self, claims: Mapping[str, Any]) -> str:
        return self._now().sign(claims)

    def claims(self, token: str) -> Mapping[str, Any] | None:
        return self._now().claims(token)

    def jwks(self) -> Mapping[str, Any]:
        return self._now().jwks()

    def _now(self) -> Ring:
        """The keys as they are: a folder that has changed is read again. One that cannot be read changes nothing."""
        now = self._clock.monotonic()
        if self._follows and now - self._looked >= LOOK_SECONDS:
            self._looked = now
            version = self._folder.version()
            if version != self._version:
                self._version = version
                try:
                    self._ring = ring_of(self._settings, self._data)
                except KeyTrouble as trouble:
                    log.error("keys.unreadable", trouble=str(trouble))
        return self._ring


def ring_of(settings: OnbeSettings, data: Path) -> Ring:
    """The keys as the settings and the folder have them now. Raises KeyTrouble."""
    given = given_keys(settings)
    if given:
        return Ring(settings.issuer, given, settings.keys.active)
    held = KeyFolder(data / "keys").held()
    return Ring(settings.issuer, held.keys, settings.keys.active or held.active)


def given_keys(settings: OnbeSettings) -> list[SigningKey]:
    """The keys that the settings name; none where they name none. Raises KeyTrouble."""
    found = []
    for name in settings.keys.files:
        # A secret that is mounted into a container is often readable by its group, and never by all.
        found += read(read_file(Path(name), stat.S_IRWXO), f"the key file {name}")
    if settings.keys.pem:
        found += read(settings.keys.pem.replace("\\n", "\n").encode(), "Onbe:Keys:Pem")
    return found
