"""Secrets at rest: sealed by AES-256-GCM under a key that the database does not hold.

A sealed secret is `version (1 byte) | key (8 bytes) | nonce (12 bytes) | ciphertext and tag`. What it is about (as
`secret repo_x API_KEY`) is authenticated with it, so that nobody who can write rows puts one in another's place.
Where the keys come from is a `Ring`: given ones, or a folder (`keel.vault_folder`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from keel.ids import Ids

VERSION = b"\x01"
KEY_BYTES = 32
KEY_AT, KEY_ID_BYTES = len(VERSION), 8
"""Where in a sealed secret the id of its key stands, and how long it is."""
_NONCE = 12
_HEAD = KEY_AT + KEY_ID_BYTES + _NONCE


class VaultTrouble(Exception):
    """A secret cannot be sealed or opened. The text is a sentence that names the mend and holds no secret."""


def key_id(key: bytes) -> bytes:
    """The name of a key: the first 8 bytes of its SHA-256, which tell nothing of it."""
    return sha256(b"keel.vault\0" + key).digest()[:KEY_ID_BYTES]


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys by their ids, of which `newest` seals. Older ones still open what they sealed."""

    by_id: Mapping[bytes, bytes] = field(repr=False)
    newest: bytes


class Ring(Protocol):
    """Where a vault's keys come from."""

    def held(self) -> Keys | None:
        """The keys as they are now; None where there is none yet. Raises VaultTrouble."""

    def first(self) -> Keys:
        """The same, with a first key made where there is none. Raises VaultTrouble."""


@dataclass(frozen=True, slots=True)
class GivenKeys:
    """A ring of keys that somebody else keeps, as the settings do."""

    keys: Keys

    def held(self) -> Keys:
        return self.keys

    def first(self) -> Keys:
        return self.keys


def keys_of(keys: Sequence[bytes]) -> Keys:
    """These keys, of which the last one seals. Raises ValueError for none, or one of another length."""
    if not keys or any(len(key) != KEY_BYTES for key in keys):
        raise ValueError(f"a vault has keys of {KEY_BYTES} bytes")
    return Keys({key_id(key): key for key in keys}, key_id(keys[-1]))


@dataclass(frozen=True, slots=True)
class Vault:
    """What seals and opens secrets, by the keys that its ring has at that moment."""

    ring: Ring
    ids: Ids

    def seal(self, plain: bytes, about: str) -> bytes:
        """The secret as it may stand in a database. Raises VaultTrouble where the keys cannot be used."""
        keys = self.ring.first()
        nonce = bytes.fromhex(self.ids.hex(_NONCE * 2))
        head = VERSION + keys.newest + nonce
        return head + AESGCM(keys.by_id[keys.newest]).encrypt(nonce, plain, head + about.encode())

    def open(self, sealed: bytes, about: str) -> bytes:
        """The secret itself. Raises VaultTrouble where its key is not here, or it is not what was sealed about this."""
        if not sealed.startswith(VERSION) or len(sealed) <= _HEAD:
            raise VaultTrouble("what should be a sealed secret is none; set it again")
        head, name = sealed[:_HEAD], key_of(sealed)
        keys = self.ring.held()
        if keys is None or name not in keys.by_id:
            raise VaultTrouble(
                f"the key {name.hex()} that a secret was sealed with is not here: your backup of the keys has it, or "
                "the secret is set again"
            )
        try:
            return AESGCM(keys.by_id[name]).decrypt(head[-_NONCE:], sealed[_HEAD:], head + about.encode())
        except InvalidTag:
            raise VaultTrouble("a sealed secret was changed, or stands where it was not put; set it again") from None


def key_of(sealed: bytes) -> bytes:
    """The id of the key that sealed it."""
    return sealed[KEY_AT : KEY_AT + KEY_ID_BYTES]


def vault_of(keys: Sequence[bytes], ids: Ids) -> Vault:
    """A vault of these keys, of which the last one seals. Raises ValueError as `keys_of` does."""
    return Vault(GivenKeys(keys_of(keys)), ids)
