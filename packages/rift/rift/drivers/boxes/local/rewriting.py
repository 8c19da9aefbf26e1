"""A box's own /etc/gitconfig: whatever spelling of its origin git is given, it speaks to the box's door. Pure.

`url.<base>.insteadOf` matches by how an address begins, so `…/app` would take `…/app-two` too. The longest match wins:
each address that goes on after the name with a letter that a name may have is written as itself, and is left alone.
"""

from __future__ import annotations

import string
from collections.abc import Iterator
from urllib.parse import urlsplit

from rift.names import DOOR_PORT
from rift_agent.author import FILE, INSIDE, quoted

DOOR = f"http://127.0.0.1:{DOOR_PORT}/"
GOES_ON = string.ascii_letters + string.digits + "-_."
SUFFIX = ".git"

BASE = (
    "[safe]\n\tdirectory = *\n[init]\n\tdefaultBranch = main\n[gc]\n\tauto = 0\n"
    f"[include]\n\tpath = {INSIDE}/{FILE}\n"  # git does without it until it is there
)
#: No proxy, no header and no credential of the jail's is of any use at the door.
PLAIN = f'[http "{DOOR}"]\n\tproxy =\n\textraHeader =\n[credential "{DOOR}"]\n\thelper =\n'


def git_config(repository: str, origin: str) -> str:
    """The file's text for a box of `repository` (`OWNER/NAME`) whose origin has the address or path `origin`."""
    if "/" not in repository:
        return BASE
    door = f"{DOOR}git/{repository}{SUFFIX}"
    rules = [f"[url {quoted(door)}]\n"]
    rules += [f"\tinsteadOf = {quoted(spelled)}\n" for stem in stems(origin) for spelled in (stem, stem + SUFFIX)]
    for stem in stems(origin):
        for spelled in (stem, stem + SUFFIX):
            for letter in GOES_ON + ("" if "://" in stem or ":" in stem else "/"):
                other = quoted(spelled + letter)
                rules.append(f"[url {other}]\n\tinsteadOf = {other}\n")
    return BASE + PLAIN + "".join(rules)


def stems(origin: str) -> Iterator[str]:
    """The spellings of an origin, without `.git` at their end: by https and ssh where it is on another host."""
    stem = origin.rstrip("/").removesuffix(SUFFIX)
    yield stem
    parts = urlsplit(stem)
    if parts.scheme in ("http", "https") and parts.netloc:
        path, host = parts.path.lstrip("/"), parts.hostname or ""
        yield f"{'http' if parts.scheme == 'https' else 'https'}://{parts.netloc}/{path}"
        yield f"ssh://git@{host}/{path}"
        yield f"git@{host}:{path}"
    elif parts.scheme == "file":
        yield parts.path
    elif stem.startswith("/"):
        yield f"file://{stem}"
