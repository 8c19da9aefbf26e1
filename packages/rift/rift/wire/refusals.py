"""The one place where a refusal becomes an answer: an MCP error result, or an HTTP problem document."""

from __future__ import annotations

import json
import math
from typing import Any

from mcp_types import CallToolResult, TextContent

from keel.refusal import Ask, Call, Mend, Refusal, Retry, Stop, kind
from rift.secrecy import without_secrets

META_KEY = "rift/refusal"
"""Where an MCP result carries the code and the mends for programs."""

bad_arguments = kind("bad_arguments", "{tool} did not run: {problems}. {has}")
internal_error = kind("internal_error", "Rift failed at this call. Its log tells why under the request id {request}.")
unknown_tool = kind("unknown_tool", "Unknown tool: {hint}")
overloaded = kind(
    "overloaded", "Rift has more to do than it can at this moment: {tool} was not begun, and nothing was done."
)
no_answer = kind("no_answer", "{tool} was not done within {seconds} s; what it began goes on (request id {request}).")

NOT_FOUND = frozenset({"task_unknown", "vm_unknown", "no_such_repository", "no_such_org"})


def refusal_text(refusal: Refusal) -> str:
    """The sentence, what to tell the user, then each mend on a line of its own."""
    lines = [refusal.sentence]
    if refusal.note:
        lines.append(f"Tell the user: {refusal.note}")
    lines.extend(mend_text(mend) for mend in refusal.mends)
    return without_secrets("\n".join(lines))


def mend_text(mend: Mend) -> str:
    """A mend as a line for a model to act on."""
    match mend:
        case Call():
            return mend.text
        case Ask(role, page):
            return f"Ask {role}: {page}"
        case Retry(after):
            seconds = math.ceil(after)
            return f"Make the same call again in {seconds} second{'' if seconds == 1 else 's'}."
        case Stop():
            return "Do not try this again."


def mend_value(mend: Mend) -> dict[str, Any]:
    """A mend as a JSON object whose `kind` says which of the four it is."""
    match mend:
        case Call(tool, arguments):
            return {"kind": "call", "tool": tool, "arguments": dict(arguments)}
        case Ask(role, page):
            return {"kind": "ask", "role": role, "page": page}
        case Retry(after):
            return {"kind": "retry", "after_seconds": math.ceil(after)}
        case Stop():
            return {"kind": "stop"}


def refusal_result(refusal: Refusal) -> CallToolResult:
    """A refusal as a tool result.

    It carries no structured content: clients check that against the tool's output schema even on an error. The code
    and the mends travel in `_meta`.
    """
    told = json.dumps({"code": refusal.code, "mends": [mend_value(mend) for mend in refusal.mends]})
    return CallToolResult(
        content=[TextContent(type="text", text=refusal_text(refusal))],
        is_error=True,
        _meta={META_KEY: json.loads(without_secrets(told))},
    )


def refusal_problem(refusal: Refusal) -> tuple[int, dict[str, Any]]:
    """A refusal as an HTTP status and a problem document (RFC 9457) for the JSON APIs."""
    status = 404 if refusal.code in NOT_FOUND else 422 if refusal.code == "bad_arguments" else 409
    if refusal.code == "internal_error":
        status = 500
    document: dict[str, Any] = {
        "type": f"urn:rift:refusal:{refusal.code}",
        "title": refusal.code.replace("_", " "),
        "status": status,
        "detail": refusal.sentence,
        "mends": [mend_value(mend) for mend in refusal.mends],
    }
    if refusal.note:
        document["note"] = refusal.note
    return status, document
