"""Repositories with awkward content, made by the tests, and looking at work trees byte for byte."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

PERSON = {f"GIT_{who}_{what}": "a" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
DATES = {"GIT_AUTHOR_DATE": "1700000000 +0000", "GIT_COMMITTER_DATE": "1700000000 +0000"}
PLAIN = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
    "GIT_CONFIG_KEY_1": "protocol.file.allow",
    "GIT_CONFIG_VALUE_1": "always",
    **PERSON,
    **DATES,
}
LFS = (
    "-c", "filter.lfs.process=git-lfs filter-process", "-c", "filter.lfs.clean=git-lfs clean -- %f",
    "-c", "filter.lfs.smudge=git-lfs smudge -- %f", "-c", "filter.lfs.required=true",
)  # fmt: skip

Seen = dict[bytes, tuple[str, bytes]]
"""By path: a kind (`file`, `run`, `link`, `folder` for an empty one), and the SHA-256 of content or a link's target."""


def git(folder: Path, *words: str, more: dict[str, str] | None = None) -> str:
    """What git prints there. Raises CalledProcessError."""
    done = subprocess.run(
        ["git", *LFS, "-C", folder, *words], env=PLAIN | (more or {}), check=True, capture_output=True
    )
    return done.stdout.decode("utf-8", "surrogateescape").strip()


def look(tree: Path) -> Seen:
    """A work tree as it stands, without what is git's own; no link is followed."""
    found: Seen = {}
    top = os.fsencode(tree)
    for folder, folders, files in os.walk(top):
        for name in [*folders, *files]:
            path = os.path.join(folder, name)
            where, mode = os.path.relpath(path, top), os.lstat(path).st_mode
            if name == b".git":
                continue
            if stat.S_ISLNK(mode):
                found[where] = ("link", os.readlink(path))
            elif stat.S_ISREG(mode):
                with open(path, "rb") as file:
                    content = hashlib.file_digest(file, "sha256").digest()
                found[where] = ("run" if mode & 0o100 else "file", content)
            elif not os.listdir(path):
                found[where] = ("folder", b"")
        folders[:] = [name for name in folders if name != b".git"]
    return found


def put(tree: Path, path: str | bytes, content: bytes = b"x\n") -> None:
    """A file, and the folders above it."""
    whole = os.path.join(os.fsencode(tree), os.fsencode(path))
    os.makedirs(os.path.dirname(whole), exist_ok=True)
    with open(whole, "wb") as file:
        file.write(content)


def start(folder: Path, name: str, *words: str) -> Path:
    """A fresh work tree, whose origin it will be."""
    tree = folder / f"{name}.work"
    git(folder, "init", "-q", "-b", "main", *words, str(tree))
    put(tree, "README.md", b"# awkward\n")
    return tree


def done(tree: Path) -> Path:
    """Commit what is there and have a bare repository of it: its path."""
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", "awkward")
    bare = tree.with_suffix(".git")
    git(tree.parent, "clone", "-q", "--bare", str(tree), str(bare))
    return bare


def names(folder: Path) -> Path:
    """Names that programs trip over."""
    tree = start(folder, "names")
    odd = [b"new\nline", b"tab\there", b'quote"s', b"it's", b"back\\slash", b"\xff\xfe not utf-8", b"-rf", b"--help",
           b" leading", b"trailing ", b"dot.", b"...", b"*", b"?", b"$HOME", b"a;b", b"a|b", b"a&b", b"%s",
           b"\x01\x1b[31m", b"L" * 250, "caf\u00e9".encode(), "cafe\u0301".encode(), "\U0001f680".encode(),
           "\u202egpj.exe".encode(), b"HEAD", b"aux", b"con.txt", b"folder with space/-x/\n/deep"]  # fmt: skip
    for name in odd:
        put(tree, name, name + b"\n")
    put(tree, "/".join(["d"] * 60) + "/end")
    return done(tree)


def links(folder: Path) -> Path:
    """Links that lead anywhere."""
    tree = start(folder, "links")
    put(tree, "real/file")
    for name, target in {
        "relative": "real/file", "folder": "real", "absolute": "/etc/passwd", "outside": "../../../../etc/shadow",
        "nowhere": "no/such", "self": "self", "root": "/", "odd\nname": "new\nline", "git": ".git", "long": "x" * 4000,
    }.items():  # fmt: skip
        (tree / name).symlink_to(target)
    return done(tree)


def modes(folder: Path) -> Path:
    """Files that may be run, empty ones, and those of the host's own git."""
    tree = start(folder, "modes")
    for name in ("run.sh", "bin/tool"):
        put(tree, name, b"#!/bin/sh\necho ran\n")
        (tree / name).chmod(0o755)
    put(tree, "empty", b"")
    put(tree, "bytes", bytes(range(256)) * 512)
    put(tree, "gitconfig/config", b"[core]\n\tfsmonitor = touch /tmp/never\n")
    return done(tree)


def endings(folder: Path) -> Path:
    """Line endings and encodings that attributes ask for."""
    tree = start(folder, "endings")
    rules = ("*.txt text eol=crlf", "*.lf text eol=lf", "*.u16 text working-tree-encoding=UTF-16LE eol=lf",
             "*.bin -text", "*.id ident", "*.auto text=auto")  # fmt: skip
    put(tree, ".gitattributes", "\n".join(rules).encode() + b"\n")
    put(tree, "a.txt", b"one\r\ntwo\r\n")
    put(tree, "a.lf", b"one\ntwo\n")
    put(tree, "a.u16", "h\u00e9\nllo\n".encode("utf-16-le"))
    put(tree, "a.bin", b"\r\n\n\r\0")
    put(tree, "a.id", b"$Id$\n")
    put(tree, "a.auto", b"one\ntwo\n")
    put(tree, "mixed", b"one\r\ntwo\nthree\r")
    return done(tree)


def longer(folder: Path) -> Path:
    """Objects by SHA-256."""
    tree = start(folder, "longer", "--object-format=sha256")
    put(tree, "a/b", b"sha256\n")
    return done(tree)


def cases(folder: Path) -> Path:
    """Names that differ in their case alone."""
    tree = start(folder, "cases")
    for name in ("readme", "README", "ReadMe", "Src/a", "src/a", "SRC/A"):
        put(tree, name, name.encode())
    return done(tree)


def many(folder: Path) -> Path:
    """Ten thousand files, and one of 20 MiB that does not compress."""
    tree = start(folder, "many")
    for number in range(10_000):
        put(tree, f"{number % 100:02}/{number:05}", b"%d\n" % number)
    put(tree, "large", b"".join(hashlib.sha256(b"%d" % number).digest() for number in range(20 * 32768)))
    return done(tree)


def nested(folder: Path) -> Path:
    """Submodules in submodules, by relative addresses."""
    inner = start(folder, "inner")
    put(inner, "deep", b"deep\n")
    done(inner)
    middle = start(folder, "middle")
    git(middle, "submodule", "add", "-q", "../inner.git", "in side")
    done(middle)
    tree = start(folder, "nested")
    git(tree, "submodule", "add", "-q", "--name", "odd name/x", "../middle.git", "third/middle")
    git(tree, "submodule", "add", "-q", "./../inner.git", "second")
    return done(tree)


def large(folder: Path) -> Path:
    """LFS files, some in a folder of their own rules, one twice."""
    tree = start(folder, "large")
    put(tree, ".gitattributes", b"*.psd filter=lfs diff=lfs merge=lfs -text\n")
    put(tree, "assets/.gitattributes", b"* filter=lfs diff=lfs merge=lfs -text\n.gitattributes -filter text\n")
    put(tree, "a.psd", b"\0picture" * 100_000)
    put(tree, "same.psd", b"\0picture" * 100_000)
    put(tree, "empty.psd", b"")
    put(tree, "assets/odd name\n", b"odd content")
    bare = done(tree)
    git(tree, "lfs", "push", "--all", bare.as_uri())
    return bare


def history(folder: Path) -> Path:
    """Tags of tags, notes, replaced commits, a merge of three, an empty commit, a message that is no UTF-8."""
    tree = start(folder, "history")
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", "first")
    for branch in ("one", "two"):
        git(tree, "switch", "-q", "-c", branch, "main")
        put(tree, branch)
        git(tree, "add", "-A")
        git(tree, "commit", "-q", "-m", branch)
    git(tree, "switch", "-q", "main")
    git(tree, "merge", "-q", "--no-ff", "-m", "three", "one", "two")
    git(tree, "tag", "-a", "-m", "v1", "v1")
    git(tree, "tag", "-a", "-m", "tag of a tag", "v1-again", "v1")
    git(tree, "tag", "tree-tag", "HEAD^{tree}")
    git(tree, "notes", "add", "-m", "a note")
    git(tree, "commit", "-q", "--allow-empty", "-m", "empty")
    git(tree, "replace", "--graft", "HEAD", "one")
    (tree / ".git" / "message").write_bytes(b"caf\xe9\n")
    git(tree, "-c", "i18n.commitEncoding=ISO-8859-1", "commit", "-q", "--allow-empty", "-F", ".git/message")
    put(tree, "last")
    return done(tree)


ALL: dict[str, Callable[[Path], Path]] = {
    one.__name__: one for one in (names, links, modes, endings, longer, cases, many, nested, large, history)
}
