"""A stand-in whose every answer is held to GitHub's document, and a desk at it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.github import published
from tests.github.desk import Desk
from tests.github.published import Document
from tests.github.standin import StandIn


@pytest.fixture(scope="session")
def read_document() -> Callable[[], Document]:
    """Reads the document once for all tests of a worker."""
    kept: list[Document] = []

    def read() -> Document:
        if not kept:
            kept.append(published.document())
        kept[0].faults, kept[0].seen = [], set()
        return kept[0]

    return read


@pytest.fixture
def document(needs: Callable[[str], None], read_document: Callable[[], Document]) -> Iterator[Document]:
    """GitHub's document. At the end nothing that was looked at may differ from it."""
    needs("npm")
    document = read_document()
    yield document
    assert document.faults == []


@pytest.fixture
def checked(document: Document) -> Iterator[Desk]:
    """A desk whose answers are looked at."""
    with StandIn(look=document.look) as github, Desk(github) as desk:
        yield desk


@pytest.fixture
def desk(github: StandIn) -> Iterator[Desk]:
    with Desk(github) as desk:
        yield desk
