"""A private key that is sent by mistake comes to stand nowhere: no answer, record, log line or terminal has it."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import structlog
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey
from tests.behaviour.onbe.directory.office import Office, registration

from onbe.cli.registry import read_all
from onbe.cli.remote import Trouble

SECRET = ("d", "p", "q", "dp", "dq", "qi", "k")


def private_keys() -> list[dict[str, Any]]:
    made = (ECKey.generate_key("P-256"), OKPKey.generate_key("Ed25519"), RSAKey.generate_key(2048),
            OctKey.generate_key(256))  # fmt: skip
    return [dict(key.as_dict(private=True)) for key in made]


def wrong_places(key: dict[str, Any]) -> list[dict[str, Any]]:
    """Bodies that hold a private key where it does not belong."""
    secret = next(key[name] for name in SECRET if name in key)
    return [
        registration(jwks={"keys": [key]}),
        registration(jwks=key),
        registration(jwks=json.dumps(key)),
        registration(jwks=None, jwks_uri=f"http://x/{secret}"),
        registration(display_name=f"\n{secret}"),
        registration(allowed_scopes=[f"a {secret}"]),
        registration(max_task_ttl=secret),
        registration(max_delegation_depth=secret),
        registration(enabled={"key": secret}),
        {"private": secret},
    ]


async def test_a_private_key_sent_by_mistake_is_repeated_nowhere(admin: Office, caplog: Any) -> None:
    await admin.register("other")
    caplog.set_level(logging.DEBUG)
    said: list[str] = []
    secrets: list[str] = []
    with structlog.testing.capture_logs() as lines:
        for key in private_keys():
            secrets += [key[name] for name in SECRET if name in key]
            for body in wrong_places(key):
                answer = await admin.http.post("/agents", json=body)
                assert answer.status_code == 422
                patch = {name: value for name, value in body.items() if name != "agent_id"}
                again = await admin.http.patch("/agents/other", json=patch)
                assert again.status_code == 422
                said += [answer.text, str(answer.headers), again.text]
    said += [json.dumps(one) for one in await admin.records()]
    said += [str(line) for line in lines] + [one.getMessage() for one in caplog.records]
    assert len(said) > 100
    assert [place for place in said if any(secret in place for secret in secrets)] == []


def test_a_private_key_in_a_file_is_not_shown_on_the_terminal(tmp_path: Path) -> None:
    for key in private_keys():
        for number, body in enumerate(wrong_places(key)):
            if "jwks_uri" in body:  # whether http is taken is for the server to say
                continue
            file = tmp_path / f"{number}.json"
            file.write_text(json.dumps(body))
            with pytest.raises(Trouble) as trouble:
                read_all([file])
            shown = str(trouble.value) + json.dumps(trouble.value.errors)
            assert not any(key[name] in shown for name in SECRET if name in key)
