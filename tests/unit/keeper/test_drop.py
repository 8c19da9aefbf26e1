"""A process that gives root away, and what it can still load."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.behaviour.privileges.table import Status

from keel.children import environment
from rift.cli import keeper
from rift.cli.place import Place
from rift.settings import DatabaseSettings, RiftSettings

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give root away")

BECOME = """
import os, sys
sys.path.insert(0, sys.argv[1])
import kept
from rift.keeper.drop import become
become(65534, 65534, parent=os.getppid())
"""


def run(folder: Path, body: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-P", "-c", BECOME + body, str(folder)]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    """A folder of modules below one that nobody but root may enter, as a checkout in /root is."""
    folder = tmp_path / "closed" / "modules"
    (folder / "kept").mkdir(parents=True)
    for name, text in (("kept/__init__.py", ""), ("kept/later.py", "found = 1\n"), ("other.py", "found = 2\n")):
        (folder / name).write_text(text)
    for path in (folder, folder / "kept"):
        path.chmod(0o755)
    (tmp_path / "closed").chmod(0o700)
    (tmp_path / "closed" / "secret").touch(mode=0o644)
    return folder


@root_only
def test_everything_is_given_away_at_once_and_for_good(modules: Path) -> None:
    told = run(modules, "print(open('/proc/self/status').read(), os.getcwd(), oct(os.umask(0)))")
    assert told.returncode == 0, told.stderr
    status = Status("self")
    status.values = dict(line.split(":\t", 1) for line in told.stdout.splitlines() if ":\t" in line)
    assert (status.ids("Uid"), status.ids("Gid"), status.ids("Groups")) == ({65534}, {65534}, set())
    assert [status.bits(f"Cap{kind}") for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")] == [0] * 5
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert told.stdout.split()[-2:] == ["/", "0o77"]


@root_only
def test_modules_below_a_closed_folder_are_found_and_what_is_beside_them_is_not(modules: Path) -> None:
    told = run(
        modules,
        "import kept.later, other\n"
        "print(kept.later.found + other.found)\n"
        f"for path in ({str(modules)!r}, {str(modules.parent / 'secret')!r}):\n"
        "    print(os.access(path, os.R_OK))\n",
    )
    assert told.stdout.split() == ["3", "False", "False"], told.stderr


@root_only
def test_modules_that_are_closed_themselves_are_told_with_their_folder(modules: Path) -> None:
    modules.chmod(0o700)
    told = run(modules, "print('went on')")
    assert told.returncode == 1
    assert "went on" not in told.stdout
    assert f"the server's user may not read it: '{modules}'" in told.stderr


@root_only
def test_a_process_whose_parent_has_gone_ends() -> None:
    body = "from rift.keeper.drop import become\nbecome(65534, 65534, parent=1)\nprint('went on')"
    words = [sys.executable, "-P", "-c", body]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "")


def test_of_the_environment_only_what_is_nobodys_secret_is_passed_on() -> None:
    ours = {
        "PATH": "/bin", "LANG": "C.UTF-8", "LC_ALL": "C", "OTEL_SERVICE_NAME": "rift", "HOME": "/root", "USER": "root",
        "GITHUB_TOKEN": "x", "GIT_ASKPASS": "/x", "SSH_AUTH_SOCK": "/x", "AWS_SECRET_ACCESS_KEY": "x",
        "HTTPS_PROXY": "http://me:x@proxy", "Rift__Database__Url": "postgresql://me:x@db/rift", "MAIL": "x",
    }  # fmt: skip
    assert environment(ours, "rift-server") == {
        "PATH": "/bin", "LANG": "C.UTF-8", "LC_ALL": "C", "OTEL_SERVICE_NAME": "rift",
        "HOME": "/", "USER": "rift-server", "LOGNAME": "rift-server",
    }  # fmt: skip


def test_the_server_is_told_the_database_under_the_runtime_role_and_no_other_address(tmp_path: Path) -> None:
    runtime, owner = "postgresql://runtime:one@db.test/rift", "postgresql://owner:hunter2@db.test/rift"
    settings = RiftSettings(database=DatabaseSettings(url=runtime, owner_url=owner))
    told = keeper.job(Place(tmp_path, settings), "serve", (5, 6), quiet=False)
    assert "hunter2" not in json.dumps(told)
    assert Place(tmp_path, RiftSettings.model_validate(told["settings"])).url("owner") == runtime


def test_every_setting_but_the_databases_reaches_the_server_as_it_is(tmp_path: Path) -> None:
    told = json.loads(json.dumps(keeper.job(Place(tmp_path, RiftSettings()), "up", (), quiet=True)))
    settings = RiftSettings.model_validate(told["settings"])
    assert settings.database.url == Place(tmp_path, RiftSettings()).url("runtime")
    assert settings.model_copy(update={"database": DatabaseSettings()}) == RiftSettings()
