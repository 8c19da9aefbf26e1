"""The stand-in's git side is git's own: clones, pushes, refusals, LFS, by real git."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.github.model import App, Owner, Repo
from tests.github.standin import StandIn

WHO = {f"GIT_{role}_{what}": "a@example.org" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


class Desk:
    """An organization with an App, a person who administers it, and a repository that the App covers."""

    def __init__(self, github: StandIn, folder: Path) -> None:
        self.github = github
        self.folder = folder
        self.ada: Owner = github.make_user("ada")
        self.grace: Owner = github.make_user("grace")
        self.acme: Owner = github.make_org("acme", admins=[self.ada], members=[self.grace])
        self.app: App = github.make_app(self.acme)
        self.repo: Repo = github.make_repo("acme/app")
        self.other: Repo = github.make_repo("acme/other")
        self.installation = github.install(self.app, self.acme, [self.repo])
        self.token = github.user_token(self.app, self.ada).value

    def url(self, token: str | None = None, full: str = "acme/app") -> str:
        secret = self.token if token is None else token
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
def desk(github: StandIn, tmp_path: Path) -> Desk:
    return Desk(github, tmp_path)


def test_a_push_of_git_arrives_and_is_told_to_the_app(desk: Desk) -> None:
    checkout = desk.cloned()
    desk.commit(checkout)
    code, said = desk.git("push", "origin", "HEAD:feature", cwd=checkout)
    assert code == 0, said
    assert desk.github.read(desk.repo, "new.txt", "feature") == b"new\n"
    told = desk.github.hooks.last("push").body
    assert (told["ref"], told["created"], told["pusher"]["name"]) == ("refs/heads/feature", True, "ada")
    assert [one["added"] for one in told["commits"]] == [["new.txt"]]


def test_a_protected_branch_refuses_and_the_rest_of_the_push_goes_through(desk: Desk) -> None:
    desk.github.protect(desk.repo, "main")
    checkout = desk.cloned()
    desk.commit(checkout)
    before = desk.github.head(desk.repo)
    code, said = desk.git("push", "origin", "HEAD:main", "HEAD:feature", cwd=checkout)
    assert code == 1
    assert "GH006: Protected branch update failed for refs/heads/main." in said
    assert desk.github.head(desk.repo) == before
    assert desk.github.head(desk.repo, "feature")


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
def test_who_may_not_see_a_repository_hears_that_it_is_not_there(desk: Desk, who: str, full: str, said: str) -> None:
    tokens = {
        "nobody": "", "liar": "ghu_no", "ada": desk.token,
        "stranger": desk.github.user_token(desk.app, desk.github.make_user("eve")).value,
        "installation": desk.github.installation_token(desk.installation).value,
    }  # fmt: skip
    url = f"{desk.github.url}/{full}.git" if who == "nobody" else desk.url(tokens[who], full)
    code, heard = desk.git("ls-remote", url)
    assert code == 128
    assert said in heard


def test_who_may_only_read_cannot_push(desk: Desk) -> None:
    checkout = desk.cloned()
    desk.commit(checkout)
    token = desk.github.user_token(desk.app, desk.grace).value
    code, said = desk.git("push", desk.url(token), "HEAD:feature", cwd=checkout)
    assert code == 128
    assert "Permission to acme/app.git denied to grace." in said


def test_a_token_of_a_suspended_installation_opens_nothing(desk: Desk) -> None:
    token = desk.github.installation_token(desk.installation).value
    assert desk.git("ls-remote", desk.url(token))[0] == 0
    desk.github.suspend(desk.installation)
    assert desk.git("ls-remote", desk.url(token))[0] == 128
    assert desk.git("ls-remote", desk.url())[0] == 128


def test_git_follows_a_repository_that_was_renamed(desk: Desk) -> None:
    checkout = desk.cloned()
    desk.github.rename(desk.repo, "better")
    code, said = desk.git("fetch", "origin", cwd=checkout)
    assert code == 0
    assert "redirecting to" in said


def test_an_archived_repository_can_only_be_read(desk: Desk) -> None:
    checkout = desk.cloned()
    desk.commit(checkout)
    desk.github.archive(desk.repo)
    code, said = desk.git("push", "origin", "HEAD:feature", cwd=checkout)
    assert code == 128
    assert "archived so it is read-only" in said
    assert desk.git("fetch", "origin", cwd=checkout)[0] == 0


def test_what_came_from_outside_is_what_git_fetches(desk: Desk) -> None:
    checkout = desk.cloned()
    files = {
        "run": ("100755", b"#!/bin/sh\n"),
        "link": ("120000", b"run"),
        'odd "\n\u00fc': b"\x00\xff",
        "README.md": None,
    }
    head = desk.github.push_from_outside(desk.repo, "main", files, by=desk.ada)
    assert desk.git("pull", "-q", cwd=checkout) == (0, "")
    assert desk.git("rev-parse", "HEAD", cwd=checkout) == (0, f"{head}\n")
    assert (checkout / 'odd "\n\u00fc').read_bytes() == b"\x00\xff"
    assert os.access(checkout / "run", os.X_OK)
    assert os.readlink(checkout / "link") == "run"
    assert not (checkout / "README.md").exists()
