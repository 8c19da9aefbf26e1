"""What a tool is: a name, a schema, and one function from arguments to an answer or a refusal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from keel import refusal
from keel.refusal import Refusal
from rift.audit import Act
from rift.deadline import Deadline
from rift.deps import Deps
from rift.names import BUDGET_SECONDS
from rift.people.model import Caller

Schema = Mapping[str, Any]
"""A JSON schema (2020-12), of the keywords that `arguments.py` knows."""

OPENS_A_TASK = refusal.Call("rift_task_new", {"name": "<what the task is about>"})


@dataclass(frozen=True, slots=True)
class Image:
    """A picture in an answer: its media type (`image/png`) and its bytes."""

    media: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool says. `text` stands alone and so does `structured` (clients show the model one of them)."""

    text: str
    structured: Mapping[str, Any] | None = None
    images: tuple[Image, ...] = ()


async def _silent(message: str) -> None:
    """Progress nobody asked for."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call, as its tool sees it."""

    deps: Deps
    act: Act
    """What the audit records: who, which tool, the scrubbed arguments, when it began."""
    request: str
    """The request's id, which log lines about this call carry."""
    deadline: Deadline
    """When the answer must be ready."""
    progress: Callable[[str], Awaitable[None]] = _silent
    """Tell a waiting client, in a few words, what is going on."""
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the client has hung up: a wait may end early, what has begun may not."""

    @property
    def caller(self) -> Caller:
        """Whose token the call carries."""
        return self.act.caller


Run = Callable[[Call, Mapping[str, Any]], Awaitable[Answer | Refusal]]


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool of the contract.

    `input_schema` is an object schema with `additionalProperties: false`; `output_schema` describes
    `Answer.structured`; `example` is a valid call, shown where one must be suggested. The hints are those of the
    protocol; what is not `read_only` goes on to its end when its client hangs up. `when_missing` says which call gets
    a required argument that a caller may not have yet.
    """

    name: str
    title: str
    description: str
    input_schema: Schema
    run: Run
    example: Mapping[str, Any]
    output_schema: Schema | None = None
    read_only: bool = False
    goes_on: bool = False
    """Whether the call goes on when its client hangs up though it is read-only, because what it began must end well."""
    large: bool = False
    """Whether an answer may be larger than a client takes as one event of a stream (1 MiB): it comes as one body."""
    destructive: bool = False
    idempotent: bool = False
    meta: Mapping[str, Any] | None = None
    budget: float = BUDGET_SECONDS
    """Seconds from the receipt of a call to its deadline."""
    when_missing: Mapping[str, refusal.Call] = field(default_factory=lambda: {"task": OPENS_A_TASK})
