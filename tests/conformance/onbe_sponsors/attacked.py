"""A directory over HTTP that a test makes to answer as it likes."""

from __future__ import annotations

import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from tests.conformance.onbe_sponsors.kit import ADA, keycloak_at, scim_at
from tests.wire.people import BEARER, SECRET, People, directory

from keel.testing import FakeClock
from onbe.drivers.sponsors.fetching import client_for
from onbe.drivers.sponsors.protocol import CannotAnswer, SponsorDirectory, Unreachable
from onbe.drivers.sponsors.scim import Lookup

KINDS: dict[str, Lookup | None] = {
    "keycloak": None, "scim id": "id", "scim externalId": "externalId", "scim userName": "userName",
}  # fmt: skip
"""Each kind of directory, with what people are found by in SCIM."""


@dataclass(frozen=True)
class Made:
    """A directory before its stand-in."""

    kind: str
    people: People
    directory: SponsorDirectory

    @property
    def flag(self) -> str:
        """The member that says yes."""
        return "enabled" if self.kind == "keycloak" else "active"

    @property
    def key(self) -> str:
        """The member that a person is found by."""
        return KINDS[self.kind] or "id"


@asynccontextmanager
async def making(kind: str, clock: FakeClock, seconds: float) -> AsyncIterator[Made]:
    people = People({ADA: True})
    async with directory(people) as address, client_for(address, seconds) as client:
        lookup = KINDS[kind]
        made: SponsorDirectory = keycloak_at(address, clock, client, seconds)
        if lookup is not None:
            made = scim_at(address, clock, client, lookup, seconds)
        yield Made(kind, people, made)


async def failing(made: Made, clock: FakeClock) -> CannotAnswer:
    """The error of a question, which tells nothing of what was sent or received."""
    with pytest.raises(CannotAnswer) as caught:
        await made.directory.ask(ADA, clock.now())
    told = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    for secret in (SECRET, BEARER, ADA, *made.people.tokens, "SPILLED"):
        assert secret not in told
    return caught.value


def odd(error: CannotAnswer) -> bool:
    """Whether it is about one person's answer, and not the directory's failure."""
    return not isinstance(error, Unreachable)
