"""What `onbe agent init` writes: an agent's file, to be filled in, and a key."""

from __future__ import annotations

import base64
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from onbe.keyset import thumbprints

DRAFT = """\
# An agent, for `onbe agent apply {name}.agent.toml`. All members: docs/onbe-admin.md

# Its id: iss and sub of its assertions. It cannot be changed.
agent_id = "{name}"

# Its name for people.
display_name = "{name}"

# The scopes that it may be granted. What a task gets is what the person has, this list and the request have in common.
allowed_scopes = ["files.read"]

# The resources that it may ask tokens for: absolute URIs, compared exactly.
allowed_audiences = ["https://files.example.com/"]

# Those of them that must ask the server about each token (token introspection).
# high_risk_audiences = ["https://files.example.com/"]

# How long a task lives, and a token, as ISO 8601 durations; without them, the server's defaults.
# max_task_ttl = "PT30M"
# max_token_ttl = "PT5M"

# How many agents may stand in a chain of delegation with this one, 1 to 5; 1: it acts for people alone.
# max_delegation_depth = 1

# false stops it at its next request. Without the line, apply leaves it as it is on the server.
# enabled = true

# Where it publishes its keys, instead of the public key below.
# jwks_uri = "https://{name}.example.com/jwks.json"

# Its public key; the private one is in {key}.
[[jwks.keys]]
"""


def new_key() -> tuple[str, dict[str, Any]]:
    """A fresh ES256 key: its private half as PEM, its public half as a JWK named by its thumbprint (RFC 7638)."""
    private = ec.generate_private_key(ec.SECP256R1())
    numbers = private.public_key().public_numbers()
    jwk = {"kty": "EC", "crv": "P-256", "x": _encoded(numbers.x), "y": _encoded(numbers.y)}
    (kid,) = thumbprints({"keys": [jwk]})
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return pem, {**jwk, "kid": kid, "alg": "ES256", "use": "sig"}


def draft(name: str, jwk: dict[str, Any], key: str) -> str:
    """The file of an agent; `key` is the name of the file of its private key."""
    members = "\n".join(f'{member} = "{value}"' for member, value in jwk.items())
    return f"{DRAFT.format(name=name, key=key)}{members}\n"


def _encoded(coordinate: int) -> str:
    return base64.urlsafe_b64encode(coordinate.to_bytes(32)).rstrip(b"=").decode()
