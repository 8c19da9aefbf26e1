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
        self._issuer, self._clock = settings.issuer, clock
        self._named = settings.keys.active
        self._folder = KeyFolder(data / "keys")
        self.made: str | None = None
        given = given_keys(settings)
        self._follows = not given
        self._looked, self._version = clock.monotonic(), self._folder.version()
        if given:
            self._ring = Ring(self._issuer, given, self._named)
            return
        if settings.development.enabled and not self._folder.held().keys:
            self.made = self._folder.make(first=True)
            self._version = self._folder.version()
        self._ring = self._from_folder()

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
                    self._ring = self._from_folder()
                except KeyTrouble as trouble:
                    log.error("keys.unreadable", trouble=str(trouble))
        return self._ring

    def _from_folder(self) -> Ring:
        held = self._folder.held()
        return Ring(self._issuer, held.keys, self._named or held.active)


def given_keys(settings: OnbeSettings) -> list[SigningKey]:
    """The keys that the settings name; none where they name none. Raises KeyTrouble."""
    found = []
    for name in settings.keys.files:
        # A secret that is mounted into a container is often readable by its group, and never by all.
        found += read(read_file(Path(name), stat.S_IRWXO), f"the key file {name}")
    if settings.keys.pem:
        found += read(settings.keys.pem.replace("\\n", "\n").encode(), "Onbe:Keys:Pem")
    return found
