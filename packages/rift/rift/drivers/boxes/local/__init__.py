"""Boxes on this host: a bubblewrap jail each, an agent beside it, a host user of their own where we are root."""

from rift.drivers.boxes.local.config import LocalConfig
from rift.drivers.boxes.local.driver import LocalBoxes

__all__ = ["LocalBoxes", "LocalConfig"]
