"""How the story looks where there is no terminal, in an encoding that cannot say it all, and in a narrow one."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from keel.telling import Telling, Wrong
from keel.testing import FakeClock


def told(encoding: str, *, terminal: bool = False) -> tuple[Telling, io.BytesIO]:
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, encoding=encoding, write_through=True)
    console = Console(file=stream, force_terminal=terminal, width=40, _environ={})
    return Telling(console, FakeClock().monotonic), written


def test_without_a_terminal_a_step_is_plain_lines_of_any_length() -> None:
    telling, written = told("utf-8")
    with telling.step("it asks") as shown:
        shown += ["a long line " * 10, "[bold]as it is[/bold]"]
    first, *rest = written.getvalue().decode().splitlines()
    assert re.fullmatch(r"✓  1 it asks  \d+ ms", first)
    assert rest == ["     " + "a long line " * 10, "     [bold]as it is[/bold]"]


def test_what_a_stranger_printed_cannot_steer_the_terminal() -> None:
    telling, written = told("utf-8")
    with telling.step("it runs the tests") as shown:
        shown.append("\x1b[2J\x1b]0;mine\x07 passed\u202e")
    assert "\x1b" not in written.getvalue().decode()
    assert "\u202e" not in written.getvalue().decode()


@pytest.mark.parametrize("terminal", [False, True])
def test_an_encoding_that_lacks_the_marks_gets_others(terminal: bool) -> None:
    telling, written = told("ascii", terminal=terminal)
    with telling.step("Ωμέγα") as shown:
        shown.append("naïve")
    assert "ok  1 ?????" in written.getvalue().decode("ascii")


def test_what_is_wrong_is_told_whole_with_its_mend() -> None:
    telling, written = told("utf-8")
    with pytest.raises(Wrong), telling.step("it takes a box"):
        raise Wrong("a box", "failed: no space\n" + "x" * 1000, "`rift doctor`")
    lines = written.getvalue().decode().splitlines()
    assert lines[0].startswith("✗  1 it takes a box")
    assert lines[1:] == [
        "     expected: a box",
        "     got:      failed: no space",
        "               " + "x" * 1000,
        "     mend:     `rift doctor`",
    ]


def test_an_answer_of_another_form_is_a_step_that_failed() -> None:
    telling, written = told("utf-8")
    with pytest.raises(Wrong), telling.step("it counts") as shown:
        shown.append(str(int("many")))
    assert "invalid literal for int() with base 10: 'many'" in written.getvalue().decode()
