"""The development issuer's directory: one person, who is as they were set."""

from __future__ import annotations

from datetime import datetime

from keel.clock import Clock
from keel.db import forbid_in_transaction
from onbe.drivers.development.protocol import DevelopmentIssuer
from onbe.drivers.sponsors.protocol import Answer


class DevelopmentDirectory:
    """Knows the issuer's person, and nobody else."""

    def __init__(self, issuer: DevelopmentIssuer, clock: Clock) -> None:
        self._issuer = issuer
        self._clock = clock

    async def ask(self, sponsor: str, no_older_than: datetime) -> Answer:
        forbid_in_transaction("the directory of people")
        at = self._clock.now()
        if sponsor != self._issuer.person:
            return Answer("not_found", at)
        return Answer("active" if self._issuer.enabled else "disabled", at)
