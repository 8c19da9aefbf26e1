"""Asking for keys in tests, and what is answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from onbe.drivers.keys.http import HttpKeys
from onbe.drivers.keys.protocol import KeysUnavailable
from onbe.settings import DevelopmentSettings, OnbeSettings

DEVELOPMENT = OnbeSettings(development=DevelopmentSettings(enabled=True))
PATH = "/jwks"


def kids(found: Sequence[Any]) -> list[str]:
    return [key["kid"] for key in found]


async def refused(keys: HttpKeys, url: str) -> str:
    with pytest.raises(KeysUnavailable) as caught:
        await keys.at(url, "P-256")
    return str(caught.value)
