"""A story told in the terminal, and checked: a line a step, the piece of the answer that matters under it, a tick and
the time it took. What is not as it should be is told with what was expected, what came, and what mends it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

INDENT = "     "
LONGEST = 400
"""How much of one line is shown; the refusals and reasons that matter are shorter."""


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


class Telling:
    """Tells steps as they happen. On a terminal in colour and with a spinner, elsewhere as plain lines."""

    def __init__(self, console: Console, now: Callable[[], float]) -> None:
        self._console = console
        self._now = now
        self._utf8 = console.encoding.lower().replace("-", "").startswith("utf")
        self._count = 0

    @property
    def count(self) -> int:
        """How many steps were begun."""
        return self._count

    def say(self, line: str, style: str = "") -> None:
        """One line as it is."""
        self._print(Text(line, style=style))

    @contextmanager
    def step(self, title: str) -> Iterator[list[str]]:
        """One step: fill the list with the lines to show. What goes wrong is told whole, and raised as a `Wrong`."""
        self._count += 1
        shown: list[str] = []
        begun = self._now()
        try:
            if self._console.is_terminal:
                with self._console.status(Text(self._sayable(title)), spinner="dots" if self._utf8 else "line"):
                    yield shown
            else:
                yield shown
        except Exception as error:  # noqa: BLE001 - a step that breaks is told like one that fails
            wrong = error if isinstance(error, Wrong) else Wrong("an answer of the agreed form", repr(error))
            self._line(self._mark("✗", "NO"), "red", title, self._now() - begun)
            self.wrong(wrong)
            raise wrong from None
        self._line(self._mark("✓", "ok"), "green", title, self._now() - begun)
        self._lines(shown, "", style="dim")

    def wrong(self, wrong: Wrong) -> None:
        """What was expected, what came, and the mend, whole."""
        for name, text in (("expected", wrong.expected), ("got", wrong.got), ("mend", wrong.mend)):
            if text:
                self._lines(text.splitlines() or [""], f"{name + ':':<10}", whole=True)

    def _line(self, mark: str, colour: str, title: str, seconds: float) -> None:
        took = f"{seconds:.1f} s" if seconds >= 0.1 else f"{seconds * 1000:.0f} ms"
        self._print(Text.assemble((mark, colour), f" {self._count:>2} ", (title, "bold"), (f"  {took}", "cyan")))

    def _lines(self, lines: Sequence[str], head: str, *, style: str = "", whole: bool = False) -> None:
        for number, line in enumerate(lines):
            clean = _clean(line)
            if not whole and len(clean) > LONGEST:
                clean = clean[:LONGEST] + "…"
            start = INDENT + (head if number == 0 else " " * len(head))
            for part in self._wrapped(clean, start):
                self._print(Text(part, style=style))

    def _wrapped(self, line: str, start: str) -> list[str]:
        """On a terminal a long line goes on under its own beginning; elsewhere it stays one line."""
        if not self._console.is_terminal:
            return [start + line]
        rest = " " * len(start)
        width = max(self._console.width, len(start) + 20)
        return textwrap.wrap(line, width, initial_indent=start, subsequent_indent=rest) or [start]

    def _mark(self, mark: str, plain: str) -> str:
        return mark if self._utf8 else plain

    def _sayable(self, text: str) -> str:
        encoding = self._console.encoding
        return text.encode(encoding, "replace").decode(encoding)

    def _print(self, text: Text) -> None:
        if not self._utf8:
            text = Text(self._sayable(text.plain))
        self._console.print(text, soft_wrap=True, highlight=False, markup=False)


def _clean(line: str) -> str:
    """The line without what could steer a terminal: the output of a stranger's tests is shown too."""
    return "".join(character if character.isprintable() else " " for character in line.replace("\t", "  "))
