"""No directory to ask: nobody is known to be active."""

from __future__ import annotations

from datetime import datetime

from keel.db import forbid_in_transaction
from onbe.drivers.sponsors.protocol import Answer, CannotAnswer


class NoDirectory:
    """Where no directory is configured: it never says yes."""

    async def ask(self, sponsor: str, no_older_than: datetime) -> Answer:
        forbid_in_transaction("the directory of people")
        raise CannotAnswer("no directory of people is configured: Onbe:SponsorCheck:Provider names one")
