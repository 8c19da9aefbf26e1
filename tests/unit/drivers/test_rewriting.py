"""What a box's git takes for its origin, as git itself reads the file."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from rift.drivers.boxes.local.rewriting import BASE, git_config

DOOR = "http://127.0.0.1:3127/git/acme/app.git"
GITHUB = "https://github.com/acme/app.git"


def address(folder: Path, origin: str, asked: str) -> str:
    """Where git goes for `asked` in a box of that origin."""
    config = folder / "gitconfig"
    config.write_text(git_config("acme/app", origin))
    done = subprocess.run(
        ["git", "ls-remote", "--get-url", asked], capture_output=True, text=True, check=True, cwd=folder,
        env={"PATH": os.environ["PATH"], "GIT_CONFIG_SYSTEM": str(config), "GIT_CONFIG_GLOBAL": "/dev/null"},
    )  # fmt: skip
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("origin", "asked"),
    [
        (GITHUB, GITHUB),
        (GITHUB, "https://github.com/acme/app"),
        (GITHUB, "ssh://git@github.com/acme/app.git"),
        (GITHUB, "git@github.com:acme/app.git"),
        (GITHUB, "git@github.com:acme/app"),
        ("https://github.com/acme/app", GITHUB),
        ("https://git.corp:8443/acme/app.git", "https://git.corp:8443/acme/app.git"),
        ("git@corp:acme/app.git", "git@corp:acme/app.git"),
        ("ssh://git@corp:22/acme/app.git", "ssh://git@corp:22/acme/app.git"),
        ("/srv/git/app", "/srv/git/app"),
        ("/srv/git/app.git", "file:///srv/git/app.git"),
        ("file:///srv/git/app.git", "file:///srv/git/app.git"),
        ('/srv/a "quoted" \\ place/app', '/srv/a "quoted" \\ place/app'),
    ],
)
def test_every_spelling_of_the_origin_leads_to_the_door(tmp_path: Path, origin: str, asked: str) -> None:
    assert address(tmp_path, origin, asked) == DOOR


@pytest.mark.parametrize(
    ("origin", "asked"),
    [
        (GITHUB, "https://github.com/acme/app-two.git"),
        (GITHUB, "https://github.com/acme/app-two"),
        (GITHUB, "https://github.com/acme/app2"),
        (GITHUB, "https://github.com/acme/app.github.io"),
        (GITHUB, "https://github.com/acme/app.gitx"),
        (GITHUB, "https://github.com/acme/application.git"),
        (GITHUB, "https://github.com/acme/ap"),
        (GITHUB, "https://github.com/other/app.git"),
        (GITHUB, "git@github.com:acme/app_two.git"),
        (GITHUB, "https://gitlab.com/acme/app.git"),
        ("/srv/git/app", "/srv/git/app-two"),
        ("/srv/git/app", "/srv/git/app/modules/lib"),
        ("/tmp/a", "/tmp/ab"),
        ("/tmp/a", "/tmp/a.b/c"),
    ],
)
def test_no_other_address_is_touched(tmp_path: Path, origin: str, asked: str) -> None:
    assert address(tmp_path, origin, asked) == asked


def test_a_box_without_a_whole_name_has_no_door_in_its_git() -> None:
    assert git_config("app", GITHUB) == BASE
