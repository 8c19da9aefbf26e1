"""`agent.json`, read once and checked; a mistake in it is said with the key's name."""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOUNTS = {  # kind of mount → the keys it needs
    "overlay": ("source", "target", "upper", "work"),
    "ro": ("source", "target"),
    "rw": ("source", "target"),
    "tmpfs": ("target",),  # and `size`, its bytes
    "dir": ("target",),
    "symlink": ("source", "target"),
}


class BadConfig(Exception):
    """`agent.json` is not one; the text says why."""


class Limit:
    """One limit of the box: its `value` (bytes, or a count), the `setting` that changes it, what holds it (`by`):
    `cgroup`, `rlimit`, or "" where nothing does.
    """

    __slots__ = ("by", "setting", "value")

    def __init__(self, value: int, setting: str, by: str) -> None:
        self.value = value
        self.setting = setting
        self.by = by


class Config:
    """The values of `agent.json`. Sizes in bytes; `power` is [epoch, frozen]; paths are absolute."""

    def __init__(self, values: dict[str, Any]) -> None:
        """Raises BadConfig naming the key that is missing or of another type."""

        def take(key: str, kind: type, default: Any = None) -> Any:
            value = values.get(key, default)
            if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
                raise BadConfig(f"agent.json: {key} must be of type {kind.__name__}, not {value!r}")
            return value

        self.box: str = take("box", str)
        self.incarnation: int = take("incarnation", int)
        self.server: str = take("server", str).rstrip("/")
        self.token_file: str = take("token_file", str)
        self.dir: str = take("dir", str)
        self.hostname: str = take("hostname", str, "box")
        self.repository: str = take("repository", str, "")
        self.named: str = take("named", str, self.repository)
        self.python: str = take("python", str, "/usr/bin/python3")
        self.bwrap: str = take("bwrap", str, "bwrap")
        self.mounts: list[dict[str, str]] = take("mounts", list)
        self.env: dict[str, str] = take("env", dict, {})
        self.checkout: str = take("checkout", str)
        self.network: str = take("network", str, "none")
        self.allow: list[str] = take("allow", list, [])
        self.spool_limit: int = take("spool_limit", int, 256 << 20)
        self.spool_total: int = take("spool_total", int, 2 << 30)
        self.barred: str = take("barred", str, "")  # what is said of a host that is not on the list, if not of a box
        self.reach: list[str] = take("reach", list, [])
        self.pasta: str = take("pasta", str, "")
        self.nft: str = take("nft", str, "")
        self.upstream_proxy: str = take("upstream_proxy", str, "")
        self.cgroups: list[str] = take("cgroups", list, [])
        self.nice: int = take("nice", int, 0)
        self.limits: dict[str, Limit] = {}
        for name, limit in take("limits", dict, {}).items():
            try:
                self.limits[name] = Limit(int(limit["value"]), str(limit["setting"]), str(limit["by"]))
            except (KeyError, TypeError, ValueError):
                raise BadConfig(f"agent.json: limits.{name} must have value, setting and by, not {limit!r}") from None
        self.uid: int = take("uid", int, -1)
        self.setup: str = take("setup", str, "")
        self.setup_seconds: int = take("setup_seconds", int, 1800)
        epoch, frozen = take("power", list, [0, False])
        self.power: tuple[int, bool] = (int(epoch), bool(frozen))
        if self.network not in ("none", "proxy", "open"):
            raise BadConfig(f"agent.json: network is {self.network!r}; this agent knows none, proxy and open")
        if self.network == "open" and not (self.pasta and self.nft):
            raise BadConfig("agent.json: an open network needs the paths of pasta and nft")
        for mount in self.mounts:
            if not all(isinstance(mount.get(key), str) for key in MOUNTS.get(mount.get("kind", ""), ("kind?",))):
                raise BadConfig(f"agent.json: a mount is not complete: {mount!r}")

    @property
    def home(self) -> str:
        """The home folder as the jail sees it: where a command starts once the checkout is gone."""
        return self.env.get("HOME", "/")

    def token(self) -> str:
        """The token, read from its file."""
        with open(self.token_file, encoding="ascii") as file:
            return file.read().strip()


def load(path: str) -> Config:
    """The configuration in the file `path`. Raises BadConfig."""
    try:
        with open(path, encoding="utf-8") as file:
            values = json.load(file)
    except (OSError, ValueError) as error:
        raise BadConfig(f"{path} cannot be read: {error}") from None
    if not isinstance(values, dict):
        raise BadConfig(f"{path} holds no JSON object")
    values.setdefault("dir", os.path.dirname(os.path.abspath(path)))
    return Config(values)
