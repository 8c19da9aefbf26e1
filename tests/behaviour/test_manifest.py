"""No sentence of the contract is without a test, and no test that is named for one is missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.behaviour.manifest import PAGES, exists, headings, sentences


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_manifest_holds_every_sentence_of_the_page_word_for_word(page: Path) -> None:
    text, at, between = page.read_text(encoding="utf-8"), 0, []
    for sentence in sentences(page):
        found = text.find(sentence.text, at)
        assert found >= 0, f"the page does not have, or not after the one before: {sentence.text}"
        between += text[at:found].splitlines()
        at = found + len(sentence.text)
    between += text[at:].splitlines()
    left = [line.strip(" •") for line in between]
    assert [line for line in left if line and line not in headings(page)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_sentence_has_tests_that_exist(page: Path) -> None:
    wrong = [f"{one.text}: no test" for one in sentences(page) if not one.tests]
    wrong += [f"{one.text}: no test {name}" for one in sentences(page) for name in one.tests if not exists(name)]
    assert not wrong, "\n".join(wrong)
