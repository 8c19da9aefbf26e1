"""What the first `rift up` makes: an admin, a token, and a small repository to try things on."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from keel.refusal import Refusal
from rift.audit import Act
from rift.cli.place import Place
from rift.deps import Deps
from rift.mail import actions as mail
from rift.origins import actions as origins
from rift.people import actions as people
from rift.people.model import Caller
from rift.repos import actions as repos

EMAIL = "admin@localhost.localdomain"
CLIENT = "First"
REPO = "sample/hello"
BEGUN = "first-start"
"""The file in the data folder that says: the first start has begun, and its token was not shown yet."""
FILES = {
    "README.md": "# hello\n\nA small project to try Rift on. `python3 -m unittest` runs its tests.\n",
    "hello.py": '''"""Greets."""


def greet(name: str) -> str:
    """A greeting for `name`."""
    return f"Hello, {name}!"


if __name__ == "__main__":
    print(greet("world"))
''',
    "test_hello.py": """import time
import unittest

from hello import greet


class Greeting(unittest.TestCase):
    def test_it_greets_by_name(self):
        self.assertEqual(greet("Ada"), "Hello, Ada!")

    def test_it_takes_its_time(self):
        for step in range(3):
            print(f"step {step + 1} of 3", flush=True)
            time.sleep(0.3)

    def test_it_greets_in_any_script(self):
        self.assertEqual(greet("Ωμέγα"), "Hello, Ωμέγα!")


if __name__ == "__main__":
    unittest.main()
""",
}


@dataclass(frozen=True, slots=True)
class Start:
    """Who a token is for, and whether they have the sample; on the first start the token's secret, shown this once."""

    email: str
    sample: bool
    secret: str | None = None


class Ground(Protocol):
    """What a first start does in the data folder: all of it may be repeated."""

    async def begin(self) -> None:
        """Note that it has begun."""

    async def repository(self) -> None:
        """Have the sample repository stand in its place."""

    async def shown(self) -> None:
        """Note that it is over: its token stood on the screen."""


class OwnGround:
    """The data folder of whoever runs this."""

    def __init__(self, data: Path) -> None:
        self._data = data

    async def begin(self) -> None:
        await asyncio.to_thread((self._data / BEGUN).touch)

    async def repository(self) -> None:
        await asyncio.to_thread(make_repository, place_of(self._data))

    async def shown(self) -> None:
        await asyncio.to_thread((self._data / BEGUN).unlink, missing_ok=True)


def place_of(data: Path) -> Path:
    """Where the sample repository stands."""
    return data / "sample"


async def set_up(deps: Deps, ground: Ground | None = None) -> Start:
    """Make what a new system needs to be tried; nothing when somebody is already there.

    One that was interrupted goes on where it was, until `shown` says that its token was shown: that it is told once.
    `ground` does what has to be done in the data folder; without one, this process does.
    """
    ground = ground or OwnGround(deps.data)
    known = await people.list_users(deps)
    begun = deps.data / BEGUN
    if known and not await asyncio.to_thread(begun.exists):
        who = next((user for user in known if user.admin), known[0])
        theirs = [view.repo.full for view in await repos.list_repos(deps) if view.org == who.email]
        return Start(who.email, REPO in theirs)
    await ground.begin()
    user = next((one for one in known if one.email == EMAIL), None) or await people.add_user(deps, EMAIL, admin=True)
    if isinstance(user, Refusal):
        raise RuntimeError(user.sentence)
    await _forget_tokens(deps)
    made = await people.new_token(deps, EMAIL, CLIENT)
    if isinstance(made, Refusal):
        raise RuntimeError(made.sentence)
    token, secret = made
    await ground.repository()
    if REPO not in [view.repo.full for view in await repos.list_repos(deps) if view.org == EMAIL]:
        repo = await origins.add_repo(deps, EMAIL, REPO, str(place_of(deps.data)))
        if isinstance(repo, Refusal):
            raise RuntimeError(repo.sentence)
    caller = Caller(user.id, user.email, True, token.id, token.client)
    act = Act(caller, "rift_watch", {"repo": REPO, "ref": "main", "warm": 1}, deps.clock.monotonic())
    watched = await origins.watch(deps, act, REPO, "main", 1)
    if isinstance(watched, Refusal):
        raise RuntimeError(watched.sentence)
    return Start(EMAIL, sample=True, secret=secret)


async def _forget_tokens(deps: Deps) -> None:
    """Those of an interrupted first start, which nobody has seen."""
    tokens = await people.list_tokens(deps, EMAIL)
    for token in tokens if isinstance(tokens, list) else []:
        if token.client == CLIENT and token.revoked_at is None:
            await people.revoke_token(deps, token.id)


def make_repository(path: Path) -> None:
    """A git repository with one commit on main, in its place once it is whole."""
    if (path / ".git").exists():
        return
    draft = path.with_name(f".{path.name}.new")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    for name, text in FILES.items():
        (draft / name).write_text(text, encoding="utf-8")
    who = {
        "GIT_AUTHOR_NAME": "Rift",
        "GIT_AUTHOR_EMAIL": EMAIL,
        "GIT_COMMITTER_NAME": "Rift",
        "GIT_COMMITTER_EMAIL": EMAIL,
    }
    environment = {**os.environ, **who, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    for arguments in (
        ["init", "-q", "-b", "main"],
        ["add", "."],
        ["commit", "-q", "-m", "A small project to try Rift on"],
    ):
        subprocess.run(["git", *arguments], cwd=draft, env=environment, check=True, capture_output=True)
    draft.rename(path)


async def sign_in_link(deps: Deps, start: Start) -> str | None:
    """The secret of a link that signs the first admin in, made when it is shown, as it is good for minutes.

    None on a later start: `rift user link` prints one.
    """
    secret = await mail.link_for(deps, start.email) if start.secret else None
    return secret if isinstance(secret, str) else None


def welcome(address: str, place: Place, start: Start, link: str | None = None) -> list[str]:
    """What `rift up` prints once it serves, in under a screen."""
    lines = [f"Rift is up at {address}", f"  data: {place.data}", ""]
    another = place.spelled(f"user link {start.email}")
    if start.secret:
        lines += [f"Your first token ({start.email}), shown this once:", f"  {start.secret}", ""]
    else:
        lines += ["A token for a client:", f"  {place.spelled(f'token new --user {start.email} --client Claude')}", ""]
    if link:
        lines += [f"Sign in with a browser, once (`{another}` prints another link):"]
        lines += [f"  {address}/sign-in/link/{link}", ""]
    else:
        lines += ["A link that signs you in with a browser, once:", f"  {another}", ""]
    header = f'"Authorization: Bearer {start.secret or "<token>"}"'
    box = f"open a Rift task, take a box of {REPO} at main, and run its tests."
    return [
        *lines,
        "Connect a client by the address alone, for example Claude Code; it opens a page where you let it in:",
        f"  claude mcp add --transport http rift {address}/mcp",
        f"  (one that cannot sign in: the URL with --header {header})",
        "",
        f"Then ask your agent: {box if start.sample else 'call rift_whoami, and do what it says.'}",
        "Or, in another terminal:",
        *(f"  {place.spelled(one)}" for one in ("demo", "repo add OWNER/NAME URL_OR_PATH", "doctor")),
        "",
        f"Ctrl-C stops the server; boxes live on. `{place.spelled('down')}` stops those too.",
    ]
