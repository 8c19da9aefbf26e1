"""What a passkey is asked and what it answered, by the library `webauthn`: the challenge and the keys come in.

Source: Web Authentication Level 3, 7.1 (registering) and 7.2 (signing in). Nothing here reads the world.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from webauthn import (
    generate_authentication_options,
    generate_registration_options,
    options_to_json,
    verify_authentication_response,
    verify_registration_response,
)
from webauthn.helpers import parse_authentication_credential_json
from webauthn.helpers.structs import (
    AuthenticatorSelectionCriteria,
    PublicKeyCredentialDescriptor,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from keel.hosts import is_loopback

TIMEOUT_MS = 300_000
"""How long the browser lets somebody look for their passkey: as long as what was begun is good."""
CREDENTIAL_BYTES = 1023
"""The longest id of a credential (Web Authentication, 6.5.1)."""
COUNT_MOST = 2**32 - 1
TRANSPORTS = frozenset({"ble", "cable", "hybrid", "internal", "nfc", "smart-card", "usb"})


class NotTaken(Exception):
    """The answer is for another site or another question, is not signed by the key, or is no answer."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where passkeys are good: the host that they are bound to, and the one origin whose pages may ask for them."""

    rp: str
    origin: str


@dataclass(frozen=True, slots=True)
class NewKey:
    """A passkey that was just made."""

    credential: bytes
    public_key: bytes
    """In COSE's form."""
    sign_count: int
    transports: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Claimed:
    """Which passkey an answer says it is of, and whose: nothing of it is proved yet."""

    credential: bytes
    user: str | None


def place_of(public: str) -> Place | None:
    """Where passkeys are good, by the public address; None where browsers have none: without a name, or without https.

    Browsers bind passkeys to names alone. On this machine that is `localhost`, whatever number it is reached by.
    """
    parts = urlsplit(public)
    host, port = (parts.hostname or "").lower(), f":{parts.port}" if parts.port else ""
    if is_loopback(host):
        return Place("localhost", f"{parts.scheme}://localhost{port}")
    if parts.scheme != "https" or _is_address(host):
        return None
    default = port == ":443"
    return Place(host, f"https://{host}{'' if default else port}")


def asked_for_new(
    place: Place, challenge: bytes, user: str, email: str, known: Sequence[tuple[bytes, Sequence[str]]]
) -> dict[str, Any]:
    """What the browser is asked for a new passkey of this person, who has the `known` ones already."""
    options = generate_registration_options(
        rp_id=place.rp, rp_name="Rift", user_id=user.encode(), user_name=email, user_display_name=email,
        challenge=challenge, timeout=TIMEOUT_MS,
        authenticator_selection=AuthenticatorSelectionCriteria(
            resident_key=ResidentKeyRequirement.REQUIRED, user_verification=UserVerificationRequirement.PREFERRED
        ),
        exclude_credentials=[PublicKeyCredentialDescriptor(id=credential) for credential, _ in known],
    )  # fmt: skip
    return _json(options_to_json(options))


def asked_for(place: Place, challenge: bytes) -> dict[str, Any]:
    """What the browser is asked for any passkey of this place: nobody has said who they are."""
    options = generate_authentication_options(
        rp_id=place.rp, challenge=challenge, timeout=TIMEOUT_MS,
        user_verification=UserVerificationRequirement.PREFERRED,
    )  # fmt: skip
    return _json(options_to_json(options))


def new_key(place: Place, challenge: bytes, said: object) -> NewKey:
    """The passkey that the browser made when it was asked. Raises NotTaken."""
    if not isinstance(said, dict):
        raise NotTaken("no answer")
    try:
        made = verify_registration_response(
            credential=said, expected_challenge=challenge, expected_rp_id=place.rp, expected_origin=place.origin
        )
    except Exception as error:  # noqa: BLE001 – whatever the library stumbles over, it is no answer that can be taken
        raise NotTaken(str(error)) from None
    if len(made.credential_id) > CREDENTIAL_BYTES or not 0 <= made.sign_count <= COUNT_MOST:
        raise NotTaken("its id is too long")
    told = said["response"].get("transports")
    transports = {one for one in told if isinstance(one, str)} & TRANSPORTS if isinstance(told, list) else set()
    return NewKey(made.credential_id, made.credential_public_key, made.sign_count, tuple(sorted(transports)))


def claimed(said: object) -> Claimed:
    """Which passkey an answer says it is of. Raises NotTaken."""
    if not isinstance(said, dict):
        raise NotTaken("no answer")
    try:
        parsed = parse_authentication_credential_json(said)
        user = parsed.response.user_handle
        return Claimed(parsed.raw_id, user.decode() if user else None)
    except Exception as error:  # noqa: BLE001 – whatever the library stumbles over, it is no answer that can be taken
        raise NotTaken(str(error)) from None


def answered(place: Place, challenge: bytes, said: object, public_key: bytes) -> int:
    """The sign count of an answer that this key has signed. Raises NotTaken.

    Whether the count has gone back is for the caller to decide: only an answer that is right tells of a copied key.
    """
    try:
        done = verify_authentication_response(
            credential=said,  # type: ignore[arg-type]  # `claimed` has read it
            expected_challenge=challenge, expected_rp_id=place.rp, expected_origin=place.origin,
            credential_public_key=public_key, credential_current_sign_count=0,
        )  # fmt: skip
    except Exception as error:  # noqa: BLE001 – whatever the library stumbles over, it is no answer that can be taken
        raise NotTaken(str(error)) from None
    return done.new_sign_count


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _json(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    return found
