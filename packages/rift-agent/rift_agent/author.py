"""Whose the commits are that a box makes: a file of git's configuration, which the jail sees and cannot write."""

from __future__ import annotations

import os

FOLDER = "git"  # below the box's own folder; the jail sees it as INSIDE
INSIDE = "/run/rift/git"
FILE = "author"


def keep(folder: str, name: str, email: str) -> None:
    """Has every commit from now on be this person's. `folder` is the box's own. Raises OSError."""
    path = os.path.join(folder, FOLDER, FILE)
    draft = f"{path}.new"
    with open(draft, "w", encoding="utf-8") as file:
        file.write(f"[user]\n\tname = {quoted(name)}\n\temail = {quoted(email)}\n")
    os.chmod(draft, 0o644)
    os.replace(draft, path)


def quoted(text: str) -> str:
    """A value of git's configuration, whatever is in it."""
    for letter, written in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t")):
        text = text.replace(letter, written)
    return f'"{text}"'
