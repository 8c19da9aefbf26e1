"""Which keys sign, how, and what is refused without repeating anything of it."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry
from tests.unit.onbe.client.stage import FakeWorld, agent_key

from onbe.cli.drafts import new_key
from onbe_client import AgentKey, Misconfigured, OnbeClient
from onbe_client.metadata import issuer_of

KEYS: dict[str, ECKey | RSAKey | OKPKey] = {
    "ES256": ECKey.generate_key("P-256", private=True),
    "RS256": RSAKey.generate_key(2048, private=True),
    "PS256": RSAKey.generate_key(2048, {"alg": "PS256"}, private=True),
    "EdDSA": OKPKey.generate_key("Ed25519", private=True),
}


@pytest.mark.parametrize("algorithm", KEYS)
@pytest.mark.filterwarnings("error:EdDSA")
def test_each_kind_of_key_signs_from_each_form(algorithm: str, tmp_path: Path) -> None:
    made = KEYS[algorithm]
    jwk, pem = dict(made.as_dict(private=True)), made.as_pem(private=True)
    (tmp_path / "key.json").write_text(json.dumps(jwk))
    (tmp_path / "key.pem").write_bytes(pem)
    forms: list[Any] = [jwk, json.dumps(jwk), tmp_path / "key.json", str(tmp_path / "key.json")]
    if algorithm != "PS256":  # PEM has no room to say so
        forms += [pem, pem.decode(), tmp_path / "key.pem"]
    for form in forms:
        key = AgentKey(form)
        assert (key.algorithm, key.kid) == (algorithm, made.thumbprint())
        said = key.assertion("reports", "https://onbe.test", FakeWorld(), ahead=0, instance="pod-1")
        registry = JWSRegistry(algorithms=[algorithm])
        registry.algorithms = dict(JWSRegistry.algorithms)
        token = jwt.decode(said, made, registry=registry) if algorithm != "EdDSA" else None
        assert token is None or token.claims["instance"] == "pod-1"
        assert not {"d", "p", "q", "k"} & set(key.public_jwk)
        assert key.public_jwk["alg"] == algorithm
    assert AgentKey(pem, algorithm=algorithm, kid="mine").kid == "mine"


BAD: list[Any] = [
    "/no/such/file", "", "{", "{}", "[]", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----", b"\0", {},
    {"kty": "EC"}, {"kty": ["EC"]}, {"kty": "EC", "crv": "P-256", "x": 1, "y": 2, "d": 3},
    dict(OctKey.generate_key(256).as_dict()), dict(KEYS["ES256"].as_dict(private=False)),
    KEYS["ES256"].as_pem(private=False), dict(ECKey.generate_key("P-384", private=True).as_dict(private=True)),
    dict(OKPKey.generate_key("X25519", private=True).as_dict(private=True)),
    dict(ECKey.generate_key("P-256", {"alg": "ES512"}, private=True).as_dict(private=True)),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(BAD)))
def test_what_is_no_key_that_signs_here_is_refused(number: int) -> None:
    with pytest.raises(Misconfigured) as wrong:
        AgentKey(BAD[number])
    assert wrong.value.__cause__ is None


def test_a_key_is_not_shown_and_not_pickled() -> None:
    key = AgentKey(agent_key().as_dict(private=True))
    assert str(agent_key().as_dict(private=True)["d"]) not in repr(key) + str(vars(key).keys())
    with pytest.raises(TypeError):
        pickle.dumps(key)


@pytest.mark.parametrize("url", [
    "onbe.test", "http://onbe.test", "http://127.0.0.1.evil.test", "http://localhost.evil.test", "ftp://onbe.test",
    "https://", "https://user:secret-word@onbe.test", "https://onbe.test/#x", "https://onbe.test/?x=1",
    "https://onbe.test:port", "https://onbe .test", "https://onbe.test\n", "", "http://[::1", "https://ónbe.test",
])  # fmt: skip
def test_an_issuer_that_no_credential_should_go_to_is_refused(url: str) -> None:
    with pytest.raises(Misconfigured) as wrong:
        OnbeClient(url, "reports", agent_key().as_dict(private=True))
    assert "secret-word" not in str(wrong.value)


def test_an_issuer_of_this_machine_may_be_plain_http() -> None:
    for url in ("http://127.0.0.1:7434", "http://localhost/", "http://[::1]:1/x", "http://a.localhost"):
        assert issuer_of(url) == url.rstrip("/")
    assert issuer_of("http://onbe.test", insecure=True)


@pytest.mark.parametrize("options", [
    {"instance": ""}, {"instance": "x" * 129}, {"instance": "a\nb"}, {"timeout": 0}, {"timeout": float("nan")},
])  # fmt: skip
def test_options_that_could_not_work_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(Misconfigured):
        OnbeClient("https://onbe.test", "reports", agent_key().as_dict(private=True), **options)
    with pytest.raises(Misconfigured):
        OnbeClient("https://onbe.test", "", agent_key().as_dict(private=True))


def test_a_key_of_onbe_agent_init_signs_as_its_registration_says() -> None:
    pem, registered = new_key()
    assert AgentKey(pem).public_jwk == registered
