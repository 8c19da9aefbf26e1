"""The contract's numbers stand there once: a second value of a name would silently be the one for all."""

from __future__ import annotations

import ast
from collections import Counter

import pytest
from tests.arch.source import modules


@pytest.mark.parametrize("module", ["onbe.names", "rift.names"])
def test_a_name_of_the_contract_has_one_value(module: str) -> None:
    (source,) = (one for one in modules() if one.name == module)
    counted: Counter[str] = Counter()
    for statement in source.tree.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        for target in targets:
            counted.update(node.id for node in ast.walk(target) if isinstance(node, ast.Name))
    assert [name for name, times in counted.items() if times > 1] == []
