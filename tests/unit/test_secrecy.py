"""What is taken out of the addresses in a text before it is shown."""

from __future__ import annotations

import pytest

from keel.secrecy import masked


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://user:secret@example.org/app", "https://***@example.org/app"),
        ("https://user:p@ss@example.org/app", "https://***@example.org/app"),
        (
            "fetching 'https://token@h/a' and ssh://git@h/b failed",
            "fetching 'https://***@h/a' and ssh://***@h/b failed",
        ),
        ("https://example.org/a@b", "https://example.org/a@b"),
        ("git@example.org:app", "git@example.org:app"),
        ("no url", "no url"),
    ],
)
def test_credentials_in_urls_are_masked(text: str, shown: str) -> None:
    assert masked(text) == shown
