"""What `rift` says without a system: helps, settings, and data folders that cannot be."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.behaviour.cli.systems import free_port, rift

COMMANDS = (
    *("up", "down", "serve", "worker", "migrate", "doctor", "settings", "demo"),
    *("user add", "user ls", "user link", "user invite", "user admin", "user disable", "user enable"),
    *("org ls", "org invite", "mail test", "token new", "token ls", "token revoke"),
    *("repo add", "repo ls", "repo sync", "repo network", "repo push", "repo rename", "repo limits"),
    *("github app-manifest", "github status", "env check"),
    *("secret ls", "secret set", "secret rm", "vault status", "vault rotate", "vault prune"),
    *("audit ls", "audit show", "audit verify", "audit proof", "audit check", "audit checkpoint"),
    *("audit keys", "audit rotate", "audit erase"),
)
GROUPS = ("user", "token", "org", "mail", "repo", "github", "env", "secret", "vault", "audit")


def test_every_command_has_a_help_with_an_example_and_there_are_no_others() -> None:
    with ThreadPoolExecutor(2) as pool:
        helps = list(pool.map(lambda command: rift(*command.split(), "--help"), COMMANDS))
    for command, told in zip(COMMANDS, helps, strict=True):
        assert told.status == 0, told
        assert f"rift {command.split()[0]}" in told.out.partition("Example: ")[2], told.out
    listed = []
    for group in ("", *GROUPS):
        lines = rift(*group.split(), "--help").out.partition("Commands:\n")[2].splitlines()
        assert not any(line.rstrip().endswith("...") for line in lines), lines
        listed += [f"{group} {line.split()[0]}".strip() for line in lines]
    assert set(listed) == {*COMMANDS, *GROUPS}


@pytest.mark.parametrize(
    "line",
    [
        "frobnicate",
        "up --port 99999",
        "up --port x",
        "up --repo x",
        "token new --user a@b.cd",
        "repo network a/b --mode x",
    ],
)
def test_what_is_typed_wrong_is_said_with_the_help_to_ask_for_and_exits_2(line: str, tmp_path: Path) -> None:
    told = rift(*line.split(), env={"RIFT_DATA": str(tmp_path / "data")})
    assert told.status == 2, told
    assert "--help' for help." in told.err
    assert "Error: " in told.err
    assert told.out == ""
    assert not (tmp_path / "data").exists()


def test_settings_are_listed_with_default_and_purpose() -> None:
    told = rift("settings")
    assert told.status == 0
    assert any(line.split()[:2] == ["Rift:Server:Port", "7433"] for line in told.out.splitlines()), told.out
    rows = rift("settings", "--json").json
    assert {"name", "default", "what"} == set(rows[0])
    assert len(rows) == len(told.out.splitlines())
    assert all(row["what"].endswith(".") for row in rows)


def test_wrong_settings_are_all_named_at_once_without_their_values(tmp_path: Path) -> None:
    wrong = {"Rift__Server__Port": "hunter2", "Rift__Tasks__QuietLease": "swordfish", "RIFT__NOPE__X": "sesame"}
    for command in ("up", "doctor"):
        told = rift(command, "--data", tmp_path / "data", env=wrong)
        assert told.status == 1
        for name in ("Rift:Server:Port", "Rift:Tasks:QuietLease", "NOPE:X"):
            assert name in told.err, told
        assert not any(value in told.err + told.out for value in wrong.values())
        assert not (tmp_path / "data").exists()


def test_a_data_folder_that_cannot_be_made_is_said_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        told = rift("up", "--data", path)
        assert (told.status, told.out) == (1, "")
        assert told.err.startswith(f"rift: the data folder {path} cannot be made: ")
        assert told.err.endswith(". --data DIR names another.\n")


def test_a_data_folder_with_too_long_a_path_is_said_before_anything_is_made(tmp_path: Path) -> None:
    data = tmp_path / ("long" * 30)
    told = rift("up", "--data", data, "--port", str(free_port()))
    assert (told.status, told.out) == (1, "")
    assert "--data DIR with a shorter path helps." in told.err
    assert not (data / "postgres").exists()


def test_a_database_that_is_not_there_is_one_sentence_without_its_password(tmp_path: Path) -> None:
    url = f"postgresql://me:hunter2@127.0.0.1:{free_port()}/rift"
    for command in (("up",), ("user", "ls"), ("migrate",), ("worker",)):
        told = rift(*command, "--data", tmp_path, env={"Rift__Database__Url": url})
        assert (told.status, told.out) == (1, ""), told
        assert told.err.startswith("rift: the database cannot be used: "), told
        assert "Rift:Database:Url names another" in told.err
        assert told.err.count("\n") == 1
        assert "hunter2" not in told.err


def test_down_where_nothing_ever_was_says_so_and_makes_nothing(tmp_path: Path) -> None:
    told = rift("down", "--data", tmp_path / "data")
    assert (told.status, told.out) == (0, f"There is no Rift on {tmp_path / 'data'}: nothing to stop.\n")
    assert not (tmp_path / "data").exists()


def test_the_demo_where_nothing_serves_says_what_does(tmp_path: Path) -> None:
    told = rift("demo", "--data", tmp_path)
    assert (told.status, told.out) == (1, "")
    assert f"nothing serves {tmp_path}" in told.err
    assert f"up --demo --data {tmp_path}" in told.err


def test_a_fault_of_ours_is_one_sentence_and_whole_when_asked_for(tmp_path: Path) -> None:
    broken = (
        "import rift.cli.system as system\n"
        "def find(*_, **__): raise RuntimeError('two\\nlines')\n"
        "system.find = find\n"
        "from rift.cli import main\nmain()"
    )
    for verbose, shown in (([], False), (["-v"], True)):
        done = subprocess.run(
            [sys.executable, "-c", broken, *verbose, "down", "--data", str(tmp_path)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 1
        assert ("Traceback" in done.stderr) is shown
        assert shown or done.stderr == "rift: a fault: RuntimeError: two lines. `rift -v ...` tells where.\n"


def test_the_doctor_tells_each_finding_and_its_exit_code_says_whether_all_is_well(tmp_path: Path) -> None:
    tmp_path.chmod(0o711)
    told, listed = rift("doctor", "--data", tmp_path), rift("doctor", "--data", tmp_path, "--json")
    checks = json.loads(listed.out)
    assert told.status == listed.status == (0 if all(check["ok"] for check in checks) else 1)
    assert {"git", "python", "disk"} <= {check["name"] for check in checks}
    lines = [line for line in told.out.splitlines() if not line.startswith("       ")]
    assert [line.split()[0] for line in lines] == ["ok" if check["ok"] else "NO" for check in checks]
    bad = rift("doctor", "--data", tmp_path, env={"PATH": "/nonexistent"})
    assert bad.status == 1
    sudo = "" if os.geteuid() == 0 else "sudo "
    assert f"NO   git: There is no git.\n       mend: {sudo}apt install git\n" in bad.out


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file that is another user's")
def test_another_users_rift_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "rift.lock").touch()
    os.chown(tmp_path / "rift.lock", 1, 1)
    name = pwd.getpwuid(1).pw_name
    for command in ("up", "down", "doctor"):
        told = rift(command, "--data", tmp_path)
        assert (told.status, told.out) == (1, "")
        assert told.err == f"rift: the Rift on {tmp_path} is {name}'s. Run this as {name}; --data DIR names another.\n"
    assert [path.name for path in tmp_path.iterdir()] == ["rift.lock"]
