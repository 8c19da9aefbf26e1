"""Agents as files: written, read, held against what a server has, and made so."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from keel.clock import SystemClock
from keel.refusal import Refusal
from onbe.cli.drafts import draft, new_key
from onbe.cli.remote import Registry, Trouble
from onbe.directory.decide import MEMBERS, decide_new, document
from onbe.keyset import thumbprints
from onbe.names import BODY_BYTES
from onbe.wire.admin.bodies import parse

Action = Literal["create", "change", "unchanged"]
SETS = ("allowed_scopes", "allowed_audiences", "high_risk_audiences")
"""Members in which order means nothing."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """An agent as a file has it; a member that the file leaves to the server is not among `members`."""

    file: Path
    members: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """What is done with one agent."""

    wanted: Wanted
    action: Action
    changes: Mapping[str, tuple[Any, Any]]
    """By member: what the server has, and what it will have."""

    @property
    def agent_id(self) -> str:
        """The agent's id."""
        return str(self.wanted.members["agent_id"])

    @property
    def body(self) -> dict[str, Any]:
        """What is sent: all of a new agent, of another what differs."""
        if self.action == "create":
            return {name: value for name, value in self.wanted.members.items() if value is not None}
        return {name: new for name, (_, new) in self.changes.items()}


def init(folder: Path, name: str) -> tuple[Path, Path]:
    """Write a draft for an agent and its private key, neither over anything. Raises Trouble."""
    file, key = folder / f"{name}.agent.toml", folder / f"{name}.key.pem"
    for path in (file, key):
        if os.path.lexists(path):
            raise Trouble({"file": str(path), "detail": "is there already, and is not written over"})
    pem, jwk = new_key()
    for path, content, mode in ((key, pem, 0o600), (file, draft(name, jwk, key.name), 0o644)):
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
            with os.fdopen(descriptor, "w", encoding="utf-8") as out:
                out.write(content)
        except OSError as error:
            raise Trouble({"file": str(path), "detail": f"cannot be written: {error.strerror}"}) from None
    return file, key


def read_all(files: Sequence[Path]) -> list[Wanted]:
    """What files want, each checked as far as that can be without the server. Raises Trouble with all that is wrong."""
    wanted: list[Wanted] = []
    errors: list[Mapping[str, str]] = []
    for file in files:
        try:
            wanted.append(_read(file))
        except Trouble as trouble:
            errors += [{"file": str(file), **one} for one in trouble.errors]
    first: dict[str, Path] = {}
    for one in wanted:
        other = first.setdefault(one.members["agent_id"], one.file)
        if other is not one.file:
            errors.append({"file": str(one.file), "pointer": "#/agent_id", "detail": f"is that of {other} too"})
    if errors:
        raise Trouble(*errors)
    return wanted


def plan(server: Registry, wanted: Iterable[Wanted]) -> list[Step]:
    """What is to be done, which the server says that it would take. Raises Trouble with all that it would not."""
    steps = [_step(one, server.read(one.members["agent_id"])) for one in wanted]
    _each(steps, lambda step: _send(server, step, dry_run=True))
    return steps


def carry_out(server: Registry, steps: Sequence[Step]) -> None:
    """Do it. Raises Trouble with what failed; what did not is done."""
    _each(steps, lambda step: _send(server, step, dry_run=False))


def as_text(steps: Sequence[Step], dry_run: bool) -> str:
    """What is done, for a person."""
    lines: list[str] = []
    for step in steps:
        lines.append(f"{step.action:9} {step.agent_id}  ({step.wanted.file})")
        if step.action == "change":
            width = max(map(len, step.changes))
            lines += [f"          {name:{width}}  {_told(name, *pair)}" for name, pair in step.changes.items()]
    counts = {action: sum(step.action == action for step in steps) for action in ("create", "change", "unchanged")}
    would = "to create" if dry_run else "created"
    total = f"{counts['create']} {would}, {counts['change']} {'to change' if dry_run else 'changed'}"
    lines.append(f"{total}, {counts['unchanged']} unchanged{'; nothing was done (--dry-run)' if dry_run else ''}")
    return "\n".join(lines)


def as_json(steps: Sequence[Step], dry_run: bool) -> str:
    """The same, for a program."""
    agents = [
        {
            "agent_id": step.agent_id,
            "file": str(step.wanted.file),
            "action": step.action,
            "changes": {name: {"old": old, "new": new} for name, (old, new) in step.changes.items()},
        }
        for step in steps
    ]
    return json.dumps({"dry_run": dry_run, "agents": agents}, indent=2, ensure_ascii=False)


def _read(file: Path) -> Wanted:
    try:
        with file.open("rb") as opened:
            data = opened.read(BODY_BYTES + 1)
    except OSError as error:
        raise Trouble({"detail": f"cannot be read: {error.strerror}"}) from None
    if len(data) > BODY_BYTES:
        raise Trouble({"detail": f"is over {BODY_BYTES} bytes"})
    given = _parse(file, data)
    decided = decide_new(given, None, SystemClock().now())
    if isinstance(decided, Refusal):
        found: Any = decided.facts["errors"]
        raise Trouble(*found)
    assert isinstance(given, dict)  # nothing else is a registration
    members = document(decided)
    if "enabled" not in given:
        del members["enabled"]
    return Wanted(file, members)


def _parse(file: Path, data: bytes) -> object:
    if file.suffix == ".json":
        try:
            return parse(data)
        except ValueError as error:
            raise Trouble({"detail": f"{str(error)[:1].lower()}{str(error)[1:]}".replace("body", "file")}) from None
    if file.suffix != ".toml":
        raise Trouble({"detail": "should be a .toml or .json file"})
    try:
        return tomllib.loads(data.decode())
    except tomllib.TOMLDecodeError as error:
        where = str(error).rpartition("(")[2].rstrip(")")
        raise Trouble({"detail": f"is not TOML ({where})"}) from None
    except (UnicodeDecodeError, RecursionError):
        raise Trouble({"detail": "is not TOML"}) from None


def _step(wanted: Wanted, current: Mapping[str, Any] | None) -> Step:
    if current is None:
        return Step(wanted, "create", {name: (None, value) for name, value in wanted.members.items()})
    changes = {
        name: (current.get(name), wanted.members[name])
        for name in MEMBERS
        if name in wanted.members and _plain(name, current.get(name)) != _plain(name, wanted.members[name])
    }
    return Step(wanted, "change" if changes else "unchanged", changes)


def _plain(name: str, value: Any) -> Any:
    """A member in the form in which it is compared."""
    if name in SETS:
        return sorted(value or ())
    if name == "jwks" and value is not None:
        return sorted(json.dumps(key, sort_keys=True) for key in value["keys"])
    return value


def _each(steps: Sequence[Step], act: Callable[[Step], None]) -> None:
    errors: list[Mapping[str, str]] = []
    for step in steps:
        try:
            act(step)
        except Trouble as trouble:
            errors += [{"file": str(step.wanted.file), **one} for one in trouble.errors]
    if errors:
        raise Trouble(*errors)


def _send(server: Registry, step: Step, *, dry_run: bool) -> None:
    if step.action == "create":
        server.create(step.body, dry_run=dry_run)
    elif step.action == "change":
        server.change(step.agent_id, step.body, dry_run=dry_run)


def _told(name: str, old: Any, new: Any) -> str:
    """A change of one member on one line; keys by the beginning of their thumbprints."""
    if name == "jwks":
        old, new = ([one[:12] for one in thumbprints(jwks)] for jwks in (old, new))
        if sorted(old) == sorted(new):
            return "the same keys, told otherwise"
    if isinstance(old, list) and isinstance(new, list):
        gone, come = [one for one in old if one not in new], [one for one in new if one not in old]
        return "  ".join([*(f"- {one}" for one in gone), *(f"+ {one}" for one in come)])
    return f"{_word(old)} → {_word(new)}"


def _word(value: Any) -> str:
    return "the default" if value is None else value if isinstance(value, str) else json.dumps(value)
