"""Where tests write what nobody keeps: a database of tests in memory is made in a third of the time."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

_MEMORY = Path("/dev/shm")  # noqa: S108  # used only where it is
_ENOUGH = 2 << 30
"""Bytes that must be free there: a run's databases take up to half of one GiB."""


def scratch() -> Path:
    """The folder that short-lived folders are made in: memory, where there is plenty; TMPDIR, where one is set."""
    if "TMPDIR" in os.environ or not os.access(_MEMORY, os.W_OK | os.X_OK):
        return Path(tempfile.gettempdir())
    return _MEMORY if shutil.disk_usage(_MEMORY).free > _ENOUGH else Path(tempfile.gettempdir())
