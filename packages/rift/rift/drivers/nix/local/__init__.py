"""Environments built on this host by Nix: in a jail, with a store for each repository and, as root, a host user too."""

from rift.drivers.nix.local.builder import LocalBuilder
from rift.drivers.nix.local.config import NixConfig

__all__ = ["LocalBuilder", "NixConfig"]
