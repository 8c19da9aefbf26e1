"""From where a request comes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keel.web.sources import networks, source

TRUSTED = networks(["10.0.0.0/8", "fd00::/8", "127.0.0.0/8"])


def asked(peer: str | None, *forwarded: str, trusted: Sequence[str] | None = None, **headers: str) -> str | None:
    names = [(b"x-forwarded-for", one.encode("latin-1")) for one in forwarded]
    names += [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "client": (peer, 1) if peer else None, "headers": names}
    return source(scope, TRUSTED if trusted is None else networks(trusted))


@pytest.mark.parametrize(
    ("peer", "forwarded", "who"),
    [
        # Nobody in between.
        ("192.0.2.1", (), "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", (), "2001:db8:1:2::/64"),
        ("fe80::1%eth0", (), "fe80::/64"),
        ("::ffff:192.0.2.1", (), "192.0.2.1"),
        ("127.0.0.1", (), None),
        ("::1", (), None),
        ("::ffff:127.0.0.1", (), None),
        # A stranger says what it likes.
        ("192.0.2.1", ("127.0.0.1",), "192.0.2.1"),
        ("192.0.2.1", ("198.51.100.9, 10.0.0.1",), "192.0.2.1"),
        # A proxy that is trusted.
        ("10.0.0.1", ("198.51.100.9",), "198.51.100.9"),
        ("10.0.0.1", ("1.1.1.1, 198.51.100.9",), "198.51.100.9"),
        ("10.0.0.1", ("127.0.0.1, 198.51.100.9, 10.2.2.2",), "198.51.100.9"),
        ("10.0.0.1", ("1.1.1.1", "198.51.100.9, 10.2.2.2"), "198.51.100.9"),
        ("10.0.0.1", ("198.51.100.9:4711",), "198.51.100.9"),
        ("10.0.0.1", ("[2001:db8::9]:4711",), "2001:db8::/64"),
        ("10.0.0.1", ("2001:db8::9",), "2001:db8::/64"),
        ("fd00::1", (" 198.51.100.9 ",), "198.51.100.9"),
        ("127.0.0.1", ("198.51.100.9",), "198.51.100.9"),
        # What it says is no address: it answers for it itself.
        ("10.0.0.1", ("unknown",), "10.0.0.1"),
        ("10.0.0.1", ("198.51.100.9, _hidden",), "10.0.0.1"),
        ("10.0.0.1", ("",), "10.0.0.1"),
        ("10.0.0.1", (), "10.0.0.1"),
        ("10.0.0.1", ("10.3.3.3, 10.2.2.2",), "10.3.3.3"),
        # Nothing that has an address.
        (None, (), None),
        ("testclient", (), "unknown"),
    ],
)
def test_whom_a_request_is_counted_for(peer: str | None, forwarded: tuple[str, ...], who: str | None) -> None:
    assert asked(peer, *forwarded) == who


@pytest.mark.parametrize("header", ["forwarded", "via", "x_real_ip", "x_forwarded_host"])
def test_what_came_by_a_proxy_on_this_machine_is_not_this_machine_asking(header: str) -> None:
    assert asked("127.0.0.1", trusted=[], **{header: "x"}) == "127.0.0.1"


def test_a_proxy_on_this_machine_that_nobody_named_is_one_source() -> None:
    assert asked("127.0.0.1", "198.51.100.9", trusted=[]) == "127.0.0.1"


@given(st.text(st.characters(max_codepoint=255), max_size=300))
def test_no_text_of_a_stranger_makes_another_source_of_it(text: str) -> None:
    assert asked("192.0.2.1", text) == "192.0.2.1"


@given(st.text(st.characters(max_codepoint=255), max_size=300))
def test_what_a_client_wrote_itself_is_not_believed_behind_a_proxy(text: str) -> None:
    assert asked("10.0.0.1", f"{text}, 198.51.100.9") == "198.51.100.9"


def test_the_addresses_of_one_site_are_one_source() -> None:
    assert len({asked(f"2001:db8:0:7::{n:x}") for n in range(300)}) == 1
    assert len({asked(f"2001:db8:0:{n:x}::1") for n in range(300)}) == 300
