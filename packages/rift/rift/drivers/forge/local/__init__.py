"""The local forge: any git URL or path, through git itself."""

from rift.drivers.forge.local.driver import LocalForge

__all__ = ["LocalForge"]
