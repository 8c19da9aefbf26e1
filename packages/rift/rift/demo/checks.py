"""What a step is checked with: what was expected, what came, and what mends it."""

from __future__ import annotations


class Wrong(Exception):
    """A step was not as it should be. `mend` is a command or an advice for the person at the terminal."""

    def __init__(self, expected: str, got: str, mend: str | None = None) -> None:
        super().__init__(f"expected {expected}; got {got}")
        self.expected = expected
        self.got = got
        self.mend = mend


def expect(holds: bool, expected: str, got: object, mend: str | None = None) -> None:
    """Raise `Wrong` unless `holds`."""
    if not holds:
        raise Wrong(expected, str(got), mend)
