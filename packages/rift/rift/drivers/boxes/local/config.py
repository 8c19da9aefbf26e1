"""How the local driver is set up."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from keel.sizes import GIB, MIB


def host_certificates() -> Path | None:
    """The bundle this host's environment names for programs that bring their own: there is an inspecting proxy, say."""
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NIX_SSL_CERT_FILE"):
        path = Path(os.environ.get(name) or "/nowhere")
        # To be read by boxes' users too, so anybody may read it.
        if path.is_absolute() and path.is_file() and path.stat().st_mode & 0o004:
            return path
    return None


def host_proxy() -> str:
    """The plain HTTP proxy this host's environment names, as `http://HOST:PORT`, or nothing."""
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"):
        try:
            url = urlsplit(os.environ.get(name, ""))
            if url.scheme == "http" and url.hostname and url.username is None:
                return f"http://{url.hostname}:{url.port or 80}"
        except ValueError:
            continue
    return ""


@dataclass(frozen=True, slots=True)
class LocalConfig:
    """`data` is the data folder; boxes stand in `<data>/boxes/<id>`, the programs they use in `<data>/lib`.

    Started as root, each box gets a host uid of its own from `first_uid` on, at most `uids` of them, and the group
    `first_uid - 1`, which is shared and opens the mirrors and `agents.sock`. `show_read_only` are further host folders
    to be seen in every jail, at the same path. `certificates` is a bundle the jail's programs shall trust, where their
    own is not enough; `upstream_proxy` is the HTTP proxy through which this host reaches the world, if it needs one;
    `reach` are networks that boxes may reach although they are private or reserved. `spool_limit` and `spool_total`
    are bytes, of one command and of a box.
    """

    data: Path
    first_uid: int = 700_000
    uids: int = 10_000
    show_read_only: tuple[Path, ...] = ()
    certificates: Path | None = field(default_factory=host_certificates)
    upstream_proxy: str = field(default_factory=host_proxy)
    reach: tuple[str, ...] = ()
    spool_limit: int = 256 * MIB
    spool_total: int = 2 * GIB
    start_seconds: float = 20.0

    @property
    def boxes(self) -> Path:
        return self.data / "boxes"

    @property
    def lib(self) -> Path:
        return self.data / "lib"

    @property
    def group(self) -> int:
        """The host group of all boxes, when started as root."""
        return self.first_uid - 1

    @property
    def probe_uid(self) -> int:
        """The uid for trials that belong to no box."""
        return self.first_uid + self.uids

    @property
    def reader_uid(self) -> int:
        """The uid that reads what boxes push."""
        return self.probe_uid + 1
