"""Whatever is brought: an answer, never a fault; and nothing that was not signed is ever taken."""

from __future__ import annotations

import json
from typing import Any, get_args

from hypothesis import example, given
from hypothesis import strategies as st
from tests.unit.keel.jose.making import CLAIMS, honest, part, public, signed

from keel import jose

KEYS = [public("P-256"), public("Ed25519"), public("rsa-2048")]
TROUBLES = get_args(jose.Trouble)
json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
pieces = st.one_of(
    st.text(), st.binary().map(jose.encode), json_like.map(lambda value: part(json.dumps(value))),
    st.just(part({"alg": "ES256", "kid": "P-256"})), st.just(part(CLAIMS)),
)  # fmt: skip


@given(st.lists(pieces, max_size=5).map(".".join))
@example("\ud800.\ud800.\ud800")
@example("é.é.é")
def test_any_text_is_answered_and_none_is_taken(token: str) -> None:
    assert jose.verified(token, KEYS) in TROUBLES
    jose.peek(token)


@given(
    st.dictionaries(st.sampled_from(["alg", "kid", "typ", "crit", "b64", "jwk", "x5c", "cty"]), json_like), json_like
)
def test_any_header_over_any_claims_is_answered_and_what_is_taken_was_read_strictly(header: Any, claims: Any) -> None:
    got = jose.verified(signed("P-256", "ES256", header, json.dumps(claims)), [public("P-256")])
    if isinstance(got, jose.Jwt):
        assert got.header["alg"] == "ES256"
        json.dumps([got.claims, got.header], allow_nan=False, ensure_ascii=False).encode()
    else:
        assert got in TROUBLES


@given(st.data())
def test_a_token_with_one_character_changed_is_refused(data: st.DataObject) -> None:
    token = honest("Ed25519", "EdDSA")
    at = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.characters(exclude_characters=token[at]))
    assert jose.verified(token[:at] + other + token[at + 1 :], KEYS) in TROUBLES


@given(st.lists(st.dictionaries(
    st.sampled_from(["kty", "crv", "x", "y", "n", "e", "kid", "use", "alg", "key_ops", "d", "k"]),
    json_like | st.sampled_from(["EC", "RSA", "OKP", "oct", "P-256", "Ed25519", "sig", "ES256", "AQAB", "P-256"]),
)))  # fmt: skip
def test_any_keys_are_looked_at_without_a_fault(keys: list[dict[str, Any]]) -> None:
    assert jose.verified(honest("P-256", "ES256"), keys) in ("key_unknown", "signature", "algorithm")
    for key in keys:
        jose.algorithm(key)


@given(st.binary())
def test_base64url_has_one_spelling(data: bytes) -> None:
    assert jose.decode(jose.encode(data)) == data


@given(st.text())
def test_what_is_decoded_is_the_canonical_spelling(text: str) -> None:
    data = jose.decode(text)
    assert data is None or jose.encode(data) == text
