"""docs/onbe-admin.md says what is: every member, every bound, every command and reason that it names."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import typer

from keel.settings import table
from onbe.catalogue import REASONS
from onbe.cli import app
from onbe.directory.decide import MEMBERS
from onbe.grants.refusals import malformed_request
from onbe.names import ADMIN_KEY_LENGTH, AUDIENCES_MOST, KEYS_MOST, RESERVED_IDS, SCOPES_MOST, URI_LENGTH
from onbe.settings import OnbeSettings
from onbe.wire import refusals

PAGE = (Path(__file__).parents[4] / "docs/onbe-admin.md").read_text("utf-8")


def test_the_table_of_members_has_each_of_them() -> None:
    section = PAGE.partition("## A registration")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == set(MEMBERS)
    for number in (SCOPES_MOST, AUDIENCES_MOST, URI_LENGTH, KEYS_MOST):
        assert re.search(rf"\b{number}\b", section)
    assert all(f"`{name}`" in section for name in RESERVED_IDS)
    assert f"at least {ADMIN_KEY_LENGTH} printable" in PAGE


def test_the_reasons_it_names_are_reasons_with_these_statuses() -> None:
    section = PAGE.partition("## Refusals")[2].partition("\n## ")[0]
    for statuses, reasons in re.findall(r"^\| ([\d, ]+) \| ([^|]*) \|", section, re.MULTILINE):
        for reason in re.findall(r"`(\w+)`", reasons):
            assert reason in {*REASONS, malformed_request.code}
            assert str(refusals.ADMIN[reason]) in statuses, reason


def test_the_settings_it_names_are_settings() -> None:
    known = {row.name for row in table(OnbeSettings)}
    assert set(re.findall(r"`(Onbe:\w+(?::\w+)?)`", PAGE)) <= known


def test_the_commands_it_shows_are_commands() -> None:
    shown = re.findall(r"(?:^\$ |`)onbe ([a-z-][^`\n]*)", PAGE, re.MULTILINE)
    assert len(shown) > 5
    for words in shown:
        at: Any = typer.main.get_command(app)
        for word in shlex.split(words):
            if word.startswith("-"):
                assert word in {option for param in at.params for option in param.opts}, words
            elif groups := getattr(at, "commands", {}):
                assert word in groups, words
                at = groups[word]
