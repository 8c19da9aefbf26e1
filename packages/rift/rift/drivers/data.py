"""Bytes as drivers' methods take and give them, also over the line to the keeper, which carries JSON."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer


def _bytes(value: object) -> object:
    return b64decode(value, validate=True) if isinstance(value, str) else value


def _base64(value: bytes) -> str:
    return b64encode(value).decode()


Data = Annotated[bytes, BeforeValidator(_bytes), PlainSerializer(_base64, return_type=str, when_used="json")]
"""Bytes that travel in JSON as base64."""
