"""What every test has: databases and fakes (keel.testing.plugin), and missing tools told instead of hidden."""

from __future__ import annotations

import functools
import importlib
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:  # pytest loads the plugin itself
    from keel.testing.plugin import Cluster, FreshDatabase

# How long an example takes says more about the machine than about us; what failed can be played again.
settings.register_profile("house", deadline=None, print_blob=True)
settings.load_profile("house")

pytest_plugins = ["keel.testing.plugin", "tests.github.fixtures"]

UV_NODE = ".venv/bin/uv pip install --require-hashes -r requirements/node.txt"
TOOLS = {
    "node": (("node", "--version"), 22, UV_NODE),
    "npm": (("npm", "--version"), 10, UV_NODE),
    "chromium": (("chromium", "--version"), 0, "apt-get install chromium"),
    "cc": (("cc", "-dumpversion"), 0, "apt-get install gcc"),
    "nix": (("nix", "--version"), 0, "apt-get install nix-bin"),
    "pasta": (("pasta", "--version"), 0, "apt-get install passt"),
    "nft": (("/usr/sbin/nft", "--version"), 0, "apt-get install nftables"),
    "git-lfs": (("git-lfs", "version"), 0, "apt-get install git-lfs"),
    "curl": (("curl", "--version"), 0, "apt-get install curl"),
    "wget": (("wget", "--version"), 0, "apt-get install wget"),
    "nginx": (("/usr/sbin/nginx", "-v"), 0, "apt-get install nginx-light"),
    "ip": (("ip", "-V"), 0, "apt-get install iproute2"),
}
"""Programs some tests need beyond git and Python: how to ask the version, the least major one, how to install."""


_NOT_RUN = "not run: "


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--all", action="store_true", help="a test whose tool is missing fails instead of being listed as not run"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(tool, ...): programs this test needs, of TOOLS in tests/conftest.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test has the same name in every process, or those that share the work cannot."""
    odd = [item.nodeid for item in items if re.search(r" at 0x[0-9a-f]{6,}", item.nodeid)]
    if odd:
        raise pytest.UsageError(f"tests named by where something lies in memory: {odd}")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test marked `needs("node")` runs where that program is, and says so where it is not."""
    for mark in item.iter_markers("needs"):
        for tool in mark.args:
            require(tool, item.config)


def require(tool: str, config: pytest.Config) -> None:
    """End this test as not run (with --all: failed) when `tool` is missing or too old."""
    lack = _lack(tool)
    if lack is None:
        return
    if config.getoption("--all"):
        pytest.fail(f"{_NOT_RUN}{lack}", pytrace=False)
    pytest.skip(f"{_NOT_RUN}{lack}")


@functools.cache
def _lack(tool: str) -> str | None:
    """What is wrong with a tool, and its mend; None when it will do."""
    command, least, mend = TOOLS[tool]
    if shutil.which(command[0]) is None:
        return f"{tool} is missing; install it with: {mend}"
    said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    number = re.search(r"\d+", said.stdout + said.stderr)
    if number is None or int(number[0]) < least:
        return f"{tool} is older than {least}; install it with: {mend}"
    return None


@pytest.fixture
def needs(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """For tools that only the test's body knows of: `needs("node")`."""
    return lambda tool: require(tool, request.config)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List what was not run, by what would make it run."""
    reasons: dict[str, int] = {}
    for report in terminalreporter.stats.get("skipped", []):
        _, _, reason = report.longrepr
        if _NOT_RUN in reason:
            text = reason[reason.index(_NOT_RUN) + len(_NOT_RUN) :]
            reasons[text] = reasons.get(text, 0) + 1
    if reasons:
        terminalreporter.section("not run")
        for text, count in sorted(reasons.items()):
            terminalreporter.line(f"{count} test{'s' if count > 1 else ''}: {text}")


@pytest.fixture(scope="session")
def migrate_database() -> Callable[[str], object]:
    """Rift's schema, in the template that each test's database is copied from."""
    migrate: Callable[[str], object] = importlib.import_module("rift.migrations").migrate
    return migrate


@pytest.fixture(scope="session")
def onbe_cluster() -> Iterator[Cluster]:
    """The run's Postgres with Onbe's schema."""
    from keel.testing.plugin import cluster_of

    migrate: Callable[[str], object] = importlib.import_module("onbe.migrations").migrate
    with cluster_of("onbe", migrate) as made:
        yield made


@pytest.fixture
def onbe_database(onbe_cluster: Cluster) -> Iterator[FreshDatabase]:
    """A database of this test's own with Onbe's schema in it; its addresses look names up there."""
    from keel.testing.plugin import FreshDatabase, fresh_database

    in_schema: Callable[[str], str] = importlib.import_module("onbe.migrations").in_schema
    with fresh_database(onbe_cluster) as fresh:
        yield FreshDatabase(fresh.name, in_schema(fresh.owner), in_schema(fresh.runtime))
