"""Arguments and answer parts that several tools share."""

from __future__ import annotations

from typing import Any

from rift.names import BLOCK_MOST, TIMEOUT_MOST
from rift.wire.mcp import schemas

TASK = schemas.string("The handle, task_<id>.<secret>.", minLength=1)
VM = schemas.string("The VM's id, or its name where only one VM of the task has it.", minLength=1)
REPO = schemas.string("OWNER/NAME.", minLength=1, maxLength=201)
ORG = schemas.string("personal, or a team's name.", minLength=1, maxLength=100)
TEAM = schemas.string("The team's name.", minLength=1, maxLength=100)
EMAIL = schemas.string("Their email address.", minLength=3, maxLength=254)
REF = schemas.string("A branch, as main.", minLength=1, maxLength=255)
BLOCK_FOR = schemas.integer("Seconds this call waits for it to end.", low=0, high=BLOCK_MOST)
TIMEOUT = schemas.integer("Seconds it may run: up to 72 hours.", low=1, high=TIMEOUT_MOST)

BOX: dict[str, Any] = {
    "id": schemas.string(),
    "name": schemas.string(),
    "status": schemas.string(),
    "repository": schemas.string(),
    "ref": schemas.string(),
    "commit": schemas.string(),
}
"""A VM's members in an answer."""

COMMAND: dict[str, Any] = {
    "status": schemas.string(enum=["finished", "did not run", "has not finished"]),
    "reason": schemas.nullable("string"),
    "command": schemas.string(),
    "exit": schemas.nullable("integer"),
    "output": schemas.string(),
    "next_offset": schemas.integer(),
    "size": schemas.integer(),
}
"""A command's members in an answer (contract: Boxes, structuredContent)."""

NEXT = schemas.nullable("string")
"""The exact next call."""

COMMAND_ANSWER = schemas.answer(**COMMAND, next=NEXT)
"""What rift_bash, rift_read, rift_write and rift_stop answer."""

WHOLE = {"anthropic/maxResultSizeChars": 150_000}
"""Says that 64 KiB of output is meant to be read: without it a common client moves a long answer to a file."""

EXAMPLE_VM = "app-main-1"
EXAMPLE_ORG = "<the team's name>"
EXAMPLE_EMAIL = "<their address>"
EXAMPLE_REPO = "acme/app"
EXAMPLE_REF = "main"
