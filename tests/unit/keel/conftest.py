"""What the tests of keel's folders share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def passable() -> Iterator[Path]:
    """A folder that every user of the host may get to, as the data folder of root's is."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)
