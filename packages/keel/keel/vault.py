"""Secrets at rest: sealed by AES-256-GCM under a key that the database does not hold.

A sealed secret is `version (1 byte) | key (8 bytes) | nonce (12 bytes) | ciphertext and tag`. What it is about (as
`secret repo_x API_KEY`) is authenticated with it, so that nobody who can write rows puts one in another's place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from keel.ids import Ids

VERSION = b"\x01"
KEY_BYTES = 32
_ID, _NONCE = 8, 12
_HEAD = len(VERSION) + _ID + _NONCE


class VaultTrouble(Exception):
    """A secret cannot be sealed or opened. The text is a sentence that names the mend and holds no secret."""


def key_id(key: bytes) -> bytes:
    """The name of a key: the first 8 bytes of its SHA-256, which tell nothing of it."""
    return sha256(b"keel.vault\0" + key).digest()[:_ID]


@dataclass(frozen=True, slots=True)
class Vault:
    """The keys by their ids, of which `newest` seals. Older ones still open what they sealed."""

    keys: Mapping[bytes, bytes] = field(repr=False)
    newest: bytes
    ids: Ids

    def seal(self, plain: bytes, about: str) -> bytes:
        """The secret as it may stand in a database."""
        nonce = bytes.fromhex(self.ids.hex(_NONCE * 2))
        head = VERSION + self.newest + nonce
        return head + AESGCM(self.keys[self.newest]).encrypt(nonce, plain, head + about.encode())

    def open(self, sealed: bytes, about: str) -> bytes:
        """The secret itself. Raises VaultTrouble where its key is not here, or it is not what was sealed about this."""
        head, key = sealed[:_HEAD], sealed[len(VERSION) : len(VERSION) + _ID]
        if not sealed.startswith(VERSION) or len(sealed) <= _HEAD or key not in self.keys:
            raise VaultTrouble(f"the key {key.hex()} that a secret was sealed with is not here; your backup has it")
        try:
            return AESGCM(self.keys[key]).decrypt(head[-_NONCE:], sealed[_HEAD:], head + about.encode())
        except InvalidTag:
            raise VaultTrouble("a sealed secret was changed, or stands where it was not put; set it again") from None

    def stale(self, sealed: bytes) -> bool:
        """Whether an older key sealed it."""
        return sealed[len(VERSION) : len(VERSION) + _ID] != self.newest


def vault_of(keys: list[bytes], ids: Ids) -> Vault:
    """A vault of these keys, of which the last one seals. Raises ValueError for none, or one of another length."""
    if not keys or any(len(key) != KEY_BYTES for key in keys):
        raise ValueError(f"a vault has keys of {KEY_BYTES} bytes")
    return Vault({key_id(key): key for key in keys}, key_id(keys[-1]), ids)
