"""A folder that belongs to one account: made for it alone, changed by one process at a time, safe for root to enter.

What its owner lays in it, as a link to a file of root's, leads nowhere that they may not go: root is them while it
reads or writes there.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from keel.accounts import AccountError, files_of


class OwnedFolder:
    """`trouble` makes what is raised from a sentence that names the mend."""

    def __init__(self, folder: Path, trouble: Callable[[str], Exception]) -> None:
        self.folder = folder
        self._trouble = trouble

    def have(self, below: str = "") -> None:
        """Make the folder, or the one of this name in it, where it is absent, as whoever has the one above it."""
        folder = self.folder / below
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            if folder.is_symlink() or not folder.is_dir():  # root would write where its owner laid a link to
                raise self._trouble(
                    f"{folder} is not a folder; move it away, and a copy of your backup to it"
                ) from None
        except OSError as error:
            raise self._trouble(f"the folder {folder} cannot be made: {error.strerror}") from None
        else:
            if os.geteuid() == 0 and not below:
                above = folder.parent.stat()
                os.chown(folder, above.st_uid, above.st_gid, follow_symlinks=False)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Make the folder where it is absent, and be the one process that changes it, as its owner."""
        self.have()
        path = self.folder / "lock"
        with self.as_owner():
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            except OSError as error:
                raise self._trouble(f"{path} cannot be used: {error.strerror}; it is the server's user's") from None
            with os.fdopen(descriptor) as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                yield

    @contextmanager
    def as_owner(self) -> Iterator[None]:
        """As root, be whose folder it is, for its files; what is made is theirs from its first moment on."""
        if os.geteuid() != 0:
            yield
            return
        try:
            owner = self.folder.lstat()
        except FileNotFoundError:  # nothing is there yet
            yield
            return
        try:
            with files_of(owner.st_uid, owner.st_gid):
                yield
        except AccountError as error:
            raise self._trouble(str(error)) from None
