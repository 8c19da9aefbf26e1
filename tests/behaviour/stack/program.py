"""A whole Rift as a process of its own, to be killed and started again: `python program.py FOLDER PORT DATABASE`.

The same composition as `rift up`, with a database that the test has made. The first start makes the people, their
tokens and a watched repository, and leaves them in FOLDER/people.json. It prints one line once it serves.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from keel.refusal import Refusal
from keel.settings import load
from rift import app, serving
from rift.audit import Act
from rift.deps import Deps
from rift.origins import actions as origins
from rift.people import actions as people
from rift.people.model import Caller
from rift.settings import RepoSettings, RiftSettings, ServerSettings

T = TypeVar("T")

ADA, GRACE = "ada@example.org", "grace@example.org"
REPO = "acme/app"
CLIENTS = {"ada": (ADA, "Claude"), "ada again": (ADA, "Cursor"), "grace": (GRACE, "Codex")}
"""Whose token each is, and the name its client declared."""


async def main(data: Path, port: int, database: str) -> None:
    """Serve until SIGTERM, background work included."""
    settings = RiftSettings(
        server=ServerSettings(port=port),
        repos=RepoSettings(poll_every=timedelta(seconds=2)),
        log=load(RiftSettings, os.environ).log,
    )
    agents = data / "agents.sock"
    async with app.connect(settings, data, database, agent_url=f"unix:{agents}") as deps:
        if not (data / "people.json").exists():
            await first(deps)
        await serving.serve(deps, listening(port, agents), lambda: print("serving", flush=True), with_work=True)


async def first(deps: Deps) -> None:
    """Two people, three tokens, and Ada's repository with one warm box at its head."""
    tokens = {}
    for email in (ADA, GRACE):
        done(await people.add_user(deps, email, admin=email == ADA))
    for name, (email, client) in CLIENTS.items():
        token, secret = done(await people.new_token(deps, email, client))
        tokens[name] = secret
        if name == "ada":
            caller = Caller(token.user_id, email, True, token.id, client)
    origin = deps.data / "origin"
    await asyncio.to_thread(make_origin, origin)
    done(await origins.add_repo(deps, ADA, REPO, str(origin)))
    act = Act(caller, "rift_watch", {"repo": REPO, "ref": "main", "warm": 1}, deps.clock.monotonic())
    done(await origins.watch(deps, act, REPO, "main", 1))
    (deps.data / "people.json").write_text(json.dumps(tokens))


def done(result: T | Refusal) -> T:
    """What was made; a refusal ends the program."""
    if isinstance(result, Refusal):
        raise SystemExit(result.sentence)
    return result


def make_origin(path: Path) -> None:
    """A git repository with one commit on main."""
    path.mkdir()
    (path / "README.md").write_text("# app\n\nA project to work on.\n")
    git(path, "init", "-q", "-b", "main")
    git(path, "add", ".")
    git(path, "commit", "-q", "-m", "The first commit")


def git(path: Path, *arguments: str) -> str:
    """Run git there as nobody in particular; what it printed."""
    who = {f"GIT_{role}_{what}": "ada@example.org" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = {**os.environ, **who, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    ran = subprocess.run(["git", *arguments], cwd=path, env=environment, check=True, capture_output=True, text=True)
    return ran.stdout.strip()


def listening(port: int, agents: Path) -> list[socket.socket]:
    """The port for clients and the socket for boxes' agents."""
    people_side = socket.create_server(("127.0.0.1", port))
    agents.unlink(missing_ok=True)
    agents_side = socket.socket(socket.AF_UNIX)
    agents_side.bind(str(agents))
    agents.chmod(0o666)
    return [people_side, agents_side]


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
