"""Tokens of installations, kept while they are good for a while yet."""

from __future__ import annotations

from datetime import timedelta

from keel.clock import Clock
from rift.drivers.github.protocol import InstallationToken

GOOD_FOR = timedelta(minutes=5)
"""One with less left is not given again."""
MOST = 4096


class KeptTokens:
    """The last token of each installation, by the App and the installation's id."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: dict[tuple[int, int], InstallationToken] = {}

    def get(self, app: int, id: int) -> InstallationToken | None:
        """The one that was kept, while it is good for five minutes at least."""
        found = self._kept.get((app, id))
        return found if found is not None and found.expires_at > self._clock.now() + GOOD_FOR else None

    def keep(self, app: int, id: int, token: InstallationToken) -> InstallationToken:
        """Keep one, and give it."""
        if len(self._kept) >= MOST:
            now = self._clock.now()
            self._kept = {key: one for key, one in self._kept.items() if one.expires_at > now}
        self._kept[app, id] = token
        return token
