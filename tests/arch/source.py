"""Our own source as data: files, the modules they import, the dotted names they call."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "keel": ROOT / "packages/keel",
    "rift": ROOT / "packages/rift",
    "rift_agent": ROOT / "packages/rift-agent",
    "onbe": ROOT / "packages/onbe",
    "onbe_client": ROOT / "packages/onbe-client",
}
PRODUCTS = ("rift", "onbe")
"""Those that have nouns."""


@dataclass(frozen=True)
class Source:
    """One Python file of ours. `name` is its dotted module name or, for a test, its path."""

    path: Path
    name: str

    @cached_property
    def text(self) -> str:
        return self.path.read_text("utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, str(self.path))

    @property
    def place(self) -> str:
        """Its path from the root, for messages."""
        return self.path.relative_to(ROOT).as_posix()

    @property
    def package(self) -> str:
        return self.name.partition(".")[0]

    @cached_property
    def imports(self) -> frozenset[str]:
        """Dotted names that it imports: `from a.b import c` is `a.b.c`. What only types use is not counted."""
        found: set[str] = set()
        for node in _walk_runtime(self.tree):
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = self._absolute(node)
                found.update(f"{base}.{alias.name}" for alias in node.names)
        return frozenset(found)

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = self.name.split(".")[: -node.level] if self.path.name != "__init__.py" else self.name.split(".")
        return ".".join([*parts, node.module] if node.module else parts)

    @cached_property
    def uses(self) -> tuple[tuple[str, int], ...]:
        """Dotted names used, as imported from the outside, with their lines: `datetime.datetime.now`, `time.sleep`."""
        known: dict[str, str] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    known[alias.asname or alias.name.partition(".")[0]] = (
                        alias.name if alias.asname else alias.name.partition(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    known[alias.asname or alias.name] = f"{self._absolute(node)}.{alias.name}"
        found = []
        for node in ast.walk(self.tree):
            dotted = _dotted(node)
            if dotted and (first := dotted.partition(".")[0]) in known:
                found.append((known[first] + dotted[len(first) :], getattr(node, "lineno", 0)))
        return tuple(found)


def _walk_runtime(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node but those under `if TYPE_CHECKING:`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            continue
        yield node
        yield from _walk_runtime(node)


def _dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = _dotted(node.value)
        return f"{base}.{node.attr}" if base else ""
    return ""


@cache
def modules(*packages: str) -> tuple[Source, ...]:
    """Every module of the packages named, or of all."""
    found = []
    for package in packages or tuple(PACKAGES):
        home = PACKAGES[package]
        for path in sorted((home / package).rglob("*.py")):
            parts = path.relative_to(home).with_suffix("").parts
            found.append(Source(path, ".".join(parts[:-1] if parts[-1] == "__init__" else parts)))
    return tuple(found)


@cache
def files_of_tests() -> tuple[Source, ...]:
    """Every Python file of the tests and benches."""
    paths = sorted([*(ROOT / "tests").rglob("*.py"), *(ROOT / "bench").rglob("*.py")])
    return tuple(Source(path, path.relative_to(ROOT).as_posix()) for path in paths)


@cache
def nouns(product: str) -> tuple[str, ...]:
    """The nouns of a product: its folders that hold a `model.py`."""
    return tuple(sorted(path.parent.name for path in (PACKAGES[product] / product).glob("*/model.py")))
