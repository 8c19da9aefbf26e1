"""Make a box's checkout, as the box's own user: objects borrowed from mirrors, submodules and LFS files in place.

The launcher loads it where a checkout is to be made. Standard library only and any CPython >= 3.9. It runs outside of
the jail, so it follows no link that a repository brought, and its git knows no configuration but what is given here.

Plan: `{"git", "path", "ref", "commit", "origin", "mirror", "alternate", "modules_at", "modules_shown", "lfs_at",
"lfs_shown", "git_lfs": "…"|null, "gathered": {…}|null}`. Each `…_at` is a folder of the host, each `…_shown` the
same one in the jail; `gathered` is what the forge wrote of the commit (drivers/forge/local/gathering.py).
"""

# Pathlib takes longer to load than all of this takes to run.
# ruff: noqa: PTH100, PTH103, PTH108, PTH110, PTH112, PTH113, PTH114, PTH118, PTH120, PTH123, PTH211

from __future__ import annotations

import json
import os
import subprocess

TYPE_CHECKING = False  # spelled out, as loading `typing` takes longer than most of this
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TextIO

DONE = "checkout.done"
NO_SERVER = "file:///nonexistent"  # git-lfs shall ask nobody, whatever a repository's own configuration names
NAME_LIMIT = 200
LIST_LIMIT = 1024 * 1024  # characters that are read of a file in which a repository lists what it needs


class Failed(Exception):
    """The checkout cannot be made; the text says why."""


def git(plan: dict[str, Any], objects: str, *words: str) -> str:
    """Run git, borrowing `objects`, without the host's or a person's configuration; return what it printed."""
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": "/nonexistent",
        "LANG": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_LFS_SKIP_DOWNLOAD_ERRORS": "1",  # what was not gathered stays a pointer
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": listed_path(objects),
    }
    settings = ["core.hooksPath=/dev/null", "core.fsmonitor=false", "gc.auto=0", "checkout.workers=0"]
    if plan.get("git_lfs"):
        settings += ["filter.lfs.process=git-lfs filter-process", "filter.lfs.required=false"]
        settings += ["lfs.url=" + NO_SERVER, "lfs.transfer.maxretries=1"]
    done = subprocess.run(
        [plan["git"], *(word for one in settings for word in ("-c", one)), *words],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip() or f"exit code {done.returncode}"
        raise Failed(f"the checkout could not be made: {said[-2000:]}")
    return done.stdout.decode("utf-8", "surrogateescape")


def listed_path(path: str) -> str:
    """A path as a list of folders has it: it may hold the colon that parts them."""
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"' if ":" in path else path


def references(plan: dict[str, Any], mirror: str, branch: str | None, commit: str) -> tuple[str, str | None]:
    """The text of a packed-refs file: the mirror's heads and tags as of now, and the branch at its commit, if there is
    one; and which of the heads is the origin's own first.
    """
    listed = git(
        plan,
        os.path.join(mirror, "objects"),
        "--git-dir=" + mirror,  # named outright, as the mirror may belong to another user
        "for-each-ref",
        "--format=%(refname) %(objectname) %(*objectname)",
        "refs/heads/",
        "refs/tags/",
    )
    entries = {}
    for line in listed.split("\n")[:-1]:  # not `splitlines`: a name may hold what Unicode takes for a line's end
        name, _, objects = line.partition(" ")
        if name.startswith("refs/heads/"):
            name = "refs/remotes/origin/" + name[len("refs/heads/") :]
        entries[name] = objects.split()
    if branch is not None:
        for name in ("refs/heads/", "refs/remotes/origin/"):
            entries[name + branch] = [commit]
    lines = ["# pack-refs with: peeled fully-peeled sorted "]
    for name in sorted(entries, key=os.fsencode):
        lines.append(f"{entries[name][0]} {name}")
        lines.extend("^" + peeled for peeled in entries[name][1:])
    return "\n".join(lines) + "\n", first(mirror, entries)


def first(mirror: str, entries: dict[str, list[str]]) -> str | None:
    """The branch that the origin's HEAD names, where it is among these."""
    with open(os.path.join(mirror, "HEAD"), encoding="utf-8", errors="surrogateescape") as file:
        head = file.read(4096).strip()
    if not head.startswith("ref: refs/heads/"):
        return None
    name = head[len("ref: refs/heads/") :]
    # A branch of that very name would stand where the link does.
    return name if "refs/remotes/origin/" + name in entries and "refs/remotes/origin/HEAD" not in entries else None


def quoted(text: str) -> str:
    """A value as git's configuration file writes it."""
    if "\n" in text or "\0" in text:
        raise Failed("a name or address holds a line break")
    return '"{}"'.format(text.replace("\\", "\\\\").replace('"', '\\"'))


def configuration(origin: str, branch: str | None) -> list[str]:
    """What a checkout's own configuration says besides what `git init` writes."""
    lines = [
        '[remote "origin"]',
        "\turl = " + quoted(origin),
        "\tfetch = +refs/heads/*:refs/remotes/origin/*",
    ]
    if branch is not None:
        lines += [f"[branch {quoted(branch)}]", "\tremote = origin", "\tmerge = " + quoted("refs/heads/" + branch)]
    return lines


def append(path: str, lines: list[str]) -> None:
    """Add lines to a file."""
    with open(path, "a", encoding="utf-8", errors="surrogateescape") as file:
        file.write("\n".join(lines) + "\n")


def replace(path: str, text: str) -> None:
    """Write a file of the repository's, making its folder."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)


def checkout(plan: dict[str, Any], write: Callable[[str, str, int], None]) -> list[str]:
    """Make the checkout; return what it lacks. `write` replaces a file in one step, with its mode.

    A finished one is told by a file outside of the jail's reach and never touched again: its configuration is then
    under the control of whoever works in the box. What an interrupted start left is made anew.
    """
    if os.path.exists(DONE):
        with open(DONE, encoding="utf-8") as file:
            known: list[str] = json.load(file)["lacks"]
            return known
    tree = plan["path"]
    if os.path.lexists(tree):
        import shutil  # only here: it is slow to load and seldom needed

        shutil.rmtree(tree)
    gathered = plan.get("gathered") or {"modules": [], "lfs": [], "lacks": None}
    objects = os.path.join(plan["mirror"], "objects")
    kind = "sha256" if len(plan["commit"]) == 64 else "sha1"
    words = ("init", "--quiet", "--template=", "--object-format=" + kind, "--initial-branch=work", "--", tree)
    git(plan, objects, *words)
    folder = os.path.join(tree, ".git")
    append(os.path.join(folder, "config"), configuration(plan["origin"], plan["ref"]))
    fill(plan, folder, tree, plan["mirror"], plan["ref"], plan["commit"], gathered["lfs"])
    lacks = missing(tree) if gathered["lacks"] is None else list(gathered["lacks"])
    lacks += submodules(plan, tree, gathered["modules"])
    # Last, as only the jail has this path and git on the host would complain of it.
    replace(os.path.join(folder, "objects", "info", "alternates"), plan["alternate"] + "\n")
    write(DONE, json.dumps({"commit": plan["commit"], "lacks": lacks}), 0o600)
    return lacks


def fill(
    plan: dict[str, Any], folder: str, tree: str, mirror: str, branch: str | None, commit: str, oids: list[str]
) -> None:
    """Give a fresh repository its refs and its work tree."""
    text, head = references(plan, mirror, branch, commit)
    replace(os.path.join(folder, "packed-refs"), text)
    if head is not None:
        replace(os.path.join(folder, "refs/remotes/origin/HEAD"), f"ref: refs/remotes/origin/{head}\n")
    replace(os.path.join(folder, "HEAD"), f"{commit}\n" if branch is None else f"ref: refs/heads/{branch}\n")
    if os.path.isfile(os.path.join(mirror, "shallow")):  # where the origin's own history ends
        with open(os.path.join(mirror, "shallow"), encoding="ascii") as file:
            replace(os.path.join(folder, "shallow"), file.read())
    stored = contents(plan, folder, oids)
    objects = os.path.join(mirror, "objects")
    place = ("-C", tree, "--git-dir=" + os.path.abspath(folder), "--work-tree=.")
    git(plan, objects, *place, "reset", "--quiet", "--hard", commit, "--")
    os.makedirs(os.path.join(folder, "info"), exist_ok=True)
    for oid in stored:  # to where the jail has it
        link = content(folder, oid)
        os.unlink(link)
        os.symlink(content(plan["lfs_shown"], oid), link)


def content(folder: str, oid: str) -> str:
    """Where git-lfs looks for content: below a repository's folder, or the store's parent."""
    return os.path.join(folder, "lfs/objects", oid[:2], oid[2:4], oid)


def contents(plan: dict[str, Any], folder: str, oids: list[str]) -> list[str]:
    """Link the LFS files that were gathered to where git-lfs looks for them; links, so that none is here twice."""
    if not plan.get("git_lfs"):
        return []
    for oid in oids:
        link = content(folder, oid)
        os.makedirs(os.path.dirname(link), exist_ok=True)
        os.symlink(content(plan["lfs_at"], oid), link)
    return list(oids)


def submodules(plan: dict[str, Any], tree: str, modules: list[dict[str, Any]]) -> list[str]:
    """Check out each submodule as `git submodule update` would have; return what that lacks."""
    lacks = []
    made: list[tuple[str, str] | None] = []
    for module in modules:
        above = (os.path.join(tree, ".git"), tree)
        if module["within"] is not None:
            outer = made[module["within"]]
            if outer is None:
                made.append(None)
                continue
            above = outer
        folder, work = os.path.join(above[0], "modules", module["name"]), os.path.join(above[1], module["path"])
        try:
            plain(above[1], module["path"])
            submodule(plan, module, above[0], folder, work)
        except (Failed, OSError) as error:
            made.append(None)
            lacks.append(f"Submodules are not checked out: {names([work[len(tree) + 1 :]])}: {error}.")
        else:
            made.append((folder, work))
    return lacks


def plain(tree: str, path: str) -> None:
    """Raise Failed where a part of a path below the work tree is anything but a folder: a link leads elsewhere."""
    way = tree
    for part in path.split("/"):
        way = os.path.join(way, part)
        if part in ("", ".", "..") or os.path.islink(way) or not os.path.isdir(way):
            raise Failed("its place is not a folder of the checkout")


def submodule(plan: dict[str, Any], module: dict[str, Any], outer: str, folder: str, work: str) -> None:
    """One of them, whose work tree is an empty folder."""
    mirror = os.path.join(plan["modules_at"], module["folder"])
    kind = "sha256" if len(module["commit"]) == 64 else "sha1"
    words = ("init", "--quiet", "--bare", "--template=", "--object-format=" + kind, "--", folder)
    git(plan, os.path.join(mirror, "objects"), *words)
    back = os.path.relpath(work, folder)
    append(os.path.join(folder, "config"), ["[core]", "\tbare = false", "\tworktree = " + quoted(back)])
    append(os.path.join(folder, "config"), configuration(module["url"], None))
    fill(plan, folder, work, mirror, None, module["commit"], module["lfs"])
    replace(os.path.join(work, ".git"), f"gitdir: {os.path.relpath(folder, work)}\n")
    alternate = os.path.join(plan["modules_shown"], module["folder"], "objects")
    replace(os.path.join(folder, "objects", "info", "alternates"), alternate + "\n")
    append(
        os.path.join(outer, "config"),
        [f"[submodule {quoted(module['name'])}]", "\tactive = true", "\turl = " + quoted(module["url"])],
    )


def missing(tree: str) -> list[str]:
    """One sentence for each kind of content that a plain checkout does not bring, where nothing was gathered."""
    lacks = []
    modules = os.path.join(tree, ".gitmodules")
    if os.path.isfile(modules) and not os.path.islink(modules):
        with open(modules, encoding="utf-8", errors="replace") as file:
            paths = [line.partition("=")[2].strip() for line in listed(file) if line.strip().startswith("path")]
        if paths:
            lacks.append(f"Submodules are not checked out: {names(paths)}.")
    attributes = os.path.join(tree, ".gitattributes")
    if os.path.isfile(attributes) and not os.path.islink(attributes):
        with open(attributes, encoding="utf-8", errors="replace") as file:
            patterns = [line.split()[0] for line in listed(file) if "filter=lfs" in line.split()[1:]]
        if patterns:
            lacks.append(f"LFS files are pointers, not their content: {names(patterns)}.")
    return lacks


def listed(file: TextIO) -> list[str]:
    """Its lines, as far as it is not too long."""
    return file.read(LIST_LIMIT).splitlines()


def names(found: list[str]) -> str:
    """Some names that a repository gave, for a sentence: few, none long, and nothing in them but what can be shown."""
    shown = ["".join(letter if letter.isprintable() else "?" for letter in name[:NAME_LIMIT]) for name in found[:20]]
    return ", ".join(shown)
