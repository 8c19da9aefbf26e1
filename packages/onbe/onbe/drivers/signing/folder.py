"""A folder of signing keys: made, replaced and read safely by any number of processes.

FOLDER/<kid>.pem    a private key, ES256, PKCS 8; mode 0600. A retired one stays, for what it signed
FOLDER/active       the kid of the one that signs
FOLDER/lock         held while a key is made
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from keel.files import no_wait, write_whole
from keel.owned import OwnedFolder
from onbe.drivers.signing.ring import KeyTrouble, SigningKey, read


@dataclass(frozen=True, slots=True)
class Held:
    """What a folder holds: its keys, by their names, and the kid of the one that signs."""

    keys: tuple[SigningKey, ...]
    active: str | None


class KeyFolder:
    """Nothing in it is made before a key is."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._owned = OwnedFolder(folder, KeyTrouble)

    def held(self) -> Held:
        """What is there now. Raises KeyTrouble."""
        keys: list[SigningKey] = []
        with self._owned.as_owner():
            try:
                names = sorted(path for path in self.folder.glob("*.pem"))
            except OSError as error:
                raise KeyTrouble(f"the key folder {self.folder} cannot be read: {error.strerror}") from None
            for path in names:
                found = read(read_file(path, stat.S_IRWXG | stat.S_IRWXO), f"the key file {path}")
                if [key.kid for key in found] != [path.stem]:
                    raise KeyTrouble(f"the key file {path} holds another key than its name says; move it away")
                keys += found
            try:
                active = (self.folder / "active").read_text("utf-8").strip() or None
            except FileNotFoundError:
                active = None
            except (OSError, ValueError):
                raise KeyTrouble(f"{self.folder / 'active'} cannot be read; it holds the kid that signs") from None
        return Held(tuple(keys), active)

    def version(self) -> int:
        """A number that is another one once a key was made or named: nanoseconds. 0 without a folder."""
        try:
            return self.folder.stat().st_mtime_ns
        except OSError:
            return 0

    def make(self, *, first: bool) -> str:
        """Make a key and have it sign; its kid. With `first`, only where no key can sign yet. Raises KeyTrouble.

        Of any number at once that want a first one, one makes it, and all hear its kid.
        """
        with self._locked():
            held = self.held()
            able = [key.kid for key in held.keys if key.signs]
            if first and able:
                return held.active if held.active in able else able[0]
            pem, key = new_key()
            # The key first: a name without its key would leave nothing that signs.
            self._write(self.folder / f"{key.kid}.pem", pem)
            self._write(self.folder / "active", f"{key.kid}\n".encode())
            return key.kid

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise KeyTrouble(f"the key folder {self.folder} cannot be made: {error.strerror}") from None
        with self._owned.locked():
            yield

    def _write(self, path: Path, data: bytes) -> None:
        try:
            write_whole(path, data)
        except OSError as error:
            raise KeyTrouble(f"{path} cannot be written: {error.strerror}") from None


def new_key() -> tuple[bytes, SigningKey]:
    """A new key, as PEM (PKCS 8, not encrypted) and as what it is."""
    private = generate_private_key(SECP256R1())
    return private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), SigningKey.of(private)


def read_file(path: Path, closed_to: int) -> bytes:
    """A key file's bytes, if nobody of `closed_to` (bits of a mode) may read it. Raises KeyTrouble."""
    try:
        with open(path, "rb", opener=no_wait) as file:
            state = os.fstat(file.fileno())
            if not stat.S_ISREG(state.st_mode):
                raise KeyTrouble(f"the key file {path} is not a file")
            data = file.read(256 * 1024)
    except OSError as error:
        raise KeyTrouble(f"the key file {path} cannot be read: {error.strerror}") from None
    if state.st_mode & closed_to and b"PRIVATE KEY" in data:
        raise KeyTrouble(f"others may read the key file {path}: `chmod 600 {path}`, then rotate the key")
    return data


def write_new(path: Path, data: bytes) -> None:
    """Write a file that is not there yet, for its owner alone. Raises KeyTrouble."""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(data)
    except OSError as error:
        raise KeyTrouble(f"{path} cannot be written: {error.strerror}") from None
