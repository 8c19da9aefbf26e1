"""What may be an address and what may be a client's name."""

from __future__ import annotations

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keel.testing.plugin import FreshDatabase
from rift.people.decide import CLIENT_MOST, client_of, email_of


@pytest.mark.parametrize(
    "text", ["ada@example.org", "a.b+c@sub.example.org", "admin@localhost", "x@1.2", "ü@example.org"]
)
def test_an_address_is_taken_as_it_is(text: str) -> None:
    assert email_of(f"  {text}\n") == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ada",
        "@example.org",
        "ada@",
        "ada@@example.org",
        "ada@exa mple.org",
        "a da@example.org",
        "ada@-example.org",
        "ada@example..org",
        "ada@example.org.",
        "<ada@example.org>",
        "a,b@example.org",
        "ada\x00@example.org",
        "a" * 65 + "@example.org",
        "ada@" + "a" * 251,
        "\u212a@example.org",
        "ada@\u212aernel.example",
        "ada@e\u017fample.org",
        "\u0130@example.org",
        "a\u00a0b@example.org",
        "a\u3000b@example.org",
        "\u212bda@example.org",  # the Angstrom sign
        "\u03f4@example.org",  # a second capital theta
    ],
)
def test_what_is_no_address_is_not_taken(text: str) -> None:
    assert email_of(text) is None


async def test_no_address_that_is_taken_is_another_one_where_case_is_disregarded(database: FreshDatabase) -> None:
    """Postgres compares them, by its own tables: what it takes for one letter may be no more than one pair of cases."""
    taken = [c for c in map(chr, range(0x21, 0x110000)) if email_of(f"{c}@example.org")]
    with psycopg.connect(database.runtime) as connection:
        found = connection.execute("SELECT c, lower(c) FROM unnest(%s::text[]) AS one (c)", [taken]).fetchall()
    same: dict[str, set[str]] = {}
    for letter, low in found:
        same.setdefault(low, set()).add(letter)
    assert {low: letters for low, letters in same.items() if letters - {low, low.upper()}} == {}


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Claude", "Claude"),
        ("  Claude \t Code\n", "Claude Code"),
        ("Cl\x00au\x1bde\u202e", "Claude"),
        ("\x00\x01", ""),
        ("   ", ""),
        ("x" * 80, "x" * 64),
        ("a" * 63 + " b", "a" * 63),
        ("Zoë’s agent", "Zoë’s agent"),
        ("rift_" + "s" * 43, "<your token>"),  # pasted into the wrong field
    ],
)
def test_a_clients_name_is_made_fit_for_a_list(text: str, kept: str) -> None:
    assert client_of(text) == kept


@given(st.text())
def test_any_text_becomes_one_short_printable_line(text: str) -> None:
    kept = client_of(text)
    assert len(kept) <= CLIENT_MOST
    assert kept.isprintable()
    assert kept == kept.strip() == client_of(kept)
