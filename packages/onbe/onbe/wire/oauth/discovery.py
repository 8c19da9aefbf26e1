"""What clients and tool servers find by themselves: the endpoints, and the keys that tokens are signed with.

Sources: RFC 8414; OpenID Connect Discovery 1.0, 3 and 4; RFC 7517, 5. Only what is implemented is listed.
"""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from keel import jose
from onbe.deps import Deps
from onbe.names import ENDPOINT, EXCHANGE, INTROSPECT_PATH, REFRESH, REVOKE_PATH
from onbe.settings import OnbeSettings

JWKS = "/.well-known/jwks.json"
WELL_KNOWN = ("/.well-known/openid-configuration", "/.well-known/oauth-authorization-server")
SECONDS = 300
"""How long what is published may be kept. A verifier that meets a key it does not know asks again (RFC 9068, 4)."""
OPEN = {"Cache-Control": f"public, max-age={SECONDS}", "Access-Control-Allow-Origin": "*"}


def metadata(settings: OnbeSettings) -> dict[str, Any]:
    """The document of this authorization server, by the members' names of RFC 8414."""
    issuer = settings.issuer
    document: dict[str, Any] = {
        "issuer": issuer,
        "jwks_uri": issuer + JWKS,
        "token_endpoint": issuer + ENDPOINT,
        "grant_types_supported": [EXCHANGE, REFRESH],
        "response_types_supported": [],
    }
    for endpoint, path in (("revocation", REVOKE_PATH), ("introspection", INTROSPECT_PATH)):
        document[f"{endpoint}_endpoint"] = issuer + path
    for endpoint in ("token", "revocation", "introspection"):
        document[f"{endpoint}_endpoint_auth_methods_supported"] = ["private_key_jwt"]
        document[f"{endpoint}_endpoint_auth_signing_alg_values_supported"] = list(jose.ALGORITHMS)
    return document


def routes(deps: Deps) -> list[BaseRoute]:
    """`/.well-known/…`."""
    document = metadata(deps.settings)

    async def described(request: Request) -> Response:
        return JSONResponse(document, headers=OPEN)

    async def keys(request: Request) -> Response:
        return JSONResponse(deps.signing.jwks(), media_type="application/jwk-set+json", headers=OPEN)

    return [*(Route(path, described) for path in WELL_KNOWN), Route(JWKS, keys)]
