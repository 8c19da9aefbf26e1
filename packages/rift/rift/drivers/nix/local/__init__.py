"""Environments built on this host by Nix, in a jail."""

from rift.drivers.nix.local.builder import LocalBuilder

__all__ = ["LocalBuilder"]
