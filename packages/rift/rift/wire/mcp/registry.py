"""The tools the server offers, in the contract's order, checked once when it starts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mcp_types import Tool as WireTool
from mcp_types import ToolAnnotations

from keel.refusal import Refusal
from rift.wire.mcp.arguments import KEYWORDS, read_arguments
from rift.wire.mcp.tool import Schema, Tool

CONTRACT = (
    "rift_task_new", "rift_task_ls", "rift_task_attach", "rift_task_release", "rift_task_close",
    "rift_vm_new", "rift_vm_ls", "rift_vm_destroy", "rift_vm_suspend",
    "rift_bash", "rift_read", "rift_write", "rift_output", "rift_stop",
    "rift_whoami", "rift_org_new", "rift_org_invite", "rift_org_accept", "rift_account_invite", "rift_waitlist",
    "rift_github_connect", "rift_github_enable", "rift_github_login", "rift_repos", "rift_watch", "rift_unwatch",
    "rift_feedback", "rift_docs", "rift_audit",
)  # fmt: skip
"""Every tool of the contract (MCP tools), in its order. A server may offer fewer, never others."""

DESCRIPTION_BYTES = 2048
"""A common client cuts a description here."""
DESCRIPTION_SENTENCES = 4
LIST_TOKENS = 6000
CHARACTERS_PER_TOKEN = 4
"""Roughly, for English and JSON."""

SENTENCE_END = re.compile(r"[.!?](?:\s|$)")


class RegistryError(Exception):
    """The tools are not as the contract wants them; says every way in which."""


class Registry:
    """The tools by name. Raises `RegistryError` when one of them breaks a rule of the house."""

    def __init__(self, tools: Iterable[Tool], contract: tuple[str, ...] = CONTRACT) -> None:
        given = tuple(tools)
        self._tools = {tool.name: tool for tool in given}
        self.wire = tuple(wire_tool(tool) for tool in given)
        problems = [*_order(given, contract), *(problem for tool in given for problem in _faults(tool))]
        if (tokens := list_tokens(self.wire)) > LIST_TOKENS:
            problems.append(f"the tool list takes about {tokens} tokens, more than {LIST_TOKENS}")
        if problems:
            raise RegistryError("; ".join(problems))

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def get(self, name: str) -> Tool | None:
        """The tool of that name, or None."""
        return self._tools.get(name)

    def input_schema(self, name: str) -> Mapping[str, Any] | None:
        """A tool's input schema by name, or None."""
        tool = self._tools.get(name)
        return tool.input_schema if tool else None


def wire_tool(tool: Tool) -> WireTool:
    """The tool as `tools/list` tells it. A hint that says what holds without it is left out."""
    return WireTool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=dict(tool.input_schema),
        output_schema=dict(tool.output_schema) if tool.output_schema is not None else None,
        annotations=ToolAnnotations(
            read_only_hint=tool.read_only or None,
            destructive_hint=None if tool.read_only else tool.destructive,
            idempotent_hint=(tool.idempotent and not tool.read_only) or None,
            open_world_hint=False,
        ),
        _meta=dict(tool.meta) if tool.meta else None,
    )


def list_tokens(wire: Iterable[WireTool]) -> int:
    """About how many tokens the tool list costs the model that reads it."""
    dumped = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in wire]
    return len(json.dumps(dumped, ensure_ascii=False, separators=(",", ":"))) // CHARACTERS_PER_TOKEN


def _order(tools: tuple[Tool, ...], contract: tuple[str, ...]) -> Iterator[str]:
    names = [tool.name for tool in tools]
    yield from (f"{name} is there twice" for name in sorted({name for name in names if names.count(name) > 1}))
    yield from (f"{name} is not in the contract" for name in names if name not in contract)
    places = [contract.index(name) for name in names if name in contract]
    if places != sorted(places):
        yield "the tools are not in the contract's order"


def _faults(tool: Tool) -> Iterator[str]:
    sentences = len(SENTENCE_END.findall(tool.description))
    if not 1 <= sentences <= DESCRIPTION_SENTENCES or not tool.description.rstrip().endswith((".", "!", "?")):
        yield f"{tool.name}: its description has {sentences} sentences, not 1 to {DESCRIPTION_SENTENCES}"
    if len(tool.description.encode()) >= DESCRIPTION_BYTES:
        yield f"{tool.name}: its description takes {DESCRIPTION_BYTES} bytes or more"
    if not tool.title:
        yield f"{tool.name}: it has no title"
    yield from (f"{tool.name}: {fault}" for fault in schema_faults(tool.input_schema, "its input"))
    if tool.output_schema is not None and tool.output_schema.get("type") != "object":
        yield f"{tool.name}: its output schema is not an object's"
    if isinstance(refusal := read_arguments(tool, tool.example), Refusal):
        yield f"{tool.name}: its example is not valid: {refusal.sentence}"


def schema_faults(schema: Schema, where: str) -> Iterator[str]:
    """What is wrong with an input schema: unknown keywords, open objects, required members that are not there."""
    kind = schema.get("type")
    if kind not in ("string", "integer", "number", "boolean", "array", "object"):
        yield f"{where} has the type {kind!r}"
    if unknown := sorted(schema.keys() - KEYWORDS):
        yield f"{where} uses the keywords {', '.join(unknown)}, which are not checked"
    if kind == "object":
        properties: Mapping[str, Schema] = schema.get("properties", {})
        if schema.get("additionalProperties") is not False:
            yield f"{where} does not forbid further properties"
        if absent := sorted(set(schema.get("required", ())) - properties.keys()):
            yield f"{where} requires {', '.join(absent)}, which it does not have"
        for name, inner in properties.items():
            yield from schema_faults(inner, f"{where}.{name}")
    if kind == "array":
        yield from schema_faults(schema.get("items", {}), f"{where}[]")
