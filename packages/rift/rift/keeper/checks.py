"""What a server may ask of its keeper: plain checks of plain values, made before anything is done.

The keeper believes nothing. A server that was taken over can ask for what an honest one asks for, and for no path,
program or address beside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from rift.drivers.boxes.protocol import BoxSpec, Equipment, Limits
from rift.drivers.forge.protocol import FEED_BYTES, Access
from rift.drivers.nix.protocol import SETUP_BYTES, VARIABLES_BYTES

BOX_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
MIRROR = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
BUILD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
SESSION = re.compile(r"[0-9a-f]{32}")
PACKAGE = re.compile(r"/nix/store/[0-9a-z]{32}-[A-Za-z0-9+._?=-]{1,211}")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
WORD = re.compile(r"[A-Za-z0-9_-]{1,40}")
NUMBER_LIMIT = 2**53
TEXT_LIMIT = 8192
"""Characters of one text; the longest honest one is a repository's address."""
TEXTS = {"setup": SETUP_BYTES, "env": VARIABLES_BYTES}
"""By the name of a field, how long a text may be that a repository wrote: one with lines."""
ITEMS_LIMIT = 4096
"""Entries of one list; the longest honest one is a box's allow list."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What paths and addresses an order may name: mirrors stand in `<data>/mirrors`, agents call `agents`."""

    data: Path
    agents: str

    @property
    def mirrors(self) -> Path:
        """The folder of all mirrors."""
        return self.data / "mirrors"


def refuse(bounds: Bounds, arguments: Mapping[str, Any]) -> str | None:
    """Why an order with these arguments is not followed, as a sentence that repeats none of them; None when it is."""
    for name, value in arguments.items():
        check = CHECKS.get(name)
        if check is None:
            return f"The keeper knows no rule for {name}."
        if not check(bounds, value):
            return f"The keeper refuses this {name}."
    return None


def too_large(value: Any, most: int | None = None) -> bool:
    """Whether JSON holds a text or list beyond what any order has, or a text with a NUL or line break in it.

    What stands under a name of TEXTS may have lines, and be so long (`most`).
    """
    if isinstance(value, str):
        return len(value) > (most or TEXT_LIMIT) or any(one in value for one in ("\0" if most else "\0\n\r"))
    if isinstance(value, dict):
        return len(value) > ITEMS_LIMIT or any(
            too_large(name) or too_large(one, TEXTS.get(name, most)) for name, one in value.items()
        )
    if isinstance(value, list):
        return len(value) > ITEMS_LIMIT or any(too_large(one, most) for one in value)
    return False


def without_data(arguments: Any) -> Any:
    """The arguments but for bytes, which are no text, and of which a frame holds only so many."""
    if not isinstance(arguments, dict):
        return arguments
    return {name: value for name, value in arguments.items() if name != "data" or not isinstance(value, str)}


def _box(bounds: Bounds, box: str) -> bool:
    return bool(BOX_ID.fullmatch(box))


def _number(bounds: Bounds, number: int) -> bool:
    return 0 <= number < NUMBER_LIMIT


def _commit(bounds: Bounds, commit: str) -> bool:
    return bool(COMMIT.fullmatch(commit))


def _mirror(bounds: Bounds, mirror: Path) -> bool:
    """A mirror stands in the folder of all mirrors, in which root alone makes what is there."""
    return mirror == bounds.mirrors / mirror.name and bool(MIRROR.fullmatch(mirror.name))


def _url(bounds: Bounds, url: str) -> bool:
    """Any address that git may fetch, but none below the data folder beside the sample: there boxes write files."""
    if not url or url.startswith("-") or not url.isprintable():
        return False
    path = _local(url)
    if path is None:
        return True
    found, data = path.resolve(), bounds.data.resolve()
    return (data not in found.parents and found != data) or found == data / "sample"


def _local(url: str) -> Path | None:
    """The path that git would read for this address; None for one of another host, or of no path."""
    scheme, colons, rest = url.partition("://")
    if colons:
        # As git does it: no host, no query, no fragment, and a first slash that is missing is no host's name either.
        return Path("/" + unquote(rest)) if scheme.lower() == "file" else None
    return None if ":" in url.partition("/")[0] else Path(url)


def _access(bounds: Bounds, access: Access | None) -> bool:
    """What a header can carry."""
    return access is None or bool(
        access.user.isprintable() and access.password.isprintable() and ":" not in access.user
    )


def _name(bounds: Bounds, name: str) -> bool:
    """The id of a build or a repository: a folder's name."""
    return bool(BUILD.fullmatch(name))


def _names(bounds: Bounds, names: tuple[str, ...]) -> bool:
    return all(map(BUILD.fullmatch, names))


def _data(bounds: Bounds, data: bytes) -> bool:
    """A part of a request of git's."""
    return len(data) <= FEED_BYTES


def _session(bounds: Bounds, session: str) -> bool:
    return bool(SESSION.fullmatch(session))


def _typed(bounds: Bounds, value: object) -> bool:
    """One of few values, which its type holds it to."""
    return True


def _spec(bounds: Bounds, spec: BoxSpec) -> bool:
    return (
        _box(bounds, spec.box)
        and _number(bounds, spec.incarnation)
        and _number(bounds, spec.epoch)
        and _commit(bounds, spec.commit)
        and _mirror(bounds, spec.mirror)
        and spec.server == bounds.agents
        and bool(WORD.fullmatch(spec.network))
        and spec.short_repository not in ("", ".", "..")
        and _limits(spec.limits)
        and (spec.equipment is None or _equipment(bounds, spec.mirror, spec.equipment))
    )


def _equipment(bounds: Bounds, mirror: Path, equipment: Equipment) -> bool:
    """The store is the one of the box's repository; PATH and variables hold what they can hold."""
    return (
        equipment.store == bounds.data / "nix" / mirror.name / "store"
        and all(map(PACKAGE.fullmatch, equipment.paths))
        and all(VARIABLE.fullmatch(name) for name, _ in equipment.env)
        and 0 <= equipment.setup_seconds < NUMBER_LIMIT
    )


def _limits(limits: Limits) -> bool:
    """Numbers that can be limits. Which they are is the server's, whose settings are root's."""
    values = (getattr(limits, one.name) for one in fields(limits) if one.name != "own")
    return all(0 < value < NUMBER_LIMIT for value in values) and all(map(WORD.fullmatch, limits.own))


CHECKS: Mapping[str, Callable[[Bounds, Any], bool]] = {
    "access": _access,
    "box": _box,
    "build": _name,
    "builds": _names,
    "commit": _commit,
    "data": _data,
    "epoch": _number,
    "last": _typed,
    "mirror": _mirror,
    "offset": _number,
    "part": _typed,
    "repo": _name,
    "service": _typed,
    "session": _session,
    "spec": _spec,
    "url": _url,
    "version": _number,
}
"""By a parameter's name. One without a check is not carried."""
