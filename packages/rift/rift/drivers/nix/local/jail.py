"""What the jail of a build sees: a pure plan from what the host has, for one call of bubblewrap."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keel.sizes import MIB
from rift.drivers.boxes.local import limits, mounts
from rift.drivers.boxes.local.groups import Made, entry
from rift.drivers.boxes.protocol import Limits
from rift.drivers.nix.local.config import NixConfig
from rift.drivers.nix.local.places import Place

HOME = "/home/nix"
PATH = "/usr/local/bin:/usr/bin:/bin"
PROXY = mounts.PROXY
#: What programs need of the host's /etc; nothing of Nix's own, where an operator keeps access tokens.
ETC = ("alternatives", "ca-certificates", "crypto-policies", "ld.so.cache", "ld.so.conf", "ld.so.conf.d",
       "pki/ca-trust/extracted", "pki/tls/certs", "protocols", "services", "ssl/certs", "ssl/openssl.cnf")  # fmt: skip
FILES = {
    "/etc/passwd": f"root:x:0:0:root:/root:/bin/sh\nnix:x:1000:1000:nix:{HOME}:/bin/sh\n",
    "/etc/group": "root:x:0:\nnix:x:1000:\n",
    "/etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "/etc/resolv.conf": "# Builds ask no name server: their proxy does.\n",
}
OPEN_FILES = 65_536
OUT_MOST = 4 * MIB
SHARES = 512
"""Half of what a box has: who waits for a command comes before who waits for an environment."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command in the jail: `words`; what it sees as `folders`, by place in the jail, of which those in `writable`
    can be written; files with `texts`; what it reads on standard input; the most bytes that it may print.
    """

    words: tuple[str, ...]
    folders: dict[str, Path] = field(default_factory=dict)
    writable: frozenset[str] = frozenset()
    texts: dict[str, str] = field(default_factory=dict)
    feed: int | None = None
    out_most: int = OUT_MOST


def configuration(config: NixConfig) -> str:
    """Nix's own settings in the jail. What Nix takes for having no network is a network by proxy: it is told so."""
    return "".join(
        f"{name} = {value}\n"
        for name, value in {
            "experimental-features": "nix-command flakes",
            "sandbox": "false",  # the jail is one, and lets nobody make another in it
            "build-users-group": "",
            "substituters": " ".join(config.substituters),
            "trusted-public-keys": " ".join(config.public_keys),
            "substitute": "true" if config.substituters else "false",
            "fallback": "true",
            "connect-timeout": "15",
            "download-attempts": "3",
            "tarball-ttl": "3600",
            "accept-flake-config": "false",
            "allow-import-from-derivation": "true",
            "max-jobs": str(min(4, os.cpu_count() or 1)),
            "cores": str(os.cpu_count() or 1),
            "log-lines": "50",
        }.items()
    )


def environment(config: NixConfig) -> dict[str, str]:
    """All variables that a build begins with."""
    variables = {
        "PATH": PATH,
        "HOME": HOME,
        "USER": "nix",
        "LOGNAME": "nix",
        "SHELL": "/bin/sh",
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "NO_COLOR": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "NIX_CONFIG": configuration(config),
        "NIX_SSL_CERT_FILE": "/etc/ssl/certs/ca-certificates.crt",
    }
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        variables[name] = PROXY
    if config.boxes.certificates is not None:
        for name in ("NIX_SSL_CERT_FILE", "SSL_CERT_FILE", "GIT_SSL_CAINFO"):
            variables[name] = mounts.CERTIFICATES
    return variables


def options(config: NixConfig, host: mounts.Host, place: Place, command: Command) -> Iterator[str]:
    """bubblewrap's options, in the order they are to be done."""
    yield from ("--unshare-all", "--die-with-parent", "--new-session", "--uid", "1000", "--gid", "1000")
    yield from ("--cap-drop", "ALL", "--hostname", "build", "--clearenv")
    yield from ("--ro-bind", "/usr", "/usr")
    for name in mounts.TOP:
        path = Path("/", name)
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), str(path))
        elif path.is_dir():
            yield from ("--ro-bind", str(path), str(path))
    yield from ("--proc", "/proc", "--dev", "/dev", "--size", str(max(64 * MIB, config.memory // 2)))
    yield from ("--tmpfs", "/dev/shm")  # noqa: S108 -- the jail's own
    for name in ETC:
        if os.access(f"/etc/{name}", os.R_OK):
            yield from ("--ro-bind", f"/etc/{name}", f"/etc/{name}")
    yield from ("--bind", str(place.work / "tmp"), mounts.TMP, "--bind", str(place.work / "home"), HOME)
    # Two mounts, not the folder above them: nobody in the jail can put a link to elsewhere in the place of either.
    yield from ("--bind", str(place.store), "/nix/store", "--bind", str(place.var), "/nix/var")
    for target, folder in command.folders.items():
        yield from ("--bind" if target in command.writable else "--ro-bind", str(folder), target)
    if host.python_shown is not None:
        yield from ("--ro-bind", str(host.python_shown), mounts.PYTHON)
    if config.boxes.certificates is not None:
        yield from ("--ro-bind", str(config.boxes.certificates), mounts.CERTIFICATES)
    for name, value in environment(config).items():
        yield from ("--setenv", name, value)
    yield from ("--chdir", "/")


def limits_of(config: NixConfig) -> Limits:
    """What a build may use."""
    return Limits(config.memory, config.processes, config.disk, SHARES, OPEN_FILES)


def job(
    config: NixConfig, host: mounts.Host, place: Place, made: Made, command: Command, log: int, log_most: int
) -> dict[str, Any]:
    """What the warden is to do for one command."""
    most = limits_of(config)
    by = limits.held(host.groups.plan, os.uname().release, own_user=place.uid is not None)
    named = {"memory": "Memory", "processes": "Processes", "disk": "Disk", "open_files": "OpenFiles"}
    return {
        "join": [str(entry(group)) for group in made.agent],
        "uid": place.uid,
        "gid": config.boxes.group,
        "log": log,
        "log_most": log_most,
        "out_most": command.out_most,
        "feed": command.feed,
        "options": list(options(config, host, place, command)),
        "data": [{"target": target, "text": text} for target, text in {**FILES, **command.texts}.items()],
        "words": list(command.words),
        "config": {
            "box": place.path.name,
            "incarnation": 0,
            "server": "",
            "token_file": "",
            "dir": str(place.path),
            "python": host.jail_python,
            "bwrap": str(host.bwrap),
            "mounts": [],
            "checkout": "/",
            "network": "proxy",
            "named": place.path.name,
            "allow": list(config.allow),
            "barred": "is none of the hosts that builds may reach: whoever runs this Rift lists more of them in "
            "Rift:Environments:Hosts",
            "reach": list(config.boxes.reach),
            "upstream_proxy": config.boxes.upstream_proxy,
            "cgroups": [str(group) for group in made.jail],
            "limits": {
                name: {"value": getattr(most, name), "setting": f"Rift:Environments:{setting}", "by": by[name]}
                for name, setting in named.items()
            },
            "nice": limits.nice(most, by),
        },
    }
