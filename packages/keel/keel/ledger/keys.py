"""The keys that sign checkpoints: a folder outside the database, one private key of now, the public ones of all times.

    FOLDER/key.pem           the private key, Ed25519, PKCS 8; mode 0600
    FOLDER/keys/<id>.json    a public key, and its endorsement by the one before
    FOLDER/seen.json         the newest checkpoint that this host has made: a chain cut shorter is noticed
    FOLDER/lock              held while a key is made or changed

Whoever can only write to the database cannot sign, and cannot make this folder forget.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from keel.accounts import give_folder
from keel.files import no_wait, write_whole
from keel.ledger.canonical import instant, jcs
from keel.owned import OwnedFolder

TYPE = "keel.key"


class KeyTrouble(Exception):
    """A key cannot be used. The text is a sentence that names the mend."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key: since when it signs, and which key before it says so."""

    id: str
    public: bytes
    at: datetime
    previous: str | None
    endorsement: bytes | None
    """The signature of the key before over `body`; None for a first key."""

    @property
    def body(self) -> bytes:
        """What the key before signs."""
        return jcs({
            "at": instant(self.at), "id": self.id, "previous": self.previous, "public": self.public.hex(),
            "type": TYPE, "v": 1,
        })  # fmt: skip

    def endorsed_by(self, known: Mapping[str, PublicKey]) -> bool:
        """Whether one of the known keys vouches for this one."""
        before = known.get(self.previous or "")
        if before is None or self.endorsement is None or key_id(self.public) != self.id:
            return False
        return signed_by(before.public, self.endorsement, self.body)

    def told(self) -> dict[str, Any]:
        """As a file holds it."""
        return {
            "id": self.id,
            "public": self.public.hex(),
            "at": instant(self.at),
            "previous": self.previous,
            "endorsement": self.endorsement.hex() if self.endorsement else None,
        }


@dataclass(frozen=True, slots=True)
class Signer:
    """The key of now."""

    key: PublicKey
    private: Ed25519PrivateKey

    def sign(self, body: bytes) -> bytes:
        """The signature over some bytes. 64 bytes."""
        return self.private.sign(body)


def key_id(public: bytes) -> str:
    """The name of a key: the first 16 hexadecimal digits of its SHA-256."""
    return sha256(public).hexdigest()[:16]


def signed_by(public: bytes, signature: bytes, body: bytes) -> bool:
    """Whether the owner of this key signed these bytes."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, body)
    except (InvalidSignature, ValueError):
        return False
    return True


def read_key(told: Mapping[str, Any]) -> PublicKey:
    """A public key from what a file holds. Raises ValueError, KeyError or TypeError where that is none."""
    endorsement = told["endorsement"]
    return PublicKey(
        told["id"], bytes.fromhex(told["public"]), datetime.fromisoformat(told["at"]), told["previous"],
        None if endorsement is None else bytes.fromhex(endorsement),
    )  # fmt: skip


def closure(stored: Mapping[str, PublicKey], trusted: Mapping[str, PublicKey]) -> dict[str, PublicKey]:
    """The trusted keys, and all of the stored ones that they vouch for."""
    known = dict(trusted)
    grew = True
    while grew:
        fresh = {id: key for id, key in stored.items() if id not in known and key.endorsed_by(known)}
        known |= fresh
        grew = bool(fresh)
    return known


class KeyFolder:
    """The folder of a system's keys. Nothing in it is made before the first signature is asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._owned = OwnedFolder(folder, KeyTrouble)
        self._key = folder / "key.pem"
        self._keys = folder / "keys"
        self._seen = folder / "seen.json"

    def signer(self, now: datetime) -> Signer:
        """The key of now, made when there is none. Raises KeyTrouble."""
        with self._owned.locked():
            return self._read() or self._make(now, None)

    def rotate(self, now: datetime) -> Signer:
        """A new key in the place of the one of now, which vouches for it and is then gone. Raises KeyTrouble."""
        with self._owned.locked():
            return self._make(now, self._read() or self._make(now, None))

    def public(self) -> dict[str, PublicKey]:
        """Every public key that this host has had, by its id. Raises KeyTrouble."""
        found = {}
        with self._owned.as_owner():
            for path in sorted(self._keys.glob("*.json")):
                key = _public(path)
                found[key.id] = key
        return found

    def seen(self) -> tuple[int, bytes] | None:
        """Number and hash of the newest checkpoint that this host has made; None before the first."""
        try:
            with self._owned.as_owner():
                told = json.loads(_text(self._seen))
            return int(told["number"]), bytes.fromhex(told["hash"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError):
            raise KeyTrouble(f"{self._seen} cannot be read; the copy of your backup takes its place") from None

    def note(self, number: int, hash: bytes) -> None:
        """Remember the newest checkpoint. One that is older than what is remembered changes nothing."""
        with self._owned.locked():
            known = self.seen()
            if known is None or known[0] < number:
                write_whole(self._seen, json.dumps({"number": number, "hash": hash.hex()}).encode())

    def give(self, uid: int, gid: int) -> None:
        """Have the folder, made when absent, with all that is in it belong to the user that seals. For root.

        Raises KeyTrouble where there is something else.
        """
        self._owned.have()
        try:
            for folder in (self.folder, self._keys):
                give_folder(folder, uid, gid)
        except FileNotFoundError:
            pass  # no key yet
        except OSError as error:
            raise KeyTrouble(f"{error.filename or self.folder} cannot be given away: {error.strerror}") from None

    def _read(self) -> Signer | None:
        """The one place that reads the private key."""
        try:
            with open(self._key, "rb", opener=no_wait) as file:
                state = os.fstat(file.fileno())
                text = file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise KeyTrouble(
                f"the key {self._key} cannot be read: {error.strerror}; it is the server's user's"
            ) from None
        if state.st_mode & 0o077:
            raise KeyTrouble(f"others may read the key {self._key}: `chmod 600 {self._key}`, then rotate it")
        try:
            private = serialization.load_pem_private_key(text, None)
        except (ValueError, TypeError):
            private = None
        if not isinstance(private, Ed25519PrivateKey):
            raise KeyTrouble(f"{self._key} holds no Ed25519 key; the copy of your backup takes its place")
        public = private.public_key().public_bytes_raw()
        return Signer(_public(self._keys / f"{key_id(public)}.json"), private)

    def _make(self, now: datetime, before: Signer | None) -> Signer:
        private = Ed25519PrivateKey.generate()
        public = private.public_key().public_bytes_raw()
        key = PublicKey(key_id(public), public, now, before.key.id if before else None, None)
        if before:
            key = PublicKey(key.id, public, now, key.previous, before.sign(key.body))
        self._owned.have("keys")
        # The public half first: a private key that nobody knows the public half of would sign in vain.
        write_whole(self._keys / f"{key.id}.json", json.dumps(key.told(), indent=1).encode(), 0o644)
        pem = private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        write_whole(self._key, pem)
        return Signer(key, private)


def _text(path: Path) -> str:
    with open(path, encoding="utf-8", opener=no_wait) as file:
        return file.read()


def _public(path: Path) -> PublicKey:
    try:
        key = read_key(json.loads(_text(path)))
    except (OSError, ValueError, KeyError, TypeError):
        raise KeyTrouble(f"the public key {path} cannot be read; the copy of your backup takes its place") from None
    if key_id(key.public) != key.id:
        raise KeyTrouble(f"the public key {path} is not the one that its name says")
    return key
