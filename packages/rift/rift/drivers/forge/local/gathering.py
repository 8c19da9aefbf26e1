"""What a checkout needs beside the mirror's own objects, brought to the mirror: submodules and LFS files.

What was gathered for a commit is written to `rift/<commit>.json` in the mirror, for whoever makes the checkout:

    {"commit", "lfs": [oid, …], "lacks": [sentence, …],
     "modules": [{"name", "path", "url", "commit", "folder", "within", "lfs": [oid, …]}, …]}

Each submodule has a mirror of its own in `modules/<folder>`, shared by all commits that have it by that address;
`within` is the number of the one that it is listed in, none for the repository itself. They stand in this order.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keel.hosts import is_public, system_resolve
from rift.drivers.forge.local import lfs, modules, trees
from rift.drivers.forge.local.git import git
from rift.drivers.forge.local.mirrors import PLAINLY, Mirrors, Opening
from rift.drivers.forge.local.modules import BadModule, Listed
from rift.drivers.forge.local.trees import Entry
from rift.drivers.forge.protocol import Access, ForgeError, Gathered
from rift.drivers.locks import locked

GATHERED = "rift"
MODULES = "modules"
STORE = "lfs"
KEPT = "refs/rift/gathered/"


@dataclass(slots=True)
class _Work:
    """One gathering, under way."""

    mirror: Path
    modules: list[dict[str, Any]] = field(default_factory=list)
    lacks: list[str] = field(default_factory=list)


class Gathering:
    """`data` is the data folder, below which no submodule is read; the seconds limit one call of git's each."""

    def __init__(self, mirrors: Mirrors, data: Path | None, heads_seconds: float, fetch_seconds: float) -> None:
        self._mirrors = mirrors
        self._data = data
        self._heads_seconds = heads_seconds
        self._fetch_seconds = fetch_seconds

    async def gather(self, url: str, mirror: Path, commit: str, access: Access | None) -> Gathered:
        """As the forge's. A commit of which something was lacking is looked at again."""
        await git(f"--git-dir={mirror}", "cat-file", "-e", f"{commit}^{{commit}}", seconds=self._heads_seconds)
        async with locked(mirror.with_name(f".{mirror.name}.gather.lock")):
            known = await asyncio.to_thread(gathered, mirror, commit)
            if known is not None and not known["lacks"]:
                return Gathered()
            work = _Work(mirror)
            oids = await self._walk(work, mirror, url, Opening(access), commit, None, "", 0)
            lacks = tuple(dict.fromkeys(work.lacks))
            told = {"commit": commit, "lfs": oids, "lacks": lacks, "modules": work.modules}
            await asyncio.to_thread(_write, mirror, commit, told)
        return Gathered(lacks)

    async def _walk(
        self,
        work: _Work,
        repository: Path,
        url: str,
        opening: Opening,
        commit: str,
        within: int | None,
        above: str,
        depth: int,
    ) -> list[str]:
        """Gather for one commit of a repository whose checkout stands below `above`; its LFS files that are there."""
        found = await trees.entries(repository, commit)
        asked = await lfs.wanted(repository, found)
        store = work.mirror / STORE
        why = await lfs.fetch(
            repository, store, commit, url, opening, asked, self._fetch_seconds, self._mirrors.floor(repository)
        )
        if why is not None:
            work.lacks.append(why)
        here = [one.oid for one in asked.pointers if await asyncio.to_thread(lfs.kept, store, one)]
        links = [one for one in found if one.mode == trees.LINK]
        if links:
            known = await self._listed(work, repository, found, above)
            for link in links:
                shown = lfs.names([above + link.path])
                try:
                    await self._module(work, url, opening, known.get(link.path), link, within, above, depth)
                except (BadModule, ForgeError) as error:
                    work.lacks.append(f"Submodules are not checked out: {shown}: {error}.")
        return sorted(here)

    async def _listed(self, work: _Work, repository: Path, found: list[Entry], above: str) -> dict[str, Listed]:
        files = [one for one in found if one.path == ".gitmodules" and one.mode in trees.FILES]
        if not files or files[0].size > trees.TEXT_MOST:
            return {}
        try:
            return modules.listed(await trees.modules_file(repository, files[0].object))
        except ForgeError as error:
            work.lacks.append(f"The list of submodules cannot be read: {above}.gitmodules: {error.reason}.")
            return {}

    async def _module(
        self,
        work: _Work,
        base: str,
        opens: Opening,
        entry: Listed | None,
        link: Entry,
        within: int | None,
        above: str,
        depth: int,
    ) -> None:
        """One submodule of the repository at `base`, and what is in it. Raises BadModule, ForgeError."""
        if entry is None:
            raise BadModule("no address is listed for it")
        if depth >= modules.DEPTH_MOST or len(work.modules) >= modules.MODULES_MOST:
            raise BadModule(f"there are more than {modules.MODULES_MOST}, or they stand too deep in one another")
        modules.check_place(entry.name, entry.path)
        for other in work.modules:
            if other["within"] == within and _inside(entry.name, other["name"]):
                raise BadModule(f"its name is taken by {lfs.names([other['path']])}")
        source = modules.source(base, entry.url, self._data)
        folder = hashlib.sha256(source.url.encode()).hexdigest()[:32]
        mirror = work.mirror / MODULES / folder
        opening = opens if source.own else await self._opening(source)
        await self._bring(source.url, mirror, opening, link.object)
        module: dict[str, Any] = {"name": entry.name, "path": entry.path, "url": source.url, "lfs": []}
        module |= {"commit": link.object, "folder": folder, "within": within}
        work.modules.append(module)
        number = len(work.modules) - 1
        inner = f"{above}{entry.path}/"
        module["lfs"] = await self._walk(work, mirror, source.url, opening, link.object, number, inner, depth + 1)

    async def _bring(self, url: str, mirror: Path, opening: Opening, commit: str) -> None:
        """Have the commit in the submodule's mirror, and keep it there. Raises ForgeError."""
        if not await self._there(mirror, commit):
            await self._mirrors.bring(url, mirror, opening)
            if not await self._there(mirror, commit):
                words = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules")
                await git(
                    *opening.words, f"--git-dir={mirror}", *words, "--", url, commit,
                    seconds=self._fetch_seconds, url=url, access=opening.access, more=opening.more,
                    floor=self._mirrors.floor(mirror),
                )  # fmt: skip
        await git(f"--git-dir={mirror}", "update-ref", KEPT + commit, commit, seconds=self._heads_seconds)

    async def _there(self, mirror: Path, commit: str) -> bool:
        if not await asyncio.to_thread((mirror / "objects").is_dir):
            return False
        try:
            await git(f"--git-dir={mirror}", "cat-file", "-e", f"{commit}^{{commit}}", seconds=self._heads_seconds)
        except ForgeError:
            return False
        return True

    async def _opening(self, source: modules.Source) -> Opening:
        """What opens an origin on another host than the repository that lists it: nothing, and only one of the open
        internet is asked, at the address that was looked at. Raises BadModule.
        """
        if not source.host:
            return PLAINLY
        try:
            addresses = await system_resolve(source.host, source.port)
        except OSError as error:
            raise BadModule(f"{source.host} is not found: {error.strerror or error}") from None
        if not addresses or not all(is_public(ipaddress.ip_address(one)) for one in addresses):
            raise BadModule(f"{source.host} is no host of the open internet, nor the repository's own")
        pinned = f"{source.host}:{source.port}:{','.join(addresses)}"
        words = (
            "credential.helper=",
            "http.followRedirects=false",
            "http.cookieFile=",
            "http.curloptResolve=" + pinned,
        )
        more = await asyncio.to_thread(_without_netrc)
        return Opening(None, tuple(word for one in words for word in ("-c", one)), more, stranger=True)


def _without_netrc() -> dict[str, str]:
    """Variables by which git has the operator's proxies and certificates, and none of what opens hosts to them."""
    more = {"HOME": "/nonexistent", "GIT_ASKPASS": "/bin/false"}
    home = Path(os.environ.get("HOME", "/nonexistent"), ".gitconfig")
    if "GIT_CONFIG_GLOBAL" not in os.environ and home.is_file():
        more["GIT_CONFIG_GLOBAL"] = str(home)
    return more


def _inside(name: str, other: str) -> bool:
    """Whether one of two names of submodules is the other's, or would lie in its folder."""
    return name == other or name.startswith(f"{other}/") or other.startswith(f"{name}/")


def gathered(mirror: Path, commit: str) -> dict[str, Any] | None:
    """What was gathered for a commit; None where nothing was."""
    try:
        told = json.loads((mirror / GATHERED / f"{commit}.json").read_text())
    except (OSError, ValueError):
        return None
    return told if isinstance(told, dict) else None


def _write(mirror: Path, commit: str, told: dict[str, Any]) -> None:
    folder = mirror / GATHERED
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    fresh = folder / f".{commit}.new"
    fresh.write_text(json.dumps(told))
    fresh.chmod(0o644)
    fresh.replace(folder / f"{commit}.json")
