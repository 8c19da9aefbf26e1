"""The behaviours manifest: each sentence of the contract, with the tests that show it.

The contract's pages are quoted in tests/vectors, their sentences with their tests stand in the `.toml` of the same
name beside this file. A test is named alone where one test has the name, else as `FOLDER/FILE::NAME`.
"""

from __future__ import annotations

import ast
import functools
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TESTS = HERE.parent
TASKS_PAGE = TESTS / "vectors" / "seed-tasks.txt"
TOOLS_PAGE = TESTS / "vectors" / "seed-tools.txt"
GRANTS_PAGE = TESTS / "vectors" / "seed-grants.txt"
PAGES = (TASKS_PAGE, TOOLS_PAGE, GRANTS_PAGE)


@dataclass(frozen=True)
class Sentence:
    """A sentence as the page has it, and the names of the tests that show it."""

    text: str
    tests: tuple[str, ...]


def sentences(page: Path) -> list[Sentence]:
    """The sentences of a page, in its order."""
    return [Sentence(one["text"], tuple(one["tests"])) for one in _read(page)["sentence"]]


def headings(page: Path) -> list[str]:
    """The lines of a page that are no sentences."""
    listed: list[str] = _read(page)["headings"]
    return listed


def _read(page: Path) -> dict[str, Any]:
    return tomllib.loads((HERE / f"{page.stem}.toml").read_text(encoding="utf-8"))


@functools.cache
def tests() -> dict[str, list[str]]:
    """Every test there is: its name, and the files that have one of that name, as `behaviour/stack/test_boxes`."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                found.setdefault(node.name, []).append(str(path.relative_to(TESTS).with_suffix("")))
    return found


def exists(name: str) -> bool:
    """Whether a name means exactly one test."""
    file, _, test = name.rpartition("::")
    files = tests().get(test, [])
    return file in files if file else len(files) == 1
