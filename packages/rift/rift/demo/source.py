"""Which repository the demo plays with: the sample, or the one given, added when it is not there yet."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

from keel.refusal import Refusal
from keel.secrecy import masked
from keel.telling import Wrong
from rift.deps import Deps
from rift.drivers.forge.protocol import ForgeError
from rift.origins import actions as origins
from rift.origins.decide import url_of
from rift.people import actions as people
from rift.repos import actions as repos
from rift.repos.decide import main_of
from rift.repos.model import Repo

SAMPLE = "sample/hello"
OWNER = "demo"


async def admin(deps: Deps) -> str:
    """The address of the person whose agents play: the first platform admin."""
    async with deps.db.tx() as tx:
        found = await people.find_owner(tx, None)
    if isinstance(found, Refusal):
        raise Wrong("a platform admin", found.sentence, "rift user add EMAIL --admin")
    return found[0].email


async def sample(deps: Deps, email: str) -> Repo:
    """The sample repository that the first `rift up` made."""
    for repo in await _theirs(deps, email):
        if repo.full == SAMPLE:
            return repo
    raise Wrong(f"the repository {SAMPLE}", "there is none any more", "rift demo --repo PATH_OR_URL")


async def given(deps: Deps, email: str, origin: str) -> tuple[Repo, bool]:
    """The repository of this origin (a git URL or a path), and whether it was added for this."""
    located = url_of(origin.strip()) or str(await asyncio.to_thread(_path, origin.strip()))
    if isinstance(located, Refusal):
        raise Wrong("a git URL or a path", located.sentence)
    known = await _theirs(deps, email)
    for repo in known:
        if repo.url == located:
            return repo, False
    taken = {repo.full.lower() for repo in known}
    full = next(name for name in _names(located) if name.lower() not in taken)
    added = await origins.add_repo(deps, email, full, origin)
    if isinstance(added, Refusal):
        raise Wrong(f"that {full} can be added", added.sentence)
    return added, True


async def branch(deps: Deps, repo: Repo) -> str:
    """The repository's own branch: what its HEAD names, else the one that looks like the main one."""
    try:
        heads = await deps.forge.heads(repo.url)
    except ForgeError as error:
        raise Wrong(f"the branches of {repo.full}", masked(error.reason)) from error
    if not heads:
        raise Wrong(f"a branch in {repo.full}", "it has none yet", "commit something, and push it to its origin")
    own = await _head_of(repo.url)
    return own if own in heads else main_of(sorted(heads))


async def watched(deps: Deps, repo: Repo, ref: str) -> int | None:
    """How many warm boxes a ref has to have; None when it is not watched."""
    async with deps.db.tx() as tx:
        watch = await repos.watch_of(tx, repo.id, ref)
    return watch.warm if watch else None


async def _theirs(deps: Deps, email: str) -> list[Repo]:
    """What is in the person's own organization."""
    async with deps.db.tx() as tx:
        found = await people.find_owner(tx, email)
    if isinstance(found, Refusal):
        raise Wrong(f"the account {email}", found.sentence)
    return [view.repo for view in await repos.list_repos(deps) if view.repo.org == found[1].org]


def _path(origin: str) -> Path:
    return Path(origin).expanduser().resolve()


def _names(located: str) -> list[str]:
    """Names for it, the first one free is taken: demo/app, demo/app-2, …"""
    last = re.split(r"[/:]", located.rstrip("/"))[-1].removesuffix(".git")
    name = re.sub(r"[^A-Za-z0-9_.-]", "-", last).lstrip("-")[:90].strip(".") or "repository"
    return [f"{OWNER}/{name}", *(f"{OWNER}/{name}-{number}" for number in range(2, 1000))]


async def _head_of(url: str) -> str | None:
    """The branch that HEAD is at the origin; None when git does not say."""
    process = await asyncio.create_subprocess_exec(
        *("git", "ls-remote", "--symref", "--", url, "HEAD"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "true", "GIT_SSH_COMMAND": "ssh -oBatchMode=yes"},
    )
    try:
        async with asyncio.timeout(20):
            said, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        return None
    found = re.match(rb"ref: refs/heads/(\S+)\tHEAD", said)
    return found[1].decode(errors="replace") if found else None
