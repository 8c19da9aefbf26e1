"""Registrations and keys to try the rules with."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from keel.refusal import Refusal
from onbe.directory.decide import decide_new
from onbe.directory.model import Bounds, Registration

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
BOUNDS = Bounds(timedelta(minutes=1), timedelta(days=1), timedelta(seconds=30), timedelta(hours=1))


def encoded(number: int, length: int | None = None) -> str:
    data = number.to_bytes(length or (number.bit_length() + 7) // 8)
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def ec_key(**more: Any) -> dict[str, Any]:
    numbers = ec.generate_private_key(ec.SECP256R1()).public_key().public_numbers()
    return {"kty": "EC", "crv": "P-256", "x": encoded(numbers.x, 32), "y": encoded(numbers.y, 32), **more}


def okp_key(**more: Any) -> dict[str, Any]:
    raw = ed25519.Ed25519PrivateKey.generate().public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return {"kty": "OKP", "crv": "Ed25519", "x": base64.urlsafe_b64encode(raw).rstrip(b"=").decode(), **more}


def rsa_key(bits: int = 2048, **more: Any) -> dict[str, Any]:
    numbers = rsa.generate_private_key(65537, bits).public_key().public_numbers()
    return {"kty": "RSA", "n": encoded(numbers.n), "e": encoded(numbers.e), **more}


EC, OKP, RSA = ec_key(), okp_key(), rsa_key()


def members(**more: Any) -> dict[str, Any]:
    """A registration that is taken; None leaves a member out."""
    found = {
        "agent_id": "mailer",
        "display_name": "The mailer",
        "allowed_scopes": ["mail.read", "mail.send"],
        "allowed_audiences": ["https://mail.example.com/", "https://files.example.com/"],
        "jwks": {"keys": [EC]},
        **more,
    }
    return {name: value for name, value in found.items() if value is not None}


def registered(**more: Any) -> Registration:
    decided = decide_new(members(**more), BOUNDS, NOW)
    assert isinstance(decided, Registration), decided
    return decided


def problems(decided: Registration | Refusal) -> dict[str, str]:
    """What is wrong, by pointer; empty for what is taken."""
    if isinstance(decided, Registration):
        return {}
    errors: Any = decided.facts["errors"]
    assert decided.code == "invalid_fields"
    assert decided.sentence
    return {error["pointer"]: error["detail"] for error in errors}


def judged(**more: Any) -> dict[str, str]:
    """What is wrong with a registration."""
    return problems(decide_new(members(**more), BOUNDS, NOW))
