"""The JSON schemas of the admin API's agents and problems: true of what is taken and of what is answered."""

from __future__ import annotations

from typing import Any

from onbe.names import (
    AGENT_ID,
    AUDIENCES_MOST,
    DEPTH_LEAST,
    DEPTH_MOST,
    DISPLAY_LENGTH,
    KEYS_MOST,
    RESERVED_IDS,
    SCOPE_TOKEN_LENGTH,
    SCOPES_MOST,
    URI_LENGTH,
)

Schema = dict[str, Any]

DURATION = "^P(?!$)([0-9]{1,9}W|([0-9]{1,9}D)?(T(?=[0-9])([0-9]{1,9}H)?([0-9]{1,9}M)?([0-9]{1,9}(\\.0{1,9})?S)?)?)$"


def _list(items: Schema, least: int, most: int, what: str) -> Schema:
    return {
        "type": "array", "items": items, "minItems": least, "maxItems": most, "uniqueItems": True, "description": what,
    }  # fmt: skip


def _or_null(schema: Schema) -> Schema:
    return {**schema, "type": [schema["type"], "null"]}


_URI: Schema = {
    "type": "string",
    "maxLength": URI_LENGTH,
    "pattern": "^[A-Za-z][A-Za-z0-9+.-]*:([A-Za-z0-9._~:/?\\[\\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+$",
}
_JWK: Schema = {
    "type": "object",
    "required": ["kty"],
    "properties": {
        "kty": {"enum": ["EC", "OKP", "RSA"]},
        "crv": {"enum": ["P-256", "Ed25519"]},
        "alg": {"enum": ["ES256", "PS256", "RS256", "EdDSA"]},
        "kid": {"type": "string"},
        "use": {"const": "sig"},
        "key_ops": {"const": ["verify"]},
        **{name: {"type": "string"} for name in ("x", "y", "n", "e")},
    },
    "additionalProperties": False,
    "description": "A public key: P-256, Ed25519, or RSA of 2048 to 8192 bits. No private member, no symmetric key.",
}
MEMBERS: dict[str, Schema] = {
    "agent_id": {
        "type": "string",
        "pattern": f"^{AGENT_ID}$",
        "not": {"enum": list(RESERVED_IDS)},
        "description": "What the agent calls itself: `iss` and `sub` of its assertions.",
    },
    "display_name": {
        "type": "string", "minLength": 1, "maxLength": DISPLAY_LENGTH,
        "description": "Its name for people; printable characters, no blank at either end.",
    },
    "allowed_scopes": _list(
        {"type": "string", "maxLength": SCOPE_TOKEN_LENGTH, "pattern": "^[\\x21\\x23-\\x5b\\x5d-\\x7e]+$"},
        1, SCOPES_MOST, "The scope tokens (RFC 6749, 3.3) that it may be granted.",
    ),
    "allowed_audiences": _list(
        _URI, 1, AUDIENCES_MOST,
        "The resources (RFC 8707) that it may ask tokens for: absolute URIs without fragment, compared exactly.",
    ),
    "max_task_ttl": {
        "type": "string", "pattern": DURATION,
        "description": "How long a task of it lives at most. Null: Onbe:Tokens:DefaultTaskTtl.",
    },
    "max_token_ttl": {
        "type": "string", "pattern": DURATION,
        "description": "How long a token of it lives at most, and never longer than its task. Null: the default.",
    },
    "max_delegation_depth": {
        "type": "integer", "minimum": DEPTH_LEAST, "maximum": DEPTH_MOST, "default": 1,
        "description": "How many agents may stand in a chain with it; 1: it acts for people alone.",
    },
    "high_risk_audiences": _list(
        _URI, 0, AUDIENCES_MOST,
        "Those of allowed_audiences whose tokens say `introspect_required`.",
    ),
    "jwks_uri": {
        **_URI, "description": "Where the agent publishes its keys: https, no fragment. Exactly one of this and jwks.",
    },
    "jwks": {
        "type": "object",
        "required": ["keys"],
        "properties": {"keys": {"type": "array", "items": _JWK, "minItems": 1, "maxItems": KEYS_MOST}},
        "additionalProperties": False,
        "description": "The agent's public keys (RFC 7517, 5); of several, each has a kid of its own.",
    },
    "enabled": {
        "type": "boolean", "default": True,
        "description": "Whether it may exchange and refresh. False takes effect at its next request.",
    },
}  # fmt: skip
OPTIONAL = ("max_task_ttl", "max_token_ttl", "jwks_uri", "jwks")
"""Members that may be unset."""
RESETTABLE = ("max_delegation_depth", "high_risk_audiences")
"""Members that null sets back to their default."""
_IN = {name: _or_null(one) if name in (*OPTIONAL, *RESETTABLE) else one for name, one in MEMBERS.items()}
_OUT = {name: _or_null(one) if name in OPTIONAL else one for name, one in MEMBERS.items()}
_INSTANT: Schema = {"type": "string", "format": "date-time"}

EXAMPLE: Schema = {
    "agent_id": "mailer",
    "display_name": "The mailer",
    "allowed_scopes": ["mail.read", "mail.send"],
    "allowed_audiences": ["https://mail.example.com/"],
    "max_task_ttl": "PT30M",
    "max_token_ttl": "PT5M",
    "jwks": {
        "keys": [
            {
                "kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig",
                "kid": "mailer-1",
                "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
                "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
            }
        ]
    },
}  # fmt: skip
"""A registration that is taken; its key is that of RFC 7515, A.3."""

SCHEMAS: dict[str, Schema] = {
    "AgentNew": {
        "type": "object",
        "properties": _IN,
        "required": ["agent_id", "display_name", "allowed_scopes", "allowed_audiences"],
        "additionalProperties": False,
        "examples": [EXAMPLE],
    },
    "AgentPatch": {
        "type": "object",
        "properties": {name: one for name, one in _IN.items() if name != "agent_id"} | {"agent_id": _IN["agent_id"]},
        "additionalProperties": False,
        "description": "A JSON merge patch (RFC 7396): a member that is not named is left as it is.",
        "examples": [{"max_task_ttl": "PT10M", "max_token_ttl": None}],
    },
    "Agent": {
        "type": "object",
        "properties": {**_OUT, "created_at": _INSTANT, "updated_at": _INSTANT},
        "required": [*MEMBERS, "created_at", "updated_at"],
        "additionalProperties": False,
    },
    "Agents": {
        "type": "object",
        "properties": {
            "agents": {"type": "array", "items": {"$ref": "#/components/schemas/Agent"}},
            "next": {
                "type": ["string", "null"],
                "description": "Give it as `after` for those that follow; null where there are none.",
            },
        },
        "required": ["agents", "next"],
        "additionalProperties": False,
    },
    "Problem": {
        "type": "object",
        "properties": {
            "type": {"type": "string", "pattern": "^urn:onbe:refusal:"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
            "errors": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"pointer": {"type": "string"}, "detail": {"type": "string"}},
                    "required": ["pointer", "detail"],
                    "additionalProperties": False,
                },
            },
        },
        "required": ["type", "title", "status", "detail"],
        "additionalProperties": False,
        "description": "RFC 9457. `errors` names every member that is wrong, by JSON pointer; no value is repeated.",
    },
}
"""By name, as the OpenAPI document has them below `components`. A router of another subject adds its own."""
