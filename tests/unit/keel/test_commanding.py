"""What both command lines do alike: hear -v, tell a fault without its secrets, tell checks."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from keel.commanding import checks_told, told, verbosely


class Check(NamedTuple):
    name: str
    ok: bool
    sentence: str
    mend: str | None = None


@pytest.fixture
def quiet() -> Iterator[None]:
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.WARNING)
    yield
    root.setLevel(before)


def test_a_fault_is_one_sentence_without_its_secrets(quiet: None, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended, told("prog", lambda text: text.replace("hunter2", "…")):
        raise LookupError("no\n  such hunter2")
    assert ended.value.code == 1
    assert capsys.readouterr().err == "prog: a fault: LookupError: no such …. `prog -v ...` tells where.\n"


def test_verbose_replaces_the_setting_however_it_is_spelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"PROG__LOG__LEVEL": "error", "OTHER": "1"})
    verbosely("Prog")
    assert os.environ == {"Prog__Log__Level": "info", "OTHER": "1"}


def test_a_check_is_told_with_what_mends_it_or_would_be_better() -> None:
    checks = [Check("a", True, "fine"), Check("b", True, "well", "do this"), Check("c", False, "bad", "do that")]
    assert checks_told(checks, as_json=False).splitlines() == [
        "ok   a: fine", "ok   b: well", "       better: do this", "NO   c: bad", "       mend: do that",
    ]  # fmt: skip
    assert json.loads(checks_told(checks, as_json=True))[2]["mend"] == "do that"
