from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.agent.boxes import Box
from tests.conformance.agent.plane import Plane
from tests.conformance.agent.world import World, worlds

import rift_agent


@pytest.fixture(scope="session")
def archive() -> Iterator[Path]:
    folder = Path(
        tempfile.mkdtemp(prefix="rift-agent-")
    )  # readable by the box's user, which pytest's own folders are not
    folder.chmod(0o755)
    yield rift_agent.build(folder / "agent.pyz")
    shutil.rmtree(folder)


@pytest.fixture
def world() -> Iterator[World]:
    """A host in a network of its own; a module whose boxes live there has its `plane` there too."""
    yield from worlds()


@pytest.fixture
def plane() -> Iterator[Plane]:
    plane = Plane()
    yield plane
    plane.down()


@pytest.fixture
def make_box(archive: Path, plane: Plane) -> Iterator[Callable[..., Box]]:
    boxes: list[Box] = []

    def make(**changes: Any) -> Box:
        boxes.append(Box(archive, plane, **changes))
        return boxes[-1]

    yield make
    for box in boxes:
        box.end()


@pytest.fixture
def box(make_box: Callable[..., Box]) -> Box:
    return make_box().start().ready()
