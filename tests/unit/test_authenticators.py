"""Where passkeys are good, and when a count tells of a copy."""

from __future__ import annotations

import pytest

from rift.authenticators import Place, place_of
from rift.passkeys.decide import UNNAMED, name_of, went_back


@pytest.mark.parametrize(
    ("public", "place"),
    [
        ("https://rift.example.org", Place("rift.example.org", "https://rift.example.org")),
        ("https://Rift.Example.org:8443", Place("rift.example.org", "https://rift.example.org:8443")),
        ("https://rift.example.org:443", Place("rift.example.org", "https://rift.example.org")),
        ("http://127.0.0.1:7433", Place("localhost", "http://localhost:7433")),
        ("http://localhost:7433", Place("localhost", "http://localhost:7433")),
        ("http://[::1]:7433", Place("localhost", "http://localhost:7433")),
        ("http://rift.example.org", None),
        ("https://192.0.2.7", None),
        ("https://[2001:db8::1]:7433", None),
        ("http://0.0.0.0:7433", None),
    ],
)
def test_passkeys_are_bound_to_a_name_over_https_or_to_this_machine(public: str, place: Place | None) -> None:
    assert place_of(public) == place


@pytest.mark.parametrize(
    ("stored", "said", "back"),
    [(0, 0, False), (0, 1, False), (4, 5, False), (4, 4, True), (4, 3, True), (4, 0, True), (2**32 - 1, 1, True)],
)
def test_a_count_that_does_not_go_on_tells_of_a_copy(stored: int, said: int, back: bool) -> None:
    assert went_back(stored, said) == back


def test_a_passkey_without_a_name_gets_one() -> None:
    assert name_of(" \x00\n") == UNNAMED
    assert name_of(" My\tlaptop ") == "My laptop"
