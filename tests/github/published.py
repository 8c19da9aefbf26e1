"""GitHub's own words about its API and webhooks, from npm: what the stand-in's answers and deliveries are held to."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker  # type: ignore[import-untyped]
from referencing import Registry
from referencing.jsonschema import DRAFT202012
from tests.wire.testers import installed

OPENAPI, OPENAPI_VERSION = "@octokit/openapi", "23.0.2"
EXAMPLES, EXAMPLES_VERSION = "@octokit/webhooks-examples", "7.6.1"
DOCUMENT = "api.github.com.json"
BASIC_ERROR = "#/components/schemas/basic-error"


def _is_time(value: object) -> bool:
    return not isinstance(value, str) or datetime.fromisoformat(value).tzinfo is not None


checker = FormatChecker(formats=())
checker.checks("date-time", raises=ValueError)(_is_time)


class Document:
    """GitHub's OpenAPI document. `faults` are what was not as it says, `seen` the operations and statuses looked at."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.told = told
        self.faults: list[str] = []
        self.seen: set[tuple[str, str, int]] = set()
        # In this list an account is a user and an enterprise at once (allOf); everywhere else it is one of them.
        listed = told["paths"]["/app/installations"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        listed["items"] = {"$ref": "#/components/schemas/installation"}
        extended = set(_extended(told))
        for name, schema in told["components"]["schemas"].items():
            _strict(schema, closed=f"#/components/schemas/{name}" not in extended)
        for part in ("paths", "x-webhooks"):
            _strict(told[part], closed=True)
        for response in told["components"]["responses"].values():
            _strict(response, closed=True)
        self._registry: Registry[Any] = Registry().with_resource("doc", DRAFT202012.create_resource(told))

    def look(self, method: str, template: str, status: int, body: Any) -> None:
        """Look at an answer of the API; what is wrong with it is kept in `faults`."""
        self.seen.add((method, template, status))
        where = f"{method} {template} {status}"
        operation = self.told["paths"].get(template, {}).get(method.lower())
        if operation is None:
            self.faults.append(f"{where}: the document has no such call")
            return
        response = self._resolved(operation["responses"].get(str(status)))
        if response is None:
            if status < 400:
                self.faults.append(f"{where}: the document has no such answer")
                return
            schema: Mapping[str, Any] = {"$ref": f"doc{BASIC_ERROR}"}
        else:
            content = response.get("content", {})
            schema = content.get("application/json", {}).get("schema") or next(
                (one["schema"] for one in content.values() if "schema" in one), {}
            )
            if not content and body is not None:
                self.faults.append(f"{where}: the document has no body here")
        if body is not None:
            self.faults += [f"{where}: {fault}" for fault in self.wrong(schema, body)]

    def look_at_webhook(self, event: str, action: str, body: Any) -> None:
        """Look at what a webhook delivers."""
        name = "-".join(filter(None, (event.replace("_", "-"), action.replace("_", "-"))))
        told = self.told["x-webhooks"].get(name)
        if told is None:
            self.faults.append(f"the document has no webhook {name}")
            return
        schema = told["post"]["requestBody"]["content"]["application/json"]["schema"]
        self.faults += [f"{name}: {fault}" for fault in self.wrong(schema, body)]

    def wrong(self, schema: Mapping[str, Any], body: Any) -> Iterator[str]:
        """What is not as a schema says."""
        whole = json.loads(json.dumps(schema).replace('"#/', '"doc#/'))
        validator = Draft202012Validator(whole, registry=self._registry, format_checker=checker)
        for error in validator.iter_errors(body):
            yield f"{error.json_path} {error.message[:300]} {_deepest(error)}"

    def _resolved(self, part: Any) -> Any:
        if isinstance(part, dict) and "$ref" in part:
            found: Any = self.told
            for step in part["$ref"].removeprefix("#/").split("/"):
                found = found[step.replace("~1", "/").replace("~0", "~")]
            return found
        return part


def _deepest(error: Any) -> str:
    """Of alternatives that all fail, what is wrong with the one that is nearest."""
    found = sorted((one for one in error.context or ()), key=lambda one: -len(one.absolute_path))
    return "; ".join(f"{one.json_path} {one.message[:200]}" for one in found[:3])


def _extended(node: Any) -> Iterator[str]:
    """The schemas that others extend: they cannot be closed."""
    if isinstance(node, dict):
        parts = node.get("allOf", ())
        if len(parts) > 1:
            yield from (part["$ref"] for part in parts if "$ref" in part)
        for each in node.values():
            yield from _extended(each)
    elif isinstance(node, list):
        for each in node:
            yield from _extended(each)


def _strict(node: Any, closed: bool) -> None:
    """Say OpenAPI 3.0's `nullable` as JSON Schema does, and allow no member that the document does not name."""
    if isinstance(node, list):
        for each in node:
            _strict(each, closed)
        return
    if not isinstance(node, dict):
        return
    properties = node.get("properties")
    names_members = isinstance(properties, dict) and all(isinstance(one, dict) for one in properties.values())
    if closed and names_members and properties and "additionalProperties" not in node and "allOf" not in node:
        node["additionalProperties"] = False
    for name, each in list(node.items()):
        if name not in ("example", "examples", "default", "enum"):
            _strict(each, closed and name != "allOf")
    if node.pop("nullable", False) is True:
        kept = dict(node)
        node.clear()
        node["anyOf"] = [kept, {"type": "null"}]


@functools.cache
def _document() -> str:
    home = installed(OPENAPI, OPENAPI_VERSION) / "node_modules" / OPENAPI / "generated"
    for other in home.glob("*.json"):
        if other.name != DOCUMENT:  # 370 MiB, of which we need one part in thirty
            other.unlink(missing_ok=True)
    return (home / DOCUMENT).read_text()


def document() -> Document:
    """The document, with nothing looked at yet. Wants npm."""
    return Document(json.loads(_document()))


@functools.cache
def examples() -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Bodies of webhooks as GitHub sent them, by event and action. Wants npm."""
    home: Path = installed(EXAMPLES, EXAMPLES_VERSION) / "node_modules" / EXAMPLES
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for event in json.loads((home / "api.github.com" / "index.json").read_text()):
        for body in event["examples"]:
            found.setdefault((event["name"], str(body.get("action", ""))), []).append(body)
    return found
