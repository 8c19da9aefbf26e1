"""Arguments as clients really send them, read by a tool's schema: lenient in what is meant, strict in what is not.

Taken: `null` or nothing for no arguments; `null` for an optional one that is absent; the whole set, a list, an object,
a number or a boolean as a string of JSON; `30.0` for 30; a client's own extra that is on a short list. Refused before
anything runs: what is unknown, missing, of another type or out of range; one refusal names all of it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from keel import refusal
from keel.refusal import YOUR_HANDLE, Refusal
from rift.secrecy import without_secrets
from rift.wire.mcp.tool import Schema, Tool
from rift.wire.refusals import bad_arguments

CLIENT_EXTRAS = frozenset({"task_progress"})
"""Arguments that some clients add to every call for themselves."""

PRIVATE = frozenset({"task", "content"})
"""Arguments whose value is never repeated, whatever is wrong with it."""

INTEGER = re.compile(r"\s*([+-]?\d{1,18})(?:\.0+)?\s*", re.ASCII)
SHOWN_CHARACTERS = 40
ECHOED_CHARACTERS = 200
SHOWN_NAMES = 5
PLURALS = {"object": "objects", "string": "strings", "integer": "integers"}

KEYWORDS = frozenset(
    {
        "type", "title", "description", "properties", "required", "additionalProperties", "items", "minItems",
        "maxItems", "minimum", "maximum", "minLength", "maxLength", "enum", "default",
    }
)  # fmt: skip
"""The keywords of JSON schema that this module knows; a tool's input schema uses no other."""


def read_arguments(tool: Tool, given: object) -> dict[str, Any] | Refusal:
    """The arguments that `given` means for the tool, in its schema's types, or the refusal that names every problem.

    `given` is whatever the client sent as `arguments`: an object, null, or a string of JSON.
    """
    reader = _Reader()
    if isinstance(given, str):
        given = _from_json(given)
    if given is None:
        given = {}
    if not isinstance(given, Mapping):
        return _refusal(tool, {}, ["the arguments must be one JSON object"])
    properties: Mapping[str, Schema] = tool.input_schema.get("properties", {})
    known = {name: value for name, value in given.items() if name in properties or name not in CLIENT_EXTRAS}
    arguments = reader.members(tool.input_schema, known, "")
    return _refusal(tool, arguments, reader.problems) if reader.problems else arguments


class _Reader:
    """Walks a value along its schema; keeps what is right and says in words what is not."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def members(self, schema: Schema, given: Mapping[Any, object], where: str) -> dict[str, Any]:
        """The members of an object that are right. `where` is "" or the path to it, ending in a dot."""
        properties: Mapping[str, Schema] = schema.get("properties", {})
        required: Sequence[str] = schema.get("required", ())
        missing = [name for name in required if given.get(name) is None]
        unknown = [name for name in given if name not in properties]
        if missing:
            self.problems.append(f"{_names(missing, where)} {'is' if len(missing) == 1 else 'are'} missing")
        if unknown:
            what = "is not one" if len(unknown) == 1 else "are not"
            self.problems.append(f"{_names(unknown, where)} {what} of its arguments")
        right: dict[str, Any] = {}
        for name, inner in properties.items():
            value = given.get(name)
            if value is None:
                continue
            before = len(self.problems)
            read = self.value(inner, value, f"{where}{name}", name in PRIVATE)
            if len(self.problems) == before:
                right[name] = read
            elif (nearest := _nearest(inner, value)) is not None:
                right[name] = nearest
        return right

    def value(self, schema: Schema, value: object, where: str, private: bool) -> Any:
        """The value in its schema's type; adds a problem where it has none."""
        kind = schema["type"]
        read = _lenient(kind, value)
        if not _fits(schema, read):
            self.problems.append(f"`{where}` must be {_expected(schema)}; {_came(value, private)} came")
        elif kind == "string" and any("\ud800" <= character <= "\udfff" for character in read):
            self.problems.append(f"`{where}` holds half a character (a lone surrogate)")
        elif kind == "array" and "items" in schema:
            return [self.value(schema["items"], item, f"{where}[{n}]", private) for n, item in enumerate(read)]
        elif kind == "object":
            return self.members(schema, read, f"{where}.")
        return read


def _lenient(kind: str, value: object) -> Any:
    """The value in the JSON type `kind` where that is what it means, else as it came."""
    if kind == "string":
        return value
    if isinstance(value, str):
        if kind == "integer":
            whole = INTEGER.fullmatch(value)
            return int(whole[1]) if whole else value
        parsed = _from_json(value.lower() if kind == "boolean" else value)
        return parsed if _is(kind, parsed) else value
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _is(kind: str, value: object) -> bool:
    match kind:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        case "array":
            return isinstance(value, list)
        case _:
            return isinstance(value, Mapping)


def _fits(schema: Schema, value: Any) -> bool:
    """Whether the value itself, without what is inside it, is as the schema says."""
    kind = schema["type"]
    if not _is(kind, value) or ("enum" in schema and value not in schema["enum"]):
        return False
    if kind in ("integer", "number"):
        return bool(schema.get("minimum", value) <= value <= schema.get("maximum", value))
    if kind in ("string", "array"):
        low, high = ("minLength", "maxLength") if kind == "string" else ("minItems", "maxItems")
        return bool(schema.get(low, 0) <= len(value) <= schema.get(high, len(value)))
    return True


def _nearest(schema: Schema, value: object) -> Any:
    """The nearest value that is in range, for a number out of it; else None."""
    read = _lenient(schema["type"], value)
    if schema["type"] not in ("integer", "number") or not _is(schema["type"], read) or "enum" in schema:
        return None
    raised = max(read, schema.get("minimum", read))
    return min(raised, schema.get("maximum", raised))


def _from_json(text: str) -> object:
    """What a string of JSON holds; the string itself where it holds none."""
    try:
        parsed: object = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return text
    return parsed


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _expected(schema: Schema) -> str:
    """What a value must be, in words: "an integer from 1 to 259200"."""
    if "enum" in schema:
        return "one of " + ", ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
    kind = schema["type"]
    if kind == "boolean":
        return "true or false"
    if kind in ("integer", "number"):
        noun = "an integer" if kind == "integer" else "a number"
        return noun + _bounds(schema, "minimum", "maximum", "from {} to {}")
    if kind == "array":
        items = PLURALS.get(schema.get("items", {}).get("type", ""), "values")
        between = _bounds(schema, "minItems", "maxItems", "of {} to {}")
        return f"a list{between} {items}" if between else f"a list of {items}"
    if kind == "object":
        return "an object with " + _listed([f"`{name}`" for name in schema.get("properties", {})])
    low, high = schema.get("minLength"), schema.get("maxLength")
    if low == 1:
        return "a string that is not empty" + (f", of at most {high} characters" if high is not None else "")
    between = _bounds(schema, "minLength", "maxLength", "of {} to {}")
    return f"a string{between} characters" if between else "a string"


def _bounds(schema: Schema, lowest: str, highest: str, both: str) -> str:
    low, high = schema.get(lowest), schema.get(highest)
    if low is not None and high is not None:
        return " " + both.format(low, high)
    if low is not None:
        return f" of at least {low}"
    return f" of at most {high}" if high is not None else ""


def _came(value: object, private: bool) -> str:
    """What came, in a few words, without its text where that is private, long or holds a handle."""
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            if private or (isinstance(value, int) and abs(value) >= 10**20):
                return "a number"
            return f"{value:.6g}" if isinstance(value, float) else str(value)
        case str():
            if not value:
                return "an empty string"
            plain = (
                not private
                and len(value) <= SHOWN_CHARACTERS
                and value.isprintable()
                and without_secrets(value) == value
            )
            return json.dumps(value, ensure_ascii=False) if plain else f"a string of {len(value)} characters"
        case list():
            return f"a list of {len(value)}"
        case Mapping():
            return "an object"
        case _:
            return "null"


def _names(names: Sequence[object], where: str) -> str:
    """Argument names in backticks. A name that came from outside is cut short and never shows a handle."""
    shown = []
    for name in names[:SHOWN_NAMES]:
        text = str(name)
        odd = len(text) > SHOWN_CHARACTERS or not text.isprintable() or without_secrets(text) != text
        shown.append(f"an argument with a name of {len(text)} characters" if odd else f"`{where}{text}`")
    if len(names) > SHOWN_NAMES:
        shown.append(f"{len(names) - SHOWN_NAMES} more")
    return _listed(shown)


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]])) if words else "nothing"


def _refusal(tool: Tool, right: Mapping[str, Any], problems: Sequence[str]) -> Refusal:
    properties: Mapping[str, Schema] = tool.input_schema.get("properties", {})
    required: Sequence[str] = tool.input_schema.get("required", ())
    has = ", ".join(name if name in required else f"{name} (optional)" for name in properties)
    mends = [tool.when_missing[name] for name in required if name not in right and name in tool.when_missing]
    return bad_arguments(
        *mends,
        refusal.Call(tool.name, template(tool, right)),
        tool=tool.name,
        problems="; ".join(problems[:10]) + (f"; and {len(problems) - 10} more" if len(problems) > 10 else ""),
        has=f"It takes {has}." if has else "It takes no arguments.",
    )


def template(tool: Tool, right: Mapping[str, Any]) -> dict[str, Any]:
    """A valid call of the tool with what was right in the one that came, and the example's values for the rest."""
    filled: dict[str, Any] = {}
    for name in tool.input_schema.get("properties", {}):
        if name == "task" and isinstance(tool.example.get(name), str):
            filled[name] = tool.example[name]
        elif name in right and name not in PRIVATE and _may_echo(right[name]):
            filled[name] = right[name]
        elif name in tool.input_schema.get("required", ()):
            filled[name] = tool.example.get(name, YOUR_HANDLE)
    return filled


def _may_echo(value: object) -> bool:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return len(text) <= ECHOED_CHARACTERS and without_secrets(text) == text
