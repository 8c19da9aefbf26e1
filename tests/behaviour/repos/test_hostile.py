"""Repositories that mean ill: none of what they hold runs on the host, leaves its place, or breaks those of others."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest
from tests.behaviour.repos.awkward import done, git, put, start
from tests.behaviour.repos.test_awkward import BOX, Site, ground, said, site

from rift.drivers.forge.protocol import ForgeError

__all__ = ["ground", "site"]

NEVER = Path("/tmp/rift-never")


@pytest.fixture(autouse=True)
def never() -> None:
    assert not NEVER.exists()


async def test_what_a_repository_would_have_run_does_not_run_on_the_host(site: Site) -> None:
    """Hooks, filters, fsmonitor, textconv, a configuration, includes: in the origin's own folder and in its tree."""
    tree = start(site.origins, "traps")
    trap = f"touch {NEVER}"
    put(tree, ".gitattributes", b"* filter=trap diff=trap merge=trap\n")
    settings = f"[core]\n\tfsmonitor = {trap}\n\tsshCommand = {trap}\n\thooksPath = hooks\n\tworktree = /\n"
    settings += f'[filter "trap"]\n\tsmudge = {trap}\n\tclean = {trap}\n\trequired = true\n'
    settings += f'[diff "trap"]\n\ttextconv = {trap}\n[uploadpack]\n\tpackObjectsHook = {trap}\n'
    for name in (".gitconfig", "config", ".lfsconfig"):
        put(tree, name, settings.encode())
    for name in ("post-checkout", "pre-push", "post-merge", "reference-transaction", "pre-receive"):
        put(tree, f"hooks/{name}", f"#!/bin/sh\n{trap}\n".encode())
        (tree / "hooks" / name).chmod(0o755)
    origin = await asyncio.to_thread(done, tree)
    with (origin / "config").open("a") as file:
        file.write(f"[uploadpack]\n\tpackObjectsHook = {trap}\n[core]\n\tfsmonitor = {trap}\n")
    for name in ("post-checkout", "post-upload-pack", "reference-transaction"):
        (origin / "hooks").mkdir(exist_ok=True)
        (origin / "hooks" / name).write_text(f"#!/bin/sh\n{trap}\n")
        (origin / "hooks" / name).chmod(0o755)
    seat, lacks = await site.take(origin)
    assert lacks == ()
    assert not NEVER.exists()
    assert await said(seat, "git status --porcelain; cat hooks/pre-push | head -1") == "#!/bin/sh\n"


@pytest.mark.parametrize(
    "url",
    [f"ext::sh -c touch% {NEVER}", f"--upload-pack=touch {NEVER}", "fd::7", "/root", "file:///etc", "../../../root",
     "http://127.0.0.1:9/x", "http://169.254.169.254/latest", "http://localhost/x", "ssh://-oProxyCommand=touch/x"],
)  # fmt: skip
async def test_a_submodule_that_leads_astray_is_told_and_the_rest_is_there(site: Site, url: str) -> None:
    tree = start(site.origins, "astray")
    put(tree, ".gitmodules", f'[submodule "evil"]\n\tpath = evil\n\turl = "{url}"\n'.encode())
    git(tree, "add", "-A")
    git(tree, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},evil")
    git(tree, "commit", "-q", "-m", "x")
    git(site.origins, "clone", "-q", "--bare", str(tree), "astray.git")
    seat, lacks = await site.take(site.origins / "astray.git")
    assert len(lacks) == 1
    assert lacks[0].startswith("Submodules are not checked out: evil: ")
    assert (await said(seat, "git status --porcelain; cat README.md")).endswith("# awkward\n")
    assert not NEVER.exists()


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("../../hooks", "sub"),
        ("x/../../y", "sub"),
        ("-u", "sub"),
        ("ok", "../out"),
        (".git", "sub"),
        ("ok", "link/sub"),
    ],
)
async def test_a_submodule_s_hostile_place_is_refused_in_one_sentence(site: Site, name: str, path: str) -> None:
    """`link` is a link to elsewhere in the tree that stands in the submodule's way."""
    inner = start(site.origins, "inner")
    done(inner)
    commit = git(inner, "rev-parse", "HEAD")
    tree = start(site.origins, "hostile")
    (tree / "link").symlink_to("/tmp")
    listed = f'[submodule "{name}"]\n\tpath = {path}\n\turl = ../inner.git\n'
    put(tree, ".gitmodules", listed.encode())
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", "x")
    origin = site.origins / "hostile.git"
    git(site.origins, "clone", "-q", "--bare", str(tree), str(origin))
    head = await asyncio.to_thread(with_link, origin, path, commit)
    git(origin, "update-ref", "refs/heads/main", head)
    heads = await site.forge.fetch(str(origin), site.mirror)
    gathered = await site.forge.gather(str(origin), site.mirror, heads["main"])
    if path == "link/sub":  # git's own reading of such a tree goes first: there is no checkout of it, or it is told
        assert not Path("/tmp/sub").exists()
        return
    assert len(gathered.lacks) == 1
    assert "leads elsewhere" in gathered.lacks[0] or "no address is listed" in gathered.lacks[0]


def with_link(origin: Path, path: str, commit: str) -> str:
    """A commit like main's with a submodule at a path, put together by hand, as git refuses some of these."""
    entry = f"160000 commit {commit}\t"
    below = path.split("/")
    tree = ""
    for part in reversed(below):
        given = f"{entry}{part}\n"
        if part == below[0]:
            given += git(origin, "ls-tree", "main") + "\n"
        tree = subprocess.run(
            ["git", "-C", str(origin), "mktree", "--missing"], input=given, text=True, capture_output=True, check=True
        ).stdout.strip()
        entry = f"040000 tree {tree}\t"
    return git(origin, "commit-tree", "-m", "hostile", tree)


async def test_refs_with_malicious_names_break_no_mirror_and_no_checkout(site: Site) -> None:
    tree = start(site.origins, "refs")
    origin = await asyncio.to_thread(done, tree)
    commit = git(origin, "rev-parse", "main")
    odd = ["HEAD", commit, "--upload-pack=x", "-x", "refs/heads/main", "a\u202eb", "caf\u00e9", "x" * 200,
           "origin/main", "@", "main;touch", "$(touch)", "remotes/origin/HEAD", "stash"]  # fmt: skip
    packed = [f"{commit} refs/heads/{name}\n" for name in odd]
    packed += [f"{commit} refs/rift/boxes/b-1\n", f"{commit} refs/tags/--exec=x\n", f"{commit} refs/replace/{commit}\n"]
    head = "# pack-refs with: peeled fully-peeled \n"
    (origin / "packed-refs").write_text(head + "".join(sorted([*packed, f"{commit} refs/heads/main\n"])))
    seat, _ = await site.take(origin)
    assert await said(seat, "git status --porcelain; git rev-parse HEAD; git log --oneline | wc -l") == f"{commit}\n1\n"
    await said(seat, "git branch -a && git fsck --no-dangling && git for-each-ref > /dev/null")
    assert await site.forge.pins(site.mirror) == frozenset()
    assert not (site.mirror.parent / "escape").exists()
    assert not (site.tree(BOX).parent / "escape").exists()


async def test_a_mirror_of_broken_objects_is_told_and_harms_no_other(site: Site) -> None:
    tree = start(site.origins, "broken")
    put(tree, "file", os.urandom(1000))
    origin = await asyncio.to_thread(done, tree)
    for path in (origin / "objects").rglob("*"):
        if path.is_file() and "info" not in path.parts:
            path.chmod(0o644)
            path.write_bytes(path.read_bytes()[:-20] + b"x" * 20)
    with pytest.raises(ForgeError):
        await site.forge.fetch(str(origin), site.mirror)
    good = await asyncio.to_thread(lambda: done(start(site.origins, "good")))
    _, lacks = await site.take(good)
    assert lacks == ()
