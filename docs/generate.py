"""The parts of the pages that are made from the code. `script/docs` writes them; tests hold them equal.

A page marks such a part with `<!-- made by script/docs: NAME -->` and `<!-- end of NAME -->`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from docs.onbe_reasons import MENDS
from docs.refusal_examples import EXAMPLES, GROUPS

from keel.settings import Settings, table
from onbe.catalogue import REASONS
from onbe.settings import OnbeSettings
from onbe.wire.refusals import ADMIN, OAUTH
from rift.settings import RiftSettings
from rift.wire.docs.pages import GROUPS as PAGES
from rift.wire.mcp.tools import TOOLS
from rift.wire.refusals import refusal_text

import_module("onbe.serving")  # with what it serves, every reason is declared
KINDS = {"string": "text", "integer": "whole number", "boolean": "true or false", "array": "list", "object": "object"}
HERE = Path(__file__).resolve().parent
PART = re.compile(r"(<!-- made by script/docs: (?P<name>\S+) -->\n).*?(<!-- end of (?P=name) -->)", re.DOTALL)


def settings(kind: type[Settings]) -> str:
    """Every setting: its name, how the environment spells it, its default, what it is for."""
    rows = ["| setting | in the environment | default | what it is |", "|---|---|---|---|"]
    for row in table(kind):
        default = f"`{row.default}`" if row.default else "none"
        rows.append(f"| `{row.name}` | `{row.name.replace(':', '__')}` | {default} | {row.what} |")
    return "\n".join(rows)


def listed() -> str:
    """Every page by its group, with what it tells: as `/docs` has them."""
    parts = []
    for group, those in PAGES.items():
        rows = [f"| [{page.title}]({page.name}.md) | {page.tells} |" for page in those]
        parts.append("\n".join([f"## {group}", "", "| page | tells |", "|---|---|", *rows]))
    return "\n\n".join(parts)


def reasons() -> str:
    """Every reason of Onbe's, its sentence, what it becomes at the token endpoint and in the admin API, what to do."""
    rows = ["| reason | sentence | OAuth error | admin API | what to do |", "|---|---|---|---|---|"]
    for code, kind in sorted(REASONS.items()):
        status, error = OAUTH.get(code, (0, ""))
        oauth, admin = (f"{status} `{error}`" if error else "–"), str(ADMIN.get(code, "–"))
        rows.append(f"| `{code}` | {kind.sentence} | {oauth} | {admin} | {MENDS[code]} |")
    return "\n".join(rows)


def refusals(group: str) -> str:
    """The kinds of one group, each as an agent reads it, its mends on the last lines."""
    codes = list(EXAMPLES)
    first, last = GROUPS[group]
    told = codes[codes.index(first) : codes.index(last) + 1]
    return "\n\n".join(f"### `{code}`\n\n```text\n{refusal_text(EXAMPLES[code]())}\n```" for code in told)


def tool(name: str) -> str:
    """One tool as a client sees it: its description, its arguments, the members of its structured answer."""
    one = next(one for one in TOOLS if one.name == name)
    hints = [word for word, yes in (("read-only", one.read_only), ("destructive", one.destructive),
                                    ("idempotent", one.idempotent)) if yes]  # fmt: skip
    lines = [f"*{one.title}{'; ' + ', '.join(hints) if hints else ''}.* {one.description}", ""]
    arguments = list(_members(one.input_schema))
    lines += ["| argument | what | |", "|---|---|---|", *arguments] if arguments else ["It takes no arguments."]
    if one.output_schema is not None:
        lines += ["", f"`structuredContent`: {_shape(one.output_schema)}."]
    return "\n".join(lines).replace("<", "&lt;")


def _members(schema: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, inner in schema.get("properties", {}).items():
        need = "required" if name in schema.get("required", ()) else "optional"
        what = " ".join(filter(None, (_kind(inner), inner.get("description", ""))))
        yield f"| `{prefix}{name}` | {what} | {need} |"
        if inner.get("type") == "array":
            yield from _members(inner["items"], f"{prefix}{name}[].")


def _kind(schema: Mapping[str, Any]) -> str:
    low, high = (schema.get(f"{end}{'Items' if schema['type'] == 'array' else 'imum'}") for end in ("min", "max"))
    between = f", {low} to {high}" if high is not None else f", {low} or more" if low is not None else ""
    return f"{KINDS[schema['type']]}{between}."


def _shape(schema: Mapping[str, Any]) -> str:
    return ", ".join(_member(name, inner) for name, inner in schema.get("properties", {}).items())


def _member(name: str, schema: Mapping[str, Any]) -> str:
    if schema.get("type") == "array" and "properties" in schema["items"]:
        return f"`{name}` (a list, each with {_shape(schema['items'])})"
    return f"`{name}`" + (" or null" if "anyOf" in schema else "")


PARTS: Mapping[str, Callable[[], str]] = {
    "pages": listed,
    "settings": partial(settings, RiftSettings),
    "onbe-settings": partial(settings, OnbeSettings),
    "onbe-reasons": reasons,
    **{f"refusals-{group}": partial(refusals, group) for group in GROUPS},
    **{one.name: partial(tool, one.name) for one in TOOLS},
}


def made(text: str) -> str:
    """The page with its parts made anew. Raises KeyError on a part that is not known."""
    return PART.sub(lambda found: f"{found[1]}\n{PARTS[found['name']]()}\n\n{found[3]}", text)


def pages() -> list[Path]:
    """Every page of the documentation, the README first."""
    root = HERE.parent
    return [
        root / "README.md",
        *(root / name for name in ("CONTRIBUTING.md", "CHANGELOG.md")),
        *sorted((root / "packages").glob("*/README.md")),
        *sorted(HERE.rglob("*.md")),
    ]


def main() -> None:
    """Write every page that is not as it should be, and say which."""
    for page in pages():
        before = page.read_text("utf-8")
        if (after := made(before)) != before:
            page.write_text(after, "utf-8")
            sys.stdout.write(f"{page.relative_to(HERE.parent)} is written anew\n")


if __name__ == "__main__":
    main()
