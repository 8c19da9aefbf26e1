"""Small words for writing the tools' schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rift.wire.mcp.tool import Schema


def string(description: str = "", **more: Any) -> dict[str, Any]:
    """A text argument. `more` are further keywords, as `minLength=1`."""
    return _described({"type": "string", **more}, description)


def integer(description: str = "", *, low: int | None = None, high: int | None = None) -> dict[str, Any]:
    """A whole number, `low` to `high` where given."""
    return _described({"type": "integer", **_bounds(minimum=low, maximum=high)}, description)


def boolean(description: str = "") -> dict[str, Any]:
    """True or false."""
    return _described({"type": "boolean"}, description)


def array(items: Schema, description: str = "", *, low: int | None = None, high: int | None = None) -> dict[str, Any]:
    """A list of `low` to `high` items."""
    return _described({"type": "array", "items": dict(items), **_bounds(minItems=low, maxItems=high)}, description)


def arguments(
    required: Mapping[str, Schema] | None = None, optional: Mapping[str, Schema] | None = None
) -> dict[str, Any]:
    """An object with these members and no others, the required ones first."""
    properties = {**(required or {}), **(optional or {})}
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = list(required)
    return schema


def nullable(kind: str, description: str = "") -> dict[str, Any]:
    """A value of an answer that may be null. Spelled without a list of types, which some clients cannot read."""
    return _described({"anyOf": [{"type": kind}, {"type": "null"}]}, description)


def answer(**members: Schema) -> dict[str, Any]:
    """An answer's structure: an object that has all of these members."""
    return {"type": "object", "properties": dict(members), "required": list(members)}


def _bounds(**bounds: int | None) -> dict[str, int]:
    return {name: bound for name, bound in bounds.items() if bound is not None}


def _described(schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {**schema, "description": description} if description else schema
