"""What is installed is what is declared, pinned and hashed."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from tests.arch.source import PACKAGES, ROOT, modules


def plain(name: str) -> str:
    """A distribution's name as an index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def pins(name: str) -> dict[str, str]:
    """Distribution to version, of requirements/NAME.txt."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    return {
        plain(found[1]): found[2] for found in re.finditer(r"^([\w.-]+)(?:\[.*?\])?==([^\s;]+)", text, re.MULTILINE)
    }


def declared(package: str) -> set[str]:
    """Distributions that a package of ours says it needs, for its extras too."""
    project = tomllib.loads((PACKAGES[package] / "pyproject.toml").read_text())["project"]
    lists = [project["dependencies"], *project.get("optional-dependencies", {}).values()]
    return {plain(found[0]) for needs in itertools.chain(*lists) if (found := re.match(r"[\w.-]+", needs))}


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_a_package_declares_every_distribution_it_imports(package: str) -> None:
    known = packages_distributions()
    undeclared = {}
    for source in modules(package):
        for name in source.imports:
            top = name.partition(".")[0]
            if top in sys.stdlib_module_names or top == package or not top:
                continue
            names = {plain(found) for found in known.get(top, [top])}
            if not names & declared(package):
                undeclared[top] = source.place
    assert undeclared == {}


def test_what_our_packages_need_is_pinned() -> None:
    ours = {plain(path.name) for path in (ROOT / "packages").iterdir()}
    missing = {name for package in PACKAGES for name in declared(package)} - set(pins("dev")) - ours
    assert missing == set()


def test_tests_run_against_the_very_versions_that_are_served() -> None:
    assert {name: pins("dev").get(name) for name in pins("runtime")} == pins("runtime")
    assert pins("bootstrap")["uv"] == pins("runtime")["uv"]


@pytest.mark.parametrize("name", ["bootstrap", "runtime", "dev", "node"])
def test_every_pin_has_the_hash_of_its_files(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text().replace("\\\n", "")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert lines
    assert [line for line in lines if "--hash=sha256:" not in line] == []


def test_the_scripts_run_from_anywhere_and_explain_themselves() -> None:
    for name in ("script/up", "script/test", "script/lock", ".ci/run"):
        assert os.access(ROOT / name, os.X_OK), name
        assert (ROOT / name).read_text().splitlines()[1].startswith("# "), name


def test_a_machine_without_git_is_told_the_command(tmp_path: Path) -> None:
    program = f'here={tmp_path}; . "{ROOT}/script/bootstrap.sh"; PATH={tmp_path}; check_system'
    (tmp_path / "id").write_text("#!/bin/sh\necho 1000\n")
    (tmp_path / "apt-get").write_text("#!/bin/sh\n")
    for name in ("id", "apt-get"):
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(["/bin/sh", "-c", program], capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 1
    assert done.stderr == "git is needed. Install it: sudo apt-get install -y git\n"
