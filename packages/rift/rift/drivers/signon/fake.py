"""A provider in memory: a test says whom each code is about."""

from __future__ import annotations

from itertools import count
from urllib.parse import urlencode

from keel.db import forbid_in_transaction
from rift.drivers.signon.protocol import Claim, SignOnRefused, SignOnUnavailable, Way


class FakeSignOn:
    """Signs in whoever `people` has for a code, once; a code is good for the way that it was given for."""

    def __init__(self, issuer: str = "https://id.example.org") -> None:
        self.issuer = issuer
        self.people: dict[str, Claim] = {}
        self.down = False
        self._codes: dict[str, tuple[str, Way]] = {}
        self._ways: dict[str, Way] = {}
        self._numbers = count()

    async def start(self, way: Way) -> str:
        """The address to send the browser to."""
        self._up()
        self._ways[way.state] = way
        return f"{self.issuer}/auth?{urlencode({'state': way.state, 'redirect_uri': way.back})}"

    def code(self, person: str, state: str) -> str:
        """A person (a key of `people`) signs in there, on the way that has this state: the code to come back with."""
        code = f"code-{next(self._numbers)}"
        self._codes[code] = (person, self._ways[state])
        return code

    async def finish(self, way: Way, code: str, issuer: str | None) -> Claim:
        """Whom the code is about."""
        self._up()
        person, given = self._codes.pop(code, ("", None))
        if given != way or issuer not in (None, self.issuer):
            raise SignOnRefused("the code is not of this way")
        return self.people[person]

    def _up(self) -> None:
        forbid_in_transaction("single sign-on")
        if self.down:
            raise SignOnUnavailable("the provider is away")
