"""The demo: agents work for a person, for one task at a time, against a running Onbe; told in the terminal, checked."""

from onbe.demo.story import play

__all__ = ["play"]
