"""The keys of a vault in a folder outside the database, for the servers and workers of one host.

    FOLDER/0001-<id>.key     a key, 32 bytes as base64; mode 0600. The highest number is the newest, which seals
    FOLDER/lock              held while a key is made or taken away

A key is there whole or not at all, and its name says all that order needs: whoever is killed in between leaves nothing
half done. Every process looks at the names each time, so that a new key is in use at once, with no restart.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from keel.accounts import give_folder
from keel.files import no_wait, write_whole
from keel.owned import OwnedFolder
from keel.vault import KEY_BYTES, Keys, VaultTrouble, key_id

_NAME = re.compile(r"([0-9]{4,9})-([0-9a-f]{16})\.key")


@dataclass(frozen=True, slots=True)
class Kept:
    """One key of a folder, as a person may see it."""

    id: bytes
    number: int
    made_at: datetime


class FolderKeys:
    """A ring over a folder. Nothing in it is made before something is sealed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._owned = OwnedFolder(folder, VaultTrouble)
        self._known: tuple[tuple[str, ...], Keys | None] = ((), None)

    def held(self) -> Keys | None:
        with self._owned.as_owner():
            names = tuple(name for _, name in self._names())
            if self._known[0] != names:
                keys = [self._read(name) for name in names]
                self._known = names, Keys({key_id(key): key for key in keys}, key_id(keys[-1])) if keys else None
        return self._known[1]

    def first(self) -> Keys:
        if (keys := self.held()) is not None:
            return keys
        with self._owned.locked():
            if self.held() is None:  # of any number at once, one makes it
                self._make()
        made = self.held()
        assert made is not None  # it was there a moment ago, and only somebody's hand takes the newest away
        return made

    def rotate(self) -> Kept:
        """A new key, which seals from now on; the ones before still open. Raises VaultTrouble."""
        with self._owned.locked():
            self._make()
        return self.listed()[-1]

    def listed(self) -> list[Kept]:
        """All keys, the newest last. Raises VaultTrouble."""
        with self._owned.as_owner():
            found = []
            for number, name in self._names():
                made = (self.folder / name).lstat().st_mtime
                found.append(Kept(_id(name), number, datetime.fromtimestamp(made, UTC)))
        return found

    def take_away(self, key: bytes) -> None:
        """Remove a key, by its id, for good; never the newest. Raises VaultTrouble."""
        with self._owned.locked(), self._owned.as_owner():
            names = [name for _, name in self._names()]
            for name in names[:-1]:
                if _id(name) == key:
                    (self.folder / name).unlink(missing_ok=True)

    def give(self, uid: int, gid: int) -> None:
        """Have the folder, made when absent, with all that is in it belong to whom the server runs as. For root.

        Raises VaultTrouble where there is something else.
        """
        self._owned.have()
        try:
            give_folder(self.folder, uid, gid)
        except OSError as error:
            raise VaultTrouble(
                f"{error.filename or self.folder} cannot be given away: {error.strerror}; move it away"
            ) from None

    def _names(self) -> list[tuple[int, str]]:
        """The keys' files by their numbers, the newest last. Raises VaultTrouble where the folder is not ours alone."""
        try:
            there = self.folder.lstat()
        except FileNotFoundError:
            return []
        if not stat.S_ISDIR(there.st_mode):
            raise VaultTrouble(f"{self.folder} is not a folder; move it away, and the copy of your backup to it")
        if os.geteuid() not in (0, there.st_uid) or there.st_mode & 0o022:
            raise VaultTrouble(f"others may write to {self.folder}: `chmod 700` and `chown` it to the server's user")
        try:
            found = [_NAME.fullmatch(path.name) for path in self.folder.iterdir()]
        except OSError as error:
            raise VaultTrouble(
                f"the keys in {self.folder} cannot be read: {error.strerror}; they are the server's user's"
            ) from None
        return sorted((int(name[1]), name[0]) for name in found if name)

    def _read(self, name: str) -> bytes:
        """The one place that reads a key."""
        path = self.folder / name
        try:
            with open(path, "rb", opener=_no_link) as file:
                state = os.fstat(file.fileno())
                text = file.read(1024)
        except OSError as error:
            raise VaultTrouble(
                f"the key {path} cannot be read: {error.strerror}; it is the server's user's, and no link"
            ) from None
        if state.st_uid != self.folder.lstat().st_uid:
            raise VaultTrouble(f"the key {path} is somebody else's; `chown` it to whose {self.folder} is, or remove it")
        if state.st_mode & 0o077:
            raise VaultTrouble(f"others may read the key {path}: `chmod 600 {path}`, then `rift vault rotate`")
        key = read_key(text)
        if key is None or key_id(key) != _id(name):
            raise VaultTrouble(f"{path} does not hold the key of its name; the copy of your backup takes its place")
        return key

    def _make(self) -> None:
        key = AESGCM.generate_key(bit_length=KEY_BYTES * 8)
        with self._owned.as_owner():
            number = max((number for number, _ in self._names()), default=0) + 1
            try:
                write_whole(self.folder / f"{number:04}-{key_id(key).hex()}.key", told_key(key).encode() + b"\n")
            except OSError as error:
                raise VaultTrouble(f"a key cannot be made in {self.folder}: {error.strerror}") from None


def told_key(key: bytes) -> str:
    """A key as a file or a setting spells it: base64."""
    return base64.b64encode(key).decode()


def read_key(text: str | bytes) -> bytes | None:
    """A key from how it is spelled; None where that is no base64 of 32 bytes."""
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        return None
    return key if len(key) == KEY_BYTES else None


def _id(name: str) -> bytes:
    return bytes.fromhex(name.partition("-")[2].removesuffix(".key"))


def _no_link(path: str, flags: int) -> int:
    return no_wait(path, flags | os.O_NOFOLLOW)
