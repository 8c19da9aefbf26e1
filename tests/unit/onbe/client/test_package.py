"""What the package needs, and what its page says of it."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys

from tests.arch.source import ROOT

import onbe_client
from onbe_client import OnbeError, errors

PAGE = (ROOT / "docs/onbe-client.md").read_text("utf-8")


def kinds() -> set[type[OnbeError]]:
    return {kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, OnbeError)}


def test_agents_and_tool_servers_load_no_server_code_and_no_framework() -> None:
    program = "import sys, onbe_client, onbe_client.sync, onbe_client.guard; print(*sorted(sys.modules))"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    loaded = {name.partition(".")[0] for name in said}
    assert not loaded & {"keel", "onbe", "rift", "starlette", "fastapi", "mcp", "pydantic", "uvicorn", "psycopg"}


def test_every_error_is_exported_and_told_in_the_manual() -> None:
    names = {kind.__name__ for kind in kinds()}
    assert names <= set(onbe_client.__all__)
    assert names == set(re.findall(r"^\| \**`(\w+)`\** \|", PAGE, re.MULTILINE)) | {"OnbeError"}


def test_the_tree_of_errors_is_as_its_docstring_draws_it() -> None:
    drawn: dict[str, str] = {}
    line_of: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"([│├└─ ]*)([A-Z]\w+)(?:\s|$)", line)
        if not found or line.startswith(("Sources", "What")):
            continue
        depth = len(found[1]) // 3
        line_of[depth:] = [found[2]]
        if depth:
            drawn[found[2]] = line_of[depth - 1]
    assert drawn == {kind.__name__: kind.__bases__[0].__name__ for kind in kinds() - {OnbeError}}


def test_every_kind_says_what_to_do() -> None:
    assert all(kind.advice.endswith(".") and len(kind.advice) > 10 for kind in kinds())
