"""What a client reads before it signs in, and who may read it."""

from __future__ import annotations

import pytest
from tests.wire.oauth.desk import MCP, Desk
from tests.wire.web.browsing import PUBLIC

from rift.wire.oauth.metadata import RESOURCE_PATHS, SERVER_PATHS


@pytest.mark.parametrize("path", RESOURCE_PATHS)
async def test_the_endpoint_says_which_server_gives_tokens_for_it(desk: Desk, path: str) -> None:
    told = (await desk.http.get(path)).json()
    assert told["resource"] == MCP
    assert told["authorization_servers"] == [PUBLIC]


@pytest.mark.parametrize("path", SERVER_PATHS)
async def test_the_server_says_the_same_of_itself_at_every_path(desk: Desk, path: str) -> None:
    answer = await desk.http.get(path)
    told = answer.json()
    assert told["issuer"] == PUBLIC
    assert not told["issuer"].endswith("/")
    assert told["code_challenge_methods_supported"] == ["S256"]
    assert told["token_endpoint_auth_methods_supported"] == ["none"]
    assert told["client_id_metadata_document_supported"] is True
    assert told["authorization_response_iss_parameter_supported"] is True
    for name in ("authorization", "token", "registration", "revocation"):
        assert told[f"{name}_endpoint"].startswith(f"{PUBLIC}/oauth2/")
    assert answer.headers["access-control-allow-origin"] == "*"


@pytest.mark.parametrize(
    "path", [*RESOURCE_PATHS, *SERVER_PATHS, "/oauth2/token", "/oauth2/register", "/oauth2/revoke"]
)
async def test_a_client_in_a_browser_may_ask_from_its_own_page_and_never_with_credentials(
    desk: Desk, path: str
) -> None:
    far = {"origin": "http://localhost:6274", "access-control-request-method": "POST",
           "access-control-request-headers": "content-type, mcp-protocol-version"}  # fmt: skip
    answer = await desk.http.options(path, headers=far)
    assert answer.status_code == 204
    assert answer.headers["access-control-allow-origin"] == "*"
    assert "mcp-protocol-version" in answer.headers["access-control-allow-headers"].lower()
    assert "access-control-allow-credentials" not in answer.headers
    if path.startswith("/oauth2/"):
        refused = await desk.http.post(path, headers={"origin": "http://localhost:6274"})
        assert refused.headers["access-control-allow-origin"] == "*"


async def test_the_consent_page_is_no_page_for_other_origins(desk: Desk) -> None:
    answer = await desk.browser.get("/oauth2/authorize", origin="https://evil.example")
    assert "access-control-allow-origin" not in answer.headers
