"""A ring of ES256 keys: what signing is, wherever the keys come from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, EllipticCurvePublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
from joserfc.jwk import ECKey
from joserfc.jws import JWSRegistry

from keel import jose
from onbe.names import ISSUED_TYP

ALGORITHM = "ES256"


class KeyTrouble(Exception):
    """Keys cannot be used. The text is a sentence that names the mend; nothing of a key is in it."""


@dataclass(frozen=True, slots=True, repr=False)
class SigningKey:
    """One key: with its private half it may sign, without it is published for what it signed."""

    kid: str
    """Its RFC 7638 thumbprint."""
    key: ECKey
    public: Mapping[str, Any]
    """As a JWK set lists it."""

    @classmethod
    def of(cls, key: EllipticCurvePrivateKey | EllipticCurvePublicKey) -> SigningKey:
        """A key by its raw value, on the curve P-256."""
        made = ECKey.import_key(key)
        bare = made.as_dict(private=False)
        kid = jose.thumbprint(bare)
        members = {name: bare[name] for name in ("kty", "crv", "x", "y")}
        return cls(kid, made, {**members, "kid": kid, "use": "sig", "alg": ALGORITHM})

    @property
    def signs(self) -> bool:
        """Whether its private half is here."""
        return self.key.is_private

    def __repr__(self) -> str:
        return f"<key {self.kid}>"


def read(pem: bytes, where: str) -> list[SigningKey]:
    """Every key of a PEM text, private or public; `where` names the text in a sentence. Raises KeyTrouble."""
    blocks = [b"-----BEGIN " + block for block in pem.split(b"-----BEGIN ")[1:]]
    found = []
    for block in blocks:
        if block.startswith((b"-----BEGIN EC PARAMETERS-", b"-----BEGIN CERTIFICATE-")):
            continue
        try:
            raw = load_pem_public_key(block) if b"PUBLIC KEY" in block[:30] else load_pem_private_key(block, None)
        except (ValueError, TypeError, UnsupportedAlgorithm):  # TypeError: it wants a password
            raise KeyTrouble(f"{where} holds what is no plain PEM key; `onbe keys generate` makes one") from None
        if not isinstance(raw, EllipticCurvePrivateKey | EllipticCurvePublicKey) or not isinstance(
            raw.curve, SECP256R1
        ):
            raise KeyTrouble(f"{where} holds a key that is not ES256 (P-256); `onbe keys generate` makes one")
        found.append(SigningKey.of(raw))
    if not found:
        raise KeyTrouble(f"{where} holds no key in PEM; `onbe keys generate` makes one")
    return found


class Ring:
    """A `Signing` over keys in memory."""

    def __init__(self, issuer: str, keys: Sequence[SigningKey], active: str | None = None) -> None:
        """`active` names the key that signs, where several could. Raises KeyTrouble."""
        by_kid: dict[str, SigningKey] = {}
        for key in keys:
            if key.kid not in by_kid or key.signs:
                by_kid[key.kid] = key
        self.issuer = issuer
        self.active = _active(by_kid, active)
        self.keys = by_kid
        self._public = {kid: [key.public] for kid, key in by_kid.items()}
        retired = [key.public for key in by_kid.values() if key is not self.active]
        self._jwks = {"keys": [self.active.public, *retired]}

    def sign(self, claims: Mapping[str, Any]) -> str:
        """A compact JWT. About 40 µs, so that it is done where it is asked for."""
        header = {"alg": ALGORITHM, "kid": self.active.kid, "typ": ISSUED_TYP}
        signed = f"{_part(header)}.{_part(claims)}"
        signature = JWSRegistry.algorithms[ALGORITHM].sign(signed.encode(), self.active.key)
        return f"{signed}.{jose.encode(signature)}"

    def claims(self, token: str) -> Mapping[str, Any] | None:
        """The claims of a token of ours. Its times are not judged here."""
        said = jose.peek(token)
        if said is None or said.issuer != self.issuer or said.kid not in self._public:
            return None
        known = jose.verified(token, self._public[said.kid])
        if isinstance(known, str) or known.header.get("typ") != ISSUED_TYP:
            return None
        return known.claims

    def jwks(self) -> Mapping[str, Any]:
        """The public keys, the one that signs first."""
        return self._jwks


def _active(keys: Mapping[str, SigningKey], named: str | None) -> SigningKey:
    able = [key for key in keys.values() if key.signs]
    if named is not None:
        if named not in keys or not keys[named].signs:
            raise KeyTrouble(
                "the key that Onbe:Keys:Active names is not among those that can sign; `onbe keys ls` lists them"
            )
        return keys[named]
    if len(able) != 1:
        told = "several keys could sign: name one in Onbe:Keys:Active; `onbe keys ls` lists them"
        raise KeyTrouble(told if able else "there is no key that can sign; `onbe keys generate` makes one")
    return able[0]


def _part(value: Mapping[str, Any]) -> str:
    return jose.encode(json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode())
