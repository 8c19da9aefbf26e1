"""What of a call's arguments the audit may keep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rift.audit import Act
from rift.people.model import Caller
from rift.secrecy import without_secrets

LEFT_OUT = frozenset({"task", "content", "text", "context"})
"""A handle (its task stands in a column of its own), what goes into a file, and what an item of feedback says: its
person may drop it, and a record stays."""
TEXT = "command"
"""The argument that goes to the side table which can be erased."""
KEPT_CHARACTERS = 500


def act(caller: Caller, tool: str, arguments: Mapping[str, Any], started: float) -> Act:
    """The call as the audit records it: no handle or token, no file content, long texts cut short."""
    kept = {name: short(value) for name, value in arguments.items() if name not in LEFT_OUT and name != TEXT}
    text = arguments.get(TEXT)
    return Act(caller, tool, kept, started, without_secrets(text) if isinstance(text, str) else None)


def short(value: Any) -> Any:
    """An argument as a record may keep it: no secret in it, and no long text."""
    if isinstance(value, str):
        plain = without_secrets(value)
        return plain if len(plain) <= KEPT_CHARACTERS else plain[:KEPT_CHARACTERS] + "…"
    if isinstance(value, list):
        return [short(item) for item in value]
    if isinstance(value, Mapping):
        return {name: short(item) for name, item in value.items() if name not in LEFT_OUT}
    return value
