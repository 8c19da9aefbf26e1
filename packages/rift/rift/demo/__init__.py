"""The demo: two real MCP clients play a day's work against a running Rift, told in the terminal and checked."""

from rift.demo.story import play

__all__ = ["play"]
