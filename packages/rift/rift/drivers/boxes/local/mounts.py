"""What a jail sees: a pure plan from what the host has. The agent turns it into one bubblewrap call."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from keel.sizes import MIB
from rift.drivers.boxes.local import checkouts
from rift.drivers.boxes.local.config import LocalConfig
from rift.drivers.boxes.local.groups import Groups
from rift.drivers.boxes.local.rewriting import git_config
from rift.drivers.boxes.protocol import BoxSpec, DriverError
from rift.names import VERBS
from rift_agent import author
from rift_agent.network import RESOLVER

HOME = "/home/dev"
OURS = "/run/rift"
TMP = "/tmp"  # noqa: S108 -- the jail's own
PYTHON = f"{OURS}/python"
CERTIFICATES = f"{OURS}/certificates.pem"
PROXY = "http://127.0.0.1:3128"
STORE = "/nix/store"
OWN_PATH = f"{HOME}/.local/bin"
PATH = f"{OURS}/bin:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"

#: What the smallest /run holds, in bytes.
RUN_LEAST = 16 * MIB

#: Entries of the host's /etc that hold no secret and that programs need. Everything else of it stays out.
ETC_SHOWN: tuple[str, ...] = (
    "alternatives",
    "ca-certificates",
    "ca-certificates.conf",
    "crypto-policies",
    "debian_version",
    "fonts",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "magic",
    "mime.types",
    "networks",
    "os-release",
    "pki/ca-trust/extracted",
    "pki/tls/certs",
    "protocols",
    "rpc",
    "services",
    "shells",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
    "xml",
    "sgml",
    "perl",
    "ImageMagick-6",
    "ImageMagick-7",
    "OpenCL",
    "vulkan",
    "glvnd",
)
#: Further ones, by how their name begins.
ETC_SHOWN_FAMILIES: tuple[str, ...] = ("java-", "python3", "nodejs")

#: Top-level folders shown as the host has them: links as links, folders read-only.
TOP = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
#: Top-level folders with a private writable layer on top.
LAYERED = ("usr", "opt")
#: What a jail's user may write to below /usr: the usual places of a local installation.
USR_LOCAL = ("bin", "etc", "include", "lib", "libexec", "sbin", "share", "src", "games")

Mount = dict[str, str]


@dataclass(frozen=True, slots=True)
class Host:
    """What a box uses of the host: paths outside the jail, and whether its kernel mounts overlays for boxes.

    `verb` is the program behind each verb; it does what it is called.

    `python` is the interpreter's path on the host and `jail_python` the same one's inside; `python_shown` is the
    folder to be shown for it, None when it is below /usr or /opt. `groups` are the cgroups that boxes can have.
    """

    bwrap: Path
    uv: Path
    verb: Path
    python: str
    jail_python: str
    python_shown: Path | None
    agent: Path
    launcher: Path
    git: str
    overlay: bool
    groups: Groups


def mounts(config: LocalConfig, host: Host, box: Path, spec: BoxSpec, etc: tuple[str, ...]) -> list[Mount]:
    """The mounts of one jail, in order. `etc` are the host's entries shown below the box's own /etc."""
    plan = list(_system(host, box))
    plan.append(_ro(box / "etc", "/etc"))
    plan += [_ro(Path("/etc", name), f"/etc/{name}") for name in etc]
    plan += [
        {"kind": "rw", "source": str(box / "tmp"), "target": TMP},
        {"kind": "rw", "source": str(box / "var"), "target": "/var"},
        {"kind": "rw", "source": str(box / "home"), "target": HOME},
        {"kind": "tmpfs", "target": "/run", "size": str(max(RUN_LEAST, spec.limits.memory // 16))},
        # A mount, so that nobody moves it away; the agent makes it read-only.
        {"kind": "tmpfs", "target": OURS, "size": str(RUN_LEAST)},
        _ro(host.uv, f"{OURS}/bin/uv"),
        *(_ro(host.verb, f"{OURS}/bin/{name}") for name in ("verbs", *VERBS)),
        _ro(box / author.FOLDER, author.INSIDE),
        *(_ro(folder, target) for folder, target in checkouts.shown(spec.mirror)),
    ]
    if host.python_shown is not None:
        plan.append(_ro(host.python_shown, PYTHON))
    if config.certificates is not None:
        plan.append(_ro(config.certificates, CERTIFICATES))
    plan += [_ro(folder, str(folder)) for folder in config.show_read_only]
    if spec.equipment is not None:
        plan.append(_ro(spec.equipment.store, STORE))  # last, so that nothing else is seen in its place
    return plan


def _ro(source: Path, target: str) -> Mount:
    return {"kind": "ro", "source": str(source), "target": target}


def _system(host: Host, box: Path) -> Iterator[Mount]:
    for name in LAYERED:
        if not Path("/", name).is_dir():
            yield {"kind": "dir", "target": f"/{name}"}
        elif host.overlay:
            layers = box / "layers" / name
            yield {
                "kind": "overlay",
                "source": f"/{name}",
                "target": f"/{name}",
                "upper": str(layers / "upper"),
                "work": str(layers / "work"),
            }
        else:
            yield _ro(Path("/", name), f"/{name}")
    for name in TOP:
        path = Path("/", name)
        if path.is_symlink():
            yield {"kind": "symlink", "source": str(path.readlink()), "target": str(path)}
        elif path.is_dir():
            yield _ro(path, str(path))
    for name in ("mnt", "media", "srv", "root"):
        yield {"kind": "dir", "target": f"/{name}"}


def shown_etc() -> tuple[str, ...]:
    """The harmless entries of the host's /etc that exist here."""
    names = {name for name in ETC_SHOWN if Path("/etc", name).exists()}
    names |= {
        path.name for path in Path("/etc").iterdir() if path.name.startswith(ETC_SHOWN_FAMILIES) and path.is_dir()
    }
    return tuple(sorted(name for name in names if os.access(f"/etc/{name}", os.R_OK)))


def environment(config: LocalConfig, spec: BoxSpec) -> dict[str, str]:
    """The variables every command of the box starts with: the repository's own, and Rift's, which win."""
    equipment = spec.equipment
    packages = [f"{path}/bin" for path in equipment.paths] if equipment else []
    variables = dict(equipment.env) if equipment else {}
    variables |= {
        "PATH": ":".join((OWN_PATH, *packages, PATH)),
        "HOME": HOME,
        "USER": "dev",
        "LOGNAME": "dev",
        "SHELL": shell(),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "GIT_TERMINAL_PROMPT": "0",
    }
    if spec.network == "proxy":
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            variables[name] = variables[name.lower()] = PROXY
        variables["NO_PROXY"] = variables["no_proxy"] = "localhost,127.0.0.1,::1"
    if config.certificates is not None:
        for name in (
            "SSL_CERT_FILE",
            "CURL_CA_BUNDLE",
            "GIT_SSL_CAINFO",
            "NODE_EXTRA_CA_CERTS",
            "PIP_CERT",
            "REQUESTS_CA_BUNDLE",
        ):
            variables[name] = CERTIFICATES
    return variables


def shell() -> str:
    """The login shell of boxes on this host."""
    return "/bin/bash" if Path("/bin/bash").exists() else "/bin/sh"


def check_shown(folders: tuple[Path, ...], data: Path) -> None:
    """Raise DriverError when a folder of the setting cannot be shown, or boxes would see what none may see."""
    for name in (*LAYERED, *TOP, "etc"):
        if _holds(Path("/", name).resolve(), data.resolve()):
            raise DriverError(
                f"The data folder {data} lies below /{name}, which every box sees. "
                "Keep it elsewhere: `--data /var/lib/rift`."
            )
    for folder in folders:
        resolved = folder.resolve()
        if not folder.is_absolute() or not folder.is_dir():
            raise DriverError(f"Rift:Boxes:ShowReadOnly names {folder}, which is not the full path of a folder.")
        if resolved in (Path("/"), Path("/home"), Path("/root"), Path("/var")) or _holds(resolved, data.resolve()):
            raise DriverError(f"Rift:Boxes:ShowReadOnly names {folder}, which holds what no box may see.")
        for taken in ("/etc", "/proc", "/dev", "/run", TMP, "/usr", "/opt", "/var", HOME):
            if _holds(Path(taken), folder):
                raise DriverError(f"Rift:Boxes:ShowReadOnly names {folder}, but boxes have {taken} for their own.")


def _holds(folder: Path, path: Path) -> bool:
    return folder == path or folder in path.parents


def etc_files(hostname: str, network: str, repository: str = "", origin: str = "") -> dict[str, str]:
    """The box's own files below /etc, by name. `repository` and `origin` as a BoxSpec has them."""
    resolver = f"nameserver {RESOLVER}\n" if network == "open" else "# This box asks no name server.\n"
    return {
        "resolv.conf": resolver,
        "passwd": (
            "root:x:0:0:root:/root:/bin/sh\n"
            f"dev:x:1000:1000:dev:{HOME}:{shell()}\n"
            "nobody:x:65534:65534:nobody:/nonexistent:/bin/false\n"
        ),
        "group": "root:x:0:\ndev:x:1000:\nnogroup:x:65534:\n",
        "hostname": f"{hostname}\n",
        "hosts": f"127.0.0.1 localhost {hostname}\n::1 localhost ip6-localhost\n",
        "host.conf": "multi on\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n",
        "profile": "# The box sets PATH and the rest before the shell starts; nothing here changes them.\numask 022\n",
        "gitconfig": git_config(repository, origin),
    }
