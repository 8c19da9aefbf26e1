"""The stand-in's git side is git's own: clones, pushes, refusals, LFS, by real git."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.github.desk import Desk

WHO = {f"GIT_{role}_{what}": "a@example.org" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


class Clone:
    """A desk, and real git beside it."""

    def __init__(self, desk: Desk, folder: Path) -> None:
        self.github, self.repo, self.app = desk.github, desk.repo, desk.app
        self.desk = desk
        self.folder = folder

    def url(self, token: str | None = None, full: str = "acme/app") -> str:
        secret = self.desk.token if token is None else token
        return self.github.url.replace("://", f"://x-access-token:{secret}@") + f"/{full}.git"

    def git(self, *words: str, cwd: Path | None = None) -> tuple[int, str]:
        """Run git; its exit code, and all that it said."""
        quiet = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_TERMINAL_PROMPT": "0", "HOME": str(self.folder)}
        done = subprocess.run(["git", *words], cwd=cwd or self.folder, env={**os.environ, **WHO, **quiet},
                              capture_output=True, text=True, check=False)  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    def cloned(self) -> Path:
        assert self.git("clone", "-q", self.url(), "app") == (0, "")
        return self.folder / "app"

    def commit(self, checkout: Path, name: str = "new.txt") -> None:
        (checkout / name).write_text("new\n")
        self.git("add", "-A", cwd=checkout)
        assert self.git("commit", "-q", "-m", "More", cwd=checkout)[0] == 0


@pytest.fixture
def clone(desk: Desk, tmp_path: Path) -> Clone:
    return Clone(desk, tmp_path)


def test_a_push_of_git_arrives_and_is_told_to_the_app(clone: Clone) -> None:
    checkout = clone.cloned()
    clone.commit(checkout)
    code, said = clone.git("push", "origin", "HEAD:feature", cwd=checkout)
    assert code == 0, said
    assert clone.github.read(clone.repo, "new.txt", "feature") == b"new\n"
    told = clone.github.hooks.last("push").body
    assert (told["ref"], told["created"], told["pusher"]["name"]) == ("refs/heads/feature", True, "ada")
    assert [one["added"] for one in told["commits"]] == [["new.txt"]]


def test_a_protected_branch_refuses_and_the_rest_of_the_push_goes_through(clone: Clone) -> None:
    clone.github.protect(clone.repo, "main")
    checkout = clone.cloned()
    clone.commit(checkout)
    before = clone.github.head(clone.repo)
    code, said = clone.git("push", "origin", "HEAD:main", "HEAD:feature", cwd=checkout)
    assert code == 1
    assert "GH006: Protected branch update failed for refs/heads/main." in said
    assert clone.github.head(clone.repo) == before
    assert clone.github.head(clone.repo, "feature")


@pytest.mark.parametrize(
    ("who", "full", "said"),
    [
        ("nobody", "acme/app", "could not read"),
        ("liar", "acme/app", "Invalid username or token"),
        ("ada", "acme/other", "Repository not found"),
        ("stranger", "acme/app", "Repository not found"),
        ("installation", "acme/other", "Repository not found"),
    ],
)  # fmt: skip
def test_who_may_not_see_a_repository_hears_that_it_is_not_there(clone: Clone, who: str, full: str, said: str) -> None:
    tokens = {
        "nobody": "", "liar": "ghu_no", "ada": clone.desk.token,
        "stranger": clone.github.user_token(clone.app, clone.desk.eve).value,
        "installation": clone.github.installation_token(clone.desk.installation).value,
    }  # fmt: skip
    url = f"{clone.github.url}/{full}.git" if who == "nobody" else clone.url(tokens[who], full)
    code, heard = clone.git("ls-remote", url)
    assert code == 128
    assert said in heard


def test_who_may_only_read_cannot_push(clone: Clone) -> None:
    checkout = clone.cloned()
    clone.commit(checkout)
    token = clone.github.user_token(clone.app, clone.desk.grace).value
    code, said = clone.git("push", clone.url(token), "HEAD:feature", cwd=checkout)
    assert code == 128
    assert "Permission to acme/app.git denied to grace." in said


def test_a_token_of_a_suspended_installation_opens_nothing(clone: Clone) -> None:
    token = clone.github.installation_token(clone.desk.installation).value
    assert clone.git("ls-remote", clone.url(token))[0] == 0
    clone.github.suspend(clone.desk.installation)
    assert clone.git("ls-remote", clone.url(token))[0] == 128
    assert clone.git("ls-remote", clone.url())[0] == 128


def test_git_follows_a_repository_that_was_renamed(clone: Clone) -> None:
    checkout = clone.cloned()
    clone.github.rename(clone.repo, "better")
    code, said = clone.git("fetch", "origin", cwd=checkout)
    assert code == 0
    assert "redirecting to" in said


def test_an_archived_repository_can_only_be_read(clone: Clone) -> None:
    checkout = clone.cloned()
    clone.commit(checkout)
    clone.github.archive(clone.repo)
    code, said = clone.git("push", "origin", "HEAD:feature", cwd=checkout)
    assert code == 128
    assert "archived so it is read-only" in said
    assert clone.git("fetch", "origin", cwd=checkout)[0] == 0


def test_what_came_from_outside_is_what_git_fetches(clone: Clone) -> None:
    checkout = clone.cloned()
    files = {
        "run": ("100755", b"#!/bin/sh\n"),
        "link": ("120000", b"run"),
        'odd "\n\u00fc': b"\x00\xff",
        "README.md": None,
    }
    head = clone.github.push_from_outside(clone.repo, "main", files, by=clone.desk.ada)
    assert clone.git("pull", "-q", cwd=checkout) == (0, "")
    assert clone.git("rev-parse", "HEAD", cwd=checkout) == (0, f"{head}\n")
    assert (checkout / 'odd "\n\u00fc').read_bytes() == b"\x00\xff"
    assert os.access(checkout / "run", os.X_OK)
    assert os.readlink(checkout / "link") == "run"
    assert not (checkout / "README.md").exists()
