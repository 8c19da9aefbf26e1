"""Bare repositories on the disk, by real git: made, committed to from outside, guarded by a real hook."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

ZERO = "0" * 40
COMMITS_MOST = 20
"""A push names no more commits; GitHub has 2,048."""
QUIET = {
    "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0", "HOME": "/nonexistent",
    "PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C.UTF-8",
}  # fmt: skip

# Each ref is asked about alone, so that the others of a push go through, as on GitHub.
UPDATE = """#!/bin/sh
name=${1#refs/heads/}
if [ -f "$GIT_DIR/protected" ] && [ "$1" != "$name" ] && grep -Fqx -- "$name" "$GIT_DIR/protected"; then
  echo "error: GH006: Protected branch update failed for $1." >&2
  echo "error: Changes must be made through a pull request." >&2
  exit 1
fi
"""
RECEIVED = """#!/bin/sh
[ -z "$STANDIN_PUSH" ] || cat > "$GIT_DIR/pushes/$STANDIN_PUSH"
"""
CONFIG = {
    "http.receivepack": "true", "uploadpack.allowFilter": "true", "uploadpack.allowAnySHA1InWant": "true",
    "receive.hideRefs": "refs/pull/", "receive.shallowUpdate": "true", "receive.autogc": "false", "gc.auto": "0",
    "core.logAllRefUpdates": "false",
}  # fmt: skip

Content = bytes | str | tuple[str, bytes] | None
"""A file: its bytes, or its mode (as `100755`, `120000`) and bytes; None removes it."""


@dataclass(frozen=True)
class Commit:
    id: str
    tree: str
    message: str
    name: str
    email: str
    at: datetime
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pushed:
    """A ref that a push changed, with the commits that are new there, the newest last."""

    ref: str
    before: str
    after: str
    forced: bool = False
    commits: tuple[Commit, ...] = ()
    head: Commit | None = field(default=None)


def git(folder: Path, *words: str, given: bytes | None = None, check: bool = True) -> bytes:
    """Run git in a bare repository; what it printed. Raises AssertionError with what it said."""
    done = subprocess.run(
        ["git", "--git-dir", str(folder), *words], input=given, capture_output=True, env=QUIET, check=False
    )
    if check and done.returncode:
        raise AssertionError(f"git {words[0]}: {done.stderr.decode(errors='replace')}")
    return done.stdout


def made(folder: Path, branch: str) -> Path:
    """The bare repository in a folder, made where there is none yet."""
    if not (folder / "HEAD").exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        command = ["git", "init", "-q", "--bare", "--template=", "-b", branch, str(part)]
        subprocess.run(command, env=QUIET, check=True, capture_output=True)
        for name, text in (("update", UPDATE), ("post-receive", RECEIVED)):
            hook = part / "hooks" / name
            hook.parent.mkdir(exist_ok=True)
            hook.write_text(text)
            hook.chmod(0o755)
        (part / "pushes").mkdir()
        sections: dict[str, list[str]] = {}
        for name, value in CONFIG.items():
            section, _, key = name.partition(".")
            sections.setdefault(section, []).append(f"\t{key} = {value}\n")
        with (part / "config").open("a") as config:
            config.writelines(f"[{section}]\n{''.join(lines)}" for section, lines in sections.items())
        part.rename(folder)
    return folder


def protect(folder: Path, branches: Iterable[str]) -> None:
    """Have the hook refuse pushes to these branches, and no others."""
    (folder / "protected").write_text("".join(f"{name}\n" for name in branches))


def refs(folder: Path, under: str = "refs/heads/") -> dict[str, str]:
    """Refs and what they point to."""
    lines = git(folder, "for-each-ref", "--format=%(refname) %(objectname)", under).decode().splitlines()
    return {name: commit for name, _, commit in (line.rpartition(" ") for line in lines)}


def has(folder: Path, commit: str) -> bool:
    return bool(git(folder, "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}", check=False).strip())


def commit(
    folder: Path, branch: str, files: Mapping[str, Content], message: str, who: tuple[str, str], at: datetime,
    onto: str | None = None,
) -> Pushed:  # fmt: skip
    """One commit on a branch, which begins with it where there is none: what a push of it would have changed.

    `onto` is the commit below it, where that is not the branch's head; "" makes one without any.
    """
    ref = f"refs/heads/{branch}"
    before = refs(folder, ref).get(ref, ZERO)
    below = onto if onto is not None else ("" if before == ZERO else before)
    stream = bytearray()

    def say(line: str) -> None:
        stream.extend(line.encode() + b"\n")

    def data(content: bytes) -> None:
        say(f"data {len(content)}")
        stream.extend(content + b"\n")

    # A ref of our own first: fast-import refuses to move a branch where it is no descendant.
    say("commit refs/standin/new")
    say(f"committer {who[0]} <{who[1]}> {int(at.timestamp())} +0000")
    data(message.encode())
    if below:
        say(f"from {below}")
    for path, content in files.items():
        quoted = '"' + path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
        if content is None:
            say(f"D {quoted}")
            continue
        mode, body = content if isinstance(content, tuple) else ("100644", content)
        say(f"M {mode} inline {quoted}")
        data(body.encode() if isinstance(body, str) else body)
    git(folder, "fast-import", "--quiet", "--force", given=bytes(stream))
    after = git(folder, "rev-parse", "refs/standin/new").decode().strip()
    git(folder, "update-ref", "-d", "refs/standin/new")
    git(folder, "update-ref", ref, after)
    return changed(folder, ref, before, after)


def changed(folder: Path, ref: str, before: str, after: str) -> Pushed:
    """What a push of `after` over `before` brought."""
    if after == ZERO:
        return Pushed(ref, before, after)
    if before == ZERO:
        others = [f"^{there}" for name, there in refs(folder).items() if name != ref and there != after]
        span, forced = [after, *others], False
    else:
        span = [after, f"^{before}"]
        merged = git(folder, "rev-list", "--max-count=1", before, f"^{after}", check=False)
        forced = bool(merged.strip())
    found = commits(folder, [f"--max-count={COMMITS_MOST}", *span])
    head = commits(folder, ["--max-count=1", after])
    return Pushed(ref, before, after, forced, tuple(reversed(found)), head[0] if head else None)


def commits(folder: Path, which: Sequence[str]) -> list[Commit]:
    """Commits as `git log` lists them, with the files that they changed."""
    said = git(folder, "log", "-z", "--format=%H%x01%T%x01%an%x01%ae%x01%ct%x01%B", *which).decode(errors="replace")
    found = []
    for record in filter(None, said.split("\0")):
        id, tree, name, email, at, message = record.split("\1")
        names: dict[str, list[str]] = {"A": [], "D": [], "M": []}
        words = ("--root", "--no-commit-id", "--name-status", "--no-renames", id)
        changes = git(folder, "diff-tree", "-z", "-r", *words).decode(errors="replace").split("\0")
        for kind, path in zip(changes[::2], changes[1::2], strict=False):
            names.get(kind, names["M"]).append(path)
        when = datetime.fromtimestamp(int(at), UTC)
        found.append(Commit(id, tree, message.strip(), name, email, when, *(tuple(names[kind]) for kind in "ADM")))
    return found


def ahead(folder: Path, base: str, head: str) -> int:
    """How many commits `head` has that `base` has not."""
    return int(git(folder, "rev-list", "--count", head, f"^{base}"))


def merges(folder: Path, base: str, head: str) -> str | None:
    """The tree of both merged; None where they conflict."""
    done = subprocess.run(["git", "--git-dir", str(folder), "merge-tree", "--write-tree", base, head],
                          capture_output=True, env=QUIET, check=False)  # fmt: skip
    return done.stdout.decode().split()[0] if done.returncode == 0 else None


def merge(
    folder: Path, branch: str, base: str, head: str, message: str, who: tuple[str, str], at: datetime
) -> Pushed:  # fmt: skip
    """Merge a commit into a branch by a commit of two parents. Raises AssertionError where they conflict."""
    tree = merges(folder, base, head)
    assert tree is not None, "they conflict"
    moment = f"{int(at.timestamp())} +0000"
    roles = {f"GIT_{role}_{part}": value for role in ("AUTHOR", "COMMITTER")
             for part, value in (("NAME", who[0]), ("EMAIL", who[1]), ("DATE", moment))}  # fmt: skip
    done = subprocess.run(
        ["git", "--git-dir", str(folder), "commit-tree", tree, "-p", base, "-p", head, "-m", message],
        env=QUIET | roles, check=True, capture_output=True, text=True,
    )  # fmt: skip
    after = done.stdout.strip()
    git(folder, "update-ref", f"refs/heads/{branch}", after)
    return changed(folder, f"refs/heads/{branch}", base, after)


def read_file(folder: Path, ref: str, path: str) -> bytes:
    return git(folder, "cat-file", "blob", f"{ref}:{path}")
