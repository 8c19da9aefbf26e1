"""Which redirect addresses are taken, what a page's policy names of them, and that nothing odd gets through."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rift.connections import decide

TAKEN = (
    "https://client.example/callback", "https://client.example:8443/callback?x=1", "https://client.example",
    "http://127.0.0.1/callback", "http://127.0.0.1:8080/callback", "http://localhost", "http://localhost:1/?a=b",
    "http://[::1]:9/x", "cursor://anysphere.cursor-mcp/oauth/callback", "com.example.app:/callback",
    "vscode://vscode.github-authentication/did-authenticate",
)  # fmt: skip


@pytest.mark.parametrize("uri", TAKEN)
def test_an_address_of_a_client_is_taken_and_matches_itself(uri: str) -> None:
    assert decide.redirect_problem(uri) is None
    assert decide.redirect_allowed([uri], uri)


@pytest.mark.parametrize(
    ("uri", "named"),
    [("https://client.example/a;script-src", ""), ("cursor://a/b", ""), ("com.example.app:/cb", ""),
     ("http://127.0.0.1:8080/x", "http://127.0.0.1:8080 https:"), ("http://localhost/x", "http://localhost https:"),
     ("http://[::1]:8080/x", "http: https:")],
)  # fmt: skip
def test_a_pages_policy_names_where_its_form_may_lead_and_nothing_more(uri: str, named: str) -> None:
    assert decide.form_action(uri) == named


@given(
    st.one_of(
        st.text(max_size=60),
        st.sampled_from(TAKEN).flatmap(lambda uri: st.text(max_size=8).map(lambda more: uri + more)),
        st.tuples(
            st.sampled_from(["http://", "https://", "HTTP://", "x:", ""]),
            st.text("127.0localhst:@/\\#?[]%.evil ", max_size=30),
        ).map("".join),
    )
)
def test_whatever_is_taken_leads_where_it_seems_to_lead(uri: str) -> None:
    if decide.redirect_problem(uri) is not None:
        assert not decide.redirect_allowed([uri], uri)
        return
    parts = urlsplit(uri)
    assert uri.isascii()
    assert uri.isprintable()
    assert "@" not in parts.netloc or parts.scheme not in ("http", "https")
    assert "#" not in uri
    if parts.scheme == "http":
        assert parts.hostname in ("127.0.0.1", "::1", "localhost")
    assert not set(decide.form_action(uri)) & set(";,'\"*")


@given(st.sampled_from(TAKEN), st.sampled_from(TAKEN), st.integers(1, 65535))
def test_two_addresses_match_if_they_are_the_same_but_for_a_port_of_this_computer(
    one: str, other: str, port: int
) -> None:
    here = decide.LOOPBACK.fullmatch(other)
    if here is not None:
        other = f"http://{here[1]}:{port}{here[3]}"
    mine = decide.LOOPBACK.fullmatch(one)
    same = one == other or (mine is not None and here is not None and (mine[1], mine[3]) == (here[1], here[3]))
    assert decide.redirect_allowed([one], other) == same


def test_a_verifier_proves_its_own_challenge_alone() -> None:
    # RFC 7636, appendix B
    verifier, challenge = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    assert decide.proves(verifier, challenge)
    for wrong in (challenge, verifier[:-1], verifier + "x", verifier.upper(), "", verifier + "é"):
        assert not decide.proves(wrong, challenge)
    assert not decide.proves(verifier, verifier)
