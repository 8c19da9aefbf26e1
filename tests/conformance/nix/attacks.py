"""How a test has a flake's builder do something, and what is looked at afterwards."""

from __future__ import annotations

import os
import textwrap
from contextlib import suppress
from pathlib import Path

import pytest
from tests.conformance.nix.conftest import LocalKit
from tests.conformance.nix.flakes import derivation, flake

from rift.drivers.nix.protocol import BuildError, Built

BUILD = "e-1"
PYTHON = "/usr/bin/python3"
SYSTEM_PYTHON = pytest.mark.skipif(not Path(PYTHON).exists(), reason="attacks are programs for the system's Python")


def package(script: str, name: str = "attack") -> str:
    """A flake with one package, which a shell script builds."""
    return flake(f"{{ packages = [ {derivation(script, name)} ]; }}")


def python(program: str) -> str:
    """A flake whose one package is built by a program, which stands in the repository; $out is made before it."""
    quoted = f"mkdir $out; exec {PYTHON} ${{./attack.py}}"
    return package(quoted).replace("\\${./attack.py}", "${./attack.py}")


async def run(kit: LocalKit, program: str) -> str:
    """All that a program says which runs as the builder of a package; it is to fail or to end."""
    commit = kit.origin.commit({"flake.nix": python(program), "attack.py": textwrap.dedent(program)})
    with suppress(BuildError):
        await kit.builder.build(BUILD, kit.repo, kit.mirror, commit)
    return (await kit.builder.log(BUILD, 0)).data.decode("utf-8", "replace")


async def built(kit: LocalKit, text: str, links: dict[str, str] | None = None) -> Built:
    made = await kit.builder.build(BUILD, kit.repo, kit.mirror, kit.origin.commit({"flake.nix": text}, links))
    assert made is not None
    return made


async def reason(kit: LocalKit, text: str, links: dict[str, str] | None = None) -> str:
    with pytest.raises(BuildError) as told:
        await built(kit, text, links)
    return told.value.reason


def in_jails(kit: LocalKit) -> list[int]:
    """The processes of the host that have a store of the kit's for their own."""
    wanted, found = (kit.data / "nix" / kit.repo / "var").stat(), []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and os.path.samestat((entry / "root/nix/var").stat(), wanted):
                found.append(int(entry.name))
    return found
