"""An authenticator of the test's: it makes ES256 passkeys and signs with them, rightly or as a test wants it wrong."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from dataclasses import dataclass, field
from typing import Any

import cbor2
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

PRESENT, VERIFIED, ATTESTED = 0x01, 0x04, 0x40


def text(data: bytes) -> str:
    """Base64url, as browsers send it."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@dataclass
class Authenticator:
    """One device in one browser. `origin` is where the browser is."""

    origin: str
    flags: int = PRESENT | VERIFIED
    counts: bool = True
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    credential: bytes = field(default_factory=lambda: os.urandom(32))
    user: str = ""
    count: int = 0

    def make(self, asked: dict[str, Any], **wrong: Any) -> dict[str, Any]:
        """The answer to a question for a new passkey. `wrong`: challenge, origin, rp, type to lie about."""
        self.user = asked["user"]["id"]
        numbers = self.key.public_key().public_numbers()
        public = {1: 2, 3: -7, -1: 1, -2: numbers.x.to_bytes(32, "big"), -3: numbers.y.to_bytes(32, "big")}
        attested = bytes(16) + len(self.credential).to_bytes(2, "big") + self.credential + cbor2.dumps(public)
        data = self._data(wrong.get("rp", asked["rp"]["id"]), self.flags | ATTESTED) + attested
        told = {
            "clientDataJSON": text(self._client("webauthn.create", asked, wrong)),
            "attestationObject": text(cbor2.dumps({"fmt": "none", "attStmt": {}, "authData": data})),
            "transports": ["internal", "nonsense", 7],
        }
        return self._answer(told)

    def sign(self, asked: dict[str, Any], **wrong: Any) -> dict[str, Any]:
        """The answer to a question for any passkey."""
        self.count += self.counts
        data = self._data(wrong.get("rp", asked["rpId"]), self.flags)
        client = self._client("webauthn.get", asked, wrong)
        signer = wrong.get("key", self.key)
        signature = signer.sign(data + hashlib.sha256(client).digest(), ec.ECDSA(hashes.SHA256()))
        told = {
            "clientDataJSON": text(client), "authenticatorData": text(data), "signature": text(signature),
            "userHandle": wrong.get("user", self.user),
        }  # fmt: skip
        return self._answer({name: value for name, value in told.items() if value is not None})

    def _data(self, rp: str, flags: int) -> bytes:
        return hashlib.sha256(rp.encode()).digest() + bytes([flags]) + self.count.to_bytes(4, "big")

    def _client(self, kind: str, asked: dict[str, Any], wrong: dict[str, Any]) -> bytes:
        told = {
            "type": wrong.get("type", kind), "challenge": wrong.get("challenge", asked["challenge"]),
            "origin": wrong.get("origin", self.origin), "crossOrigin": False,
        }  # fmt: skip
        return json.dumps(told).encode()

    def _answer(self, response: dict[str, Any]) -> dict[str, Any]:
        id = text(self.credential)
        return {"id": id, "rawId": id, "type": "public-key", "response": response}
