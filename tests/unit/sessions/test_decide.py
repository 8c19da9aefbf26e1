"""What a browser is called."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rift.sessions.decide import browser_of

WEBKIT = "AppleWebKit/537.36 (KHTML, like Gecko)"


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0", "Firefox on Linux"),
        (f"Mozilla/5.0 (Windows NT 10.0; Win64; x64) {WEBKIT} Chrome/142.0.0.0 Safari/537.36", "Chrome on Windows"),
        (f"Mozilla/5.0 (Windows NT 10.0) {WEBKIT} Chrome/142.0.0.0 Safari/537.36 Edg/142.0", "Edge on Windows"),
        (f"Mozilla/5.0 (Linux; Android 10; K) {WEBKIT} Chrome/142.0.0.0 Mobile Safari/537.36", "Chrome on Android"),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Version/26.0 Safari/605.1.15",
         "Safari on macOS"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 26_0 like Mac OS X) AppleWebKit/605.1.15 CriOS/142.0 Mobile Safari/604.1",
         "Chrome on iPhone"),
        ("curl/8.14.1", "curl"),
        ("", "A browser"),
        ("<script>alert(1)</script>", "A browser"),
    ],
)  # fmt: skip
def test_a_browser_is_known_again_by_its_words(agent: str, words: str) -> None:
    assert browser_of(agent) == words


@given(st.text())
def test_whatever_a_browser_says_becomes_a_few_words_of_ours(agent: str) -> None:
    assert len(browser_of(agent)) < 40
    assert browser_of(agent).isascii()
