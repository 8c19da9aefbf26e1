"""The documentation says what is: parts made from the code, links, and every command, setting and tool it names."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from docs.generate import HERE, PART, PARTS, made, pages
from docs.onbe_reasons import MENDS
from docs.refusal_examples import EXAMPLES, GROUPS

from keel.refusal import CATALOGUE, Call
from keel.settings import table
from onbe.catalogue import REASONS
from onbe.cli import app as onbe_app
from onbe.settings import OnbeSettings
from onbe.wire.refusals import ADMIN, OAUTH
from rift import meters
from rift.cli import app
from rift.health import collector
from rift.settings import RiftSettings
from rift.wire.mcp.registry import CONTRACT
from rift.wire.mcp.tools import TOOLS

ROOT = HERE.parent
FENCE = re.compile(r"^```.*?^```\s*$", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"(?:\$ )?(?:[\w]+=\S+ )*(?:[\w./-]*/)?(?P<program>rift|onbe) (?P<words>[a-z-].*)")
"""A line of the terminal that runs `rift` or `onbe`."""
PROGRAMS = {"rift": app, "onbe": onbe_app}

NO_SETTINGS = {"Rift:Section:Name", "Onbe:Section:Name", "Rift:Server:Prt"}
"""Shown for their shape, and as the mistake that they are."""

each_page = pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return FENCE.sub("", page.read_text("utf-8"))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    heads = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def commands(page: Path) -> Iterator[tuple[str, str]]:
    """The program, and what follows it, wherever a page shows the command line."""
    blocks = (line.strip() for block in FENCE.findall(page.read_text("utf-8")) for line in block.splitlines())
    for text in (*re.findall(r"`([^`\n]+)`", prose(page)), *blocks):
        if found := COMMAND.fullmatch(text):
            yield found["program"], re.split(r"\s#|[|>]", found["words"])[0]


@each_page
def test_what_a_page_takes_from_the_code_is_as_the_code_is(page: Path) -> None:
    text = page.read_text("utf-8")
    assert made(text) == text, "`script/docs` writes it anew"


def test_every_part_made_from_the_code_stands_on_some_page() -> None:
    there = {found["name"] for page in pages() for found in PART.finditer(page.read_text("utf-8"))}
    assert there == set(PARTS)


def test_every_kind_of_refusal_is_told_once_with_an_example_of_its_own() -> None:
    assert set(EXAMPLES) == set(CATALOGUE)
    assert {code: make().code for code, make in EXAMPLES.items()} == {code: code for code in EXAMPLES}
    codes = list(EXAMPLES)
    ends = [codes.index(code) for group in GROUPS.values() for code in group]
    assert ends[0] == 0
    assert ends[-1] == len(codes) - 1
    assert [after - before for before, after in zip(ends[1::2], ends[2::2], strict=False)] == [1] * (len(GROUPS) - 1)


def test_every_reason_of_onbes_is_told_with_what_to_do() -> None:
    assert set(MENDS) == set(REASONS)
    assert (set(OAUTH) | set(ADMIN)) <= set(REASONS)


def test_a_call_that_mends_names_a_tool_there_is() -> None:
    names = {tool.name for tool in TOOLS}
    wrong = [
        f"{code}: {mend.tool}"
        for code, make in EXAMPLES.items()
        for mend in make().mends
        if isinstance(mend, Call) and mend.tool not in names
    ]
    assert wrong == []


@each_page
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    wrong = []
    targets = re.findall(r"\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"", prose(page))
    for target in (one or other for one, other in targets):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        led = (page.parent / path).resolve() if path else page
        if not led.exists() or (anchor and anchor not in anchors(led)):
            wrong.append(target)
    assert wrong == []


@each_page
def test_every_command_a_page_shows_is_one_that_there_is(page: Path) -> None:
    wrong = []
    for program, words in commands(page):
        at: Any = typer.main.get_command(PROGRAMS[program])
        for word in shlex.split(words):
            if word.startswith("-"):
                options = {option for param in at.params for option in param.opts} | {"--help"}
                right = word.partition("=")[0] in options
            elif groups := getattr(at, "commands", {}):
                at, right = groups.get(word, at), word in groups
            else:
                right = True  # an argument's value
            if not right:
                wrong.append(f"{program} {words}")
    assert wrong == []


@each_page
def test_a_page_names_settings_and_tools_as_they_are_spelled(page: Path) -> None:
    text = page.read_text("utf-8")
    settings = {row.name for rows in (table(RiftSettings), table(OnbeSettings)) for row in rows}
    spelled = {name.replace("__", ":") for name in re.findall(r"\b(?:Rift|Onbe)(?:(?:__|:)[A-Z]\w*?){2}\b", text)}
    assert spelled - settings - NO_SETTINGS == set()
    named = set(re.findall(r"\brift_[a-z_]+\b", text)) - {"rift_agent", "rift_owner", "rift_runtime", "rift_"}
    assert named - set(CONTRACT) - numbers() == set()


def numbers() -> set[str]:
    """The names of what `/metrics` tells, as a scraper has them."""
    made = "".join(Path(str(module.__file__)).read_text("utf-8") for module in (meters, collector))
    names = re.findall(r'"(rift_[a-z_]+)"', made)
    return {f"{name}{end}" for name in names for end in ("", "_total")}


@each_page
def test_a_page_names_nobody_s_machine(page: Path) -> None:
    assert re.findall(r"/work/|/root/|/home/(?!dev)\w+", page.read_text("utf-8")) == []
