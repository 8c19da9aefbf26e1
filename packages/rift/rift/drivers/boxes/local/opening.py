"""What this host lacks for boxes with an open network, and the command that mends it."""

from __future__ import annotations

import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path

from rift.drivers.boxes.local.places import as_root
from rift.drivers.boxes.protocol import DriverError

PLACES = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PACKAGES = {"pasta": "passt", "nft": "nftables"}
"""The programs, and Debian's packages with them."""
TUN = Path("/dev/net/tun")


@dataclass(frozen=True, slots=True)
class Opening:
    """The programs that make an open network: one carries packets, one loads the filter."""

    pasta: str
    nft: str


@dataclass(frozen=True, slots=True)
class Lack:
    """What is missing, as a sentence's end, and the command for it."""

    what: str
    mend: str


def find_opening(places: str = PLACES, tun: Path = TUN) -> Opening | Lack:
    """The programs, or the first thing that this host lacks."""
    found = {name: shutil.which(name, path=places) for name in PACKAGES}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        packages = " ".join(PACKAGES[name] for name in missing)
        return Lack(f"there is no {' and no '.join(missing)}", f"sudo apt install {packages}")
    if not tun.exists():
        return Lack(f"there is no {tun}", "sudo modprobe tun")
    if not (stat.S_IMODE(tun.stat().st_mode) & 0o006 == 0o006 if as_root() else os.access(tun, os.R_OK | os.W_OK)):
        return Lack(f"boxes' users may not open {tun}", f"sudo chmod 666 {tun}")
    return Opening(*(str(found[name]) for name in ("pasta", "nft")))


def need_opening(places: str = PLACES, tun: Path = TUN) -> Opening:
    """The programs. Raises DriverError with the mend where this host cannot have an open network."""
    found = find_opening(places, tun)
    if isinstance(found, Lack):
        raise DriverError(
            f"Boxes of this repository have an open network, and this host cannot make one: {found.what}. "
            f"Mend it with `{found.mend}`, or have an admin say `rift repo network OWNER/NAME --mode proxy`."
        )
    return found
