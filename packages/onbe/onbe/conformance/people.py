"""Where subject tokens come from: the development issuer, a command, or a key of the provider that the tester holds."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import httpx2
from joserfc.jwk import ECKey

from keel.clock import Clock
from keel.ids import Ids
from onbe.conformance.case import NotRun
from onbe.conformance.making import Signer

COMMAND_SECONDS = 30


class People(Protocol):
    """A person's tokens."""

    def token(self, scope: str, audience: str | None = None) -> str:
        """A token of the person, for Onbe or for another audience. Raises NotRun where it cannot be had."""

    def forged(self, scope: str, changed: Mapping[str, Any], header: Mapping[str, Any] | None = None) -> str:
        """A token of the provider's key with other claims; None leaves one out. Raises NotRun."""

    def enable(self, enabled: bool) -> None:
        """Have the person enabled or not at the provider. Raises NotRun."""


class OfDevelopment:
    """The issuer of a server started with `--development`."""

    def __init__(self, http: httpx2.Client, issuer: str) -> None:
        self._http, self._issuer = http, issuer

    def token(self, scope: str, audience: str | None = None) -> str:
        form = {"scope": scope, **({"audience": audience} if audience else {})}
        answer = self._http.post(f"{self._issuer}/token", data=form)
        if answer.status_code != 200:
            raise NotRun(f"the development issuer gives no token (HTTP {answer.status_code})")
        return str(answer.json()["access_token"])

    def forged(self, scope: str, changed: Mapping[str, Any], header: Mapping[str, Any] | None = None) -> str:
        raise NotRun("needs --issuer-key: a provider whose key the tester holds")

    def enable(self, enabled: bool) -> None:
        self._http.post(f"{self._issuer}/person", json={"enabled": enabled})


@dataclass(frozen=True, slots=True)
class OfCommand:
    """A command that prints a token; the scope wanted is its last argument."""

    command: str

    def token(self, scope: str, audience: str | None = None) -> str:
        if audience is not None:
            raise NotRun("needs --issuer-key: a token for another audience")
        words = [*shlex.split(self.command), scope]
        try:
            done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=COMMAND_SECONDS)
        except (OSError, subprocess.SubprocessError) as error:
            raise NotRun(f"the command for subject tokens failed ({type(error).__name__})") from None
        return done.stdout.strip()

    def forged(self, scope: str, changed: Mapping[str, Any], header: Mapping[str, Any] | None = None) -> str:
        raise NotRun("needs --issuer-key: a provider whose key the tester holds")

    def enable(self, enabled: bool) -> None:
        raise NotRun("needs a development start: a person who may be disabled")


class OfKey:
    """A provider whose key the tester holds."""

    def __init__(self, key: ECKey, kid: str | None, claims: Mapping[str, Any], clock: Clock, ids: Ids) -> None:
        """`claims`: what its tokens say: `iss`, `aud`, `sub`."""
        self._signer = Signer(key, kid or key.thumbprint())
        self._claims, self._clock, self._ids = claims, clock, ids

    def token(self, scope: str, audience: str | None = None) -> str:
        return self.forged(scope, {"aud": audience} if audience else {})

    def forged(self, scope: str, changed: Mapping[str, Any], header: Mapping[str, Any] | None = None) -> str:
        now = int(self._clock.now().timestamp())
        claims = {**self._claims, "iat": now, "exp": now + 300, "jti": self._ids.hex(), "scope": scope, **changed}
        return self._signer.jwt({name: value for name, value in claims.items() if value is not None}, header)

    def enable(self, enabled: bool) -> None:
        raise NotRun("needs a development start: a person who may be disabled")
