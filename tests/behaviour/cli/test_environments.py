"""`rift env check`: a flake tried before it is pushed, without a server."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.behaviour.cli.systems import Told, folder, rift
from tests.conformance.nix.flakes import HELLO, SYSTEM, derivation, flake

from rift.drivers.nix.local.folder import Folder

pytestmark = pytest.mark.needs("nix")
GOOD = flake(f'{{ packages = [ {HELLO} ]; env.HELLO = "world"; setup = "echo one\\necho two\\n"; }}')


@pytest.fixture(scope="module")
def data() -> Iterator[Path]:
    with folder() as made:
        yield made


def check(data: Path, path: Path, *more: str, **env: str) -> Told:
    return rift(
        "env", "check", str(path), *more, env={"RIFT_DATA": str(data), "Rift__Environments__Substituters": "", **env}
    )


def test_a_good_flake_is_told_with_what_boxes_would_have(data: Path, tmp_path: Path) -> None:
    (tmp_path / "flake.nix").write_text(GOOD)
    told = check(data, tmp_path)
    assert told.status == 0, told
    first, package, *rest = told.out.splitlines()
    assert first == "Boxes would have 1 package, 1 variable, a setup of 2 lines, which was not run."
    assert package.startswith("  /nix/store/")
    assert package.endswith("-tool")
    assert rest == ["  HELLO=world", "  | echo one", "  | echo two"]
    assert "made it" in told.err
    as_json = json.loads(check(data, tmp_path, "--json").out)
    assert as_json["environment"]["env"] == {"HELLO": "world"}


def test_a_bad_flake_fails_with_the_text_that_a_head_would_have(data: Path, tmp_path: Path) -> None:
    (tmp_path / "flake.nix").write_text(flake("{ setup = 3; }"))
    told = check(data, tmp_path)
    sentence = f'fixed-labs.rift.{SYSTEM}.setup is a number; it should be a string. Write it as a string: "…".'
    assert (told.status, told.out) == (1, "")
    assert told.err.endswith(f"rift: {sentence}\n")
    assert json.loads(check(data, tmp_path, "--json").out) == {"ok": False, "reason": sentence}
    (tmp_path / "flake.nix").write_text(flake(f"{{ packages = [ {derivation('echo no such luck; exit 9')} ]; }}"))
    told = check(data, tmp_path)
    assert told.status == 1
    assert "rift: A package cannot be built:\n" in told.err
    assert "no such luck" in told.err


def test_what_git_does_not_know_is_left_out_and_named(data: Path, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "flake.nix").write_text(flake("{ env.NAME = builtins.readFile ./name; }"))
    (tmp_path / "name").write_text("one")
    subprocess.run(["git", "-C", tmp_path, "add", "flake.nix"], check=True)
    told = check(data, tmp_path)
    assert told.status == 1
    assert "Left out, as git does not know them (`git add` has them counted): name\n" in told.err
    subprocess.run(["git", "-C", tmp_path, "add", "name"], check=True)
    (tmp_path / "name").write_text("two")  # as it is now, not as it was added
    told = check(data, tmp_path)
    assert told.status == 0, told
    assert "NAME=two" in told.out


def test_a_folder_without_a_flake_of_ours_has_the_base(data: Path, tmp_path: Path) -> None:
    told = check(data, tmp_path)
    base = "No flake.nix of this folder has fixed-labs in it: boxes would have the base environment.\n"
    assert (told.status, told.out) == (0, base)
    (tmp_path / "flake.nix").write_text("{ outputs = { self }: { }; }")
    assert check(data, tmp_path).out == base
    assert json.loads(check(data, tmp_path, "--json").out) == {"ok": True, "environment": None}


def test_what_cannot_be_tried_is_told_by_an_exit_code_of_its_own(data: Path, tmp_path: Path) -> None:
    told = check(data, tmp_path / "absent")
    assert (told.status, told.err) == (2, f"rift: {tmp_path}/absent is no folder.\n")


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_what_the_host_refuses_is_no_fault_of_the_flake(more: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "flake.nix").write_text(GOOD)
    with folder() as data:
        there = data / "nix" / Folder(tmp_path).name
        there.parent.mkdir(mode=0o711)
        there.write_text("in the way")
        told = check(data, tmp_path, *more)
        reason = f"{there}: File exists."
    assert told.status == 2
    assert json.loads(told.out) == {"ok": False, "reason": reason} if more else told.err == f"rift: {reason}\n"
