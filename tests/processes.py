"""The host's processes, as far as a test's folder concerns them."""

from __future__ import annotations

import os
from pathlib import Path


def near(folder: str) -> dict[int, str]:
    """Who has a folder (its path, or the end of one) in the command line, stands in it, or sees a mount from it.

    Their command lines, by process id; this process is none of them. Where the folder itself is a mount, everybody
    sees it, and everybody is found.
    """
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        here = Path("/proc", name)
        try:
            said = (here / "cmdline").read_bytes().decode("utf-8", "replace").replace("\0", " ")
            if folder in said or folder in os.readlink(here / "cwd") or folder in (here / "mountinfo").read_text():
                found[int(name)] = said[:200]
        except OSError:
            continue  # it has ended
    found.pop(os.getpid(), None)
    return found
