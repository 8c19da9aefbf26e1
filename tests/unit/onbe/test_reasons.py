"""The list of reasons is closed: each is provoked by a test, and none stands there for nobody."""

from __future__ import annotations

import ast
import importlib
from functools import cache
from pathlib import Path

import pytest

from onbe.catalogue import REASONS

TESTS = Path(__file__).parents[2]
NOT_TESTS = {"unit/docs", "behaviour/seed-grants.toml"}
"""Pages that list every reason, and provoke none."""

for noun in ("credentials", "directory", "grants", "records", "tasks", "tokens"):
    importlib.import_module(f"onbe.{noun}.refusals")
importlib.import_module("onbe.wire.refusals")


@cache
def words_of_tests() -> frozenset[str]:
    """Every text that stands in a test of Onbe's, and the attributes that it looks up."""
    found: set[str] = set()
    for path in TESTS.rglob("*.py"):
        place = path.relative_to(TESTS).as_posix()
        if "onbe" not in place or path == Path(__file__) or place.startswith(tuple(NOT_TESTS)):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value.removeprefix("urn:onbe:refusal:"))
            elif isinstance(node, ast.Attribute):
                found.add(node.attr)
    return frozenset(found)


@pytest.mark.parametrize("reason", sorted(REASONS))
def test_a_reason_is_named_by_a_test_that_provokes_it(reason: str) -> None:
    assert reason in words_of_tests()
