"""Repositories with flakes that need nothing from anywhere, and their mirrors, made by git itself."""

from __future__ import annotations

import itertools
import os
import subprocess
from pathlib import Path

from tests.conformance.forges.conftest import ENVIRONMENT

SYSTEM = f"{os.uname().machine}-linux"


def derivation(script: str, name: str = "tool", more: str = "") -> str:
    """An expression for a package that a shell script builds."""
    quoted = script.replace("\\", "\\\\").replace('"', '\\"').replace("${", "\\${")
    return (
        f'(derivation {{ name = "{name}"; system = "{SYSTEM}"; builder = "/bin/sh"; '
        f'args = [ "-c" "{quoted}" ]; PATH = "/usr/bin:/bin"; {more} }})'
    )


def flake(ours: str, before: str = "", inputs: str = "") -> str:
    """A flake.nix whose `fixed-labs.rift.<system>` is that expression."""
    return (
        f"{{\n  {inputs}\n  outputs = {{ self, ... }}@all: let {before} in {{\n"
        f"    fixed-labs.rift.{SYSTEM} = {ours};\n  }};\n}}\n"
    )


def whole(rift: str) -> str:
    """A flake.nix whose `fixed-labs.rift` is that expression."""
    return f"{{\n  outputs = {{ self }}: {{\n    fixed-labs.rift = {rift};\n  }};\n}}\n"


HELLO = derivation("echo made it; mkdir -p $out/bin; echo echo hello > $out/bin/hello; chmod +x $out/bin/hello")
"""A package with one program."""


class Origin:
    """One repository's bare mirror, to which commits are added."""

    def __init__(self, mirror: Path) -> None:
        self.mirror = mirror
        self._numbers = itertools.count(1)
        mirror.parent.mkdir(parents=True, exist_ok=True)
        self.git("init", "-q", "--bare", "-b", "main", "--template=", str(mirror))

    def git(self, *words: str, feed: bytes | None = None, index: str = "") -> str:
        """What git prints."""
        done = subprocess.run(
            ["git", f"--git-dir={self.mirror}", *words],
            env=ENVIRONMENT | ({"GIT_INDEX_FILE": index} if index else {}),
            input=feed,
            check=True,
            capture_output=True,
        )
        return done.stdout.decode().strip()

    def commit(self, files: dict[str, str], links: dict[str, str] | None = None, programs: tuple[str, ...] = ()) -> str:
        """A commit of these files and symbolic links, and nothing else."""
        entries = [("100755" if name in programs else "100644", name, text) for name, text in files.items()]
        entries += [("120000", name, target) for name, target in (links or {}).items()]
        index = str(self.mirror / f"index-{next(self._numbers)}")
        for mode, name, text in entries:
            blob = self.git("hash-object", "-w", "--stdin", feed=text.encode())
            self.git("update-index", "--add", "--cacheinfo", f"{mode},{blob},{name}", index=index)
        tree = self.git("write-tree", index=index) if entries else self.git("mktree", feed=b"")
        commit = self.git("commit-tree", tree, "-m", "a commit")
        self.git("update-ref", f"refs/heads/b{next(self._numbers)}", commit)
        return commit
