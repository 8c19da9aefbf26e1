"""What a registration may say, what a change of one makes of it, whether it may go; who lifts a block. Pure.

Every member that is wrong is told at once, by name, and no value is repeated: it may be a secret in the wrong place.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any
from urllib.parse import quote, urlsplit

from keel import durations
from keel.refusal import Refusal, Stop
from onbe.directory import refusals
from onbe.directory.model import Bounds, Problem, Registration, Sponsor
from onbe.keyset import check_set, thumbprints
from onbe.names import (
    AGENT_ID,
    AUDIENCES_MOST,
    DEPTH_LEAST,
    DEPTH_MOST,
    DISPLAY_LENGTH,
    RESERVED_IDS,
    SCOPE_TOKEN_LENGTH,
    SCOPES_MOST,
    URI_LENGTH,
)

MEMBERS = (
    "agent_id", "display_name", "allowed_scopes", "allowed_audiences", "max_task_ttl", "max_token_ttl",
    "max_delegation_depth", "high_risk_audiences", "jwks_uri", "jwks", "enabled",
)  # fmt: skip
"""Every member of a registration, in the order in which it is shown."""
REQUIRED = ("agent_id", "display_name", "allowed_scopes", "allowed_audiences")
DEFAULTS: Mapping[str, Any] = {"max_delegation_depth": 1, "high_risk_audiences": (), "enabled": True}
"""What a member is that is not there, or null; None for the others."""
OURS = ("created_at", "updated_at", "tasks_ended_at")
"""Members of an answer that the server sets."""
KEYS = ("jwks_uri", "jwks")
PROBLEMS_TOLD = 100
"""How many problems are told one by one."""
NAME_SHOWN = 64

SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
"""A scope token (RFC 6749, 3.3)."""
URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?:[A-Za-z0-9._~:/?\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+")
"""An absolute URI without fragment, as far as its characters go (RFC 3986, 4.3)."""


class _Reading:
    """The members of a registration that were read so far, and what is wrong with others."""

    def __init__(self, bounds: Bounds | None) -> None:
        self.bounds = bounds
        self.values: dict[str, Any] = {}
        self.problems: list[Problem] = []

    def wrong(self, detail: str, *path: str | int) -> None:
        """Note what is wrong with a member."""
        self.problems.append(Problem(pointer(*path), detail))

    def take(self, given: Mapping[str, Any]) -> None:
        """Read members by the rules of each. One that is wrong is noted, and is not among the values."""
        for name, value in given.items():
            if name not in RULES:
                self.wrong(_unknown(name), name)
            elif value is not None:
                before = len(self.problems)
                read = RULES[name](value, self, name)
                if len(self.problems) == before:
                    self.values[name] = read
            elif name in REQUIRED or name == "enabled":
                self.wrong("should not be null", name)
            else:
                self.values[name] = DEFAULTS.get(name)

    def together(self, values: Mapping[str, Any]) -> None:
        """Note members that are fine alone and not with each other."""
        audiences, risky = values.get("allowed_audiences"), values.get("high_risk_audiences")
        if audiences is not None and risky:
            for place, one in enumerate(risky):
                if one not in audiences:
                    self.wrong("is not one of allowed_audiences", "high_risk_audiences", place)
        if all(name in values for name in KEYS):
            if values["jwks_uri"] is None and values["jwks"] is None:
                self.wrong("needs jwks_uri or jwks, exactly one of them")
            elif values["jwks_uri"] is not None and values["jwks"] is not None:
                self.wrong("goes not together with jwks: of the two, one is null or not there", "jwks_uri")


def decide_new(given: object, bounds: Bounds | None, now: datetime) -> Registration | Refusal:
    """The registration that a JSON value is, or all that is wrong with it. Without bounds, durations may be any."""
    reading = _Reading(bounds)
    if not isinstance(given, dict):
        reading.wrong("should be a JSON object")
        return _refused(reading)
    reading.take(given)
    for name in MEMBERS:
        if name in REQUIRED and name not in given:
            reading.wrong("is required", name)
        elif name not in given:
            reading.values[name] = DEFAULTS.get(name)
    reading.together(reading.values)
    if reading.problems:
        return _refused(reading)
    return Registration(**reading.values, created_at=now, updated_at=now)


def decide_change(current: Registration, patch: object, bounds: Bounds, now: datetime) -> Registration | Refusal:
    """What a JSON merge patch (RFC 7396) makes of a registration; itself where nothing changes.

    A member that the patch does not name is left as it is, also where the bounds have moved since.
    """
    reading = _Reading(bounds)
    if not isinstance(patch, dict):
        reading.wrong("should be a JSON object")
        return _refused(reading)
    merged = merge(document(current), patch)
    reading.take({name: merged.get(name) for name in patch})
    if reading.values.get("agent_id", current.agent_id) != current.agent_id:
        reading.wrong("cannot be changed: register another agent", "agent_id")
    failed = {one.pointer.split("/")[1] for one in reading.problems if "/" in one.pointer}
    before = {name: getattr(current, name) for name in MEMBERS if name not in failed}
    reading.together({**before, **reading.values})
    if reading.problems:
        return _refused(reading)
    changed = dataclasses.replace(current, **reading.values)
    return dataclasses.replace(changed, updated_at=now) if changed != current else current


def decide_delete(agent: str, current: Registration | None, tasks: int, most: int) -> Registration | Refusal:
    """Whether an agent may be forgotten, of which `tasks` are stored, counted up to `most`."""
    if current is None:
        return unknown(agent)
    if tasks:
        told = f"over {most} tasks" if tasks > most else f"{tasks} task{'s' if tasks > 1 else ''}"
        return refusals.agent_in_use(Stop(), agent=agent, tasks=told)
    return current


def decide_lift(sponsor: Sponsor | None, source: str) -> Refusal | None:
    """May `source` lift a block of this person? Only one that it placed itself."""
    if sponsor is None or not sponsor.blocked:
        return refusals.not_blocked(Stop())
    if source not in sponsor.blocks:
        return refusals.block_of_another(Stop(), source=", ".join(sorted(sponsor.blocks)))
    return None


def unknown(agent: str) -> Refusal:
    """There is no such agent."""
    return refusals.agent_unknown(Stop(), agent=agent if is_id(agent) else "of that id")


def is_id(text: str) -> bool:
    """Whether a text could be an agent's id."""
    return re.fullmatch(AGENT_ID, text) is not None


def changes(old: Registration, new: Registration) -> dict[str, Any]:
    """What differs, by member: its old and new value; of keys, their thumbprints (RFC 7638)."""
    before, after = recorded_form(old), recorded_form(new)
    named = [name for name in MEMBERS if document(old)[name] != document(new)[name]]
    return {name: {"old": before[name], "new": after[name]} for name in named}


def recorded_form(registration: Registration) -> dict[str, Any]:
    """A registration as the ledger tells it: of keys, their thumbprints; of an address of keys, its host."""
    said = document(registration)
    uri = urlsplit(said["jwks_uri"] or "")
    return {**said, "jwks": thumbprints(registration.jwks), "jwks_uri": uri.hostname}


def document(registration: Registration) -> dict[str, Any]:
    """The members as JSON has them; one that is not set is null."""
    said = {name: getattr(registration, name) for name in MEMBERS}
    for name, value in said.items():
        if isinstance(value, timedelta):
            said[name] = durations.told(value)
        elif isinstance(value, tuple):
            said[name] = list(value)
    return said


def merge(target: object, patch: object) -> Any:
    """RFC 7396: what a merge patch makes of a value."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), value)
    return merged


def pointer(*path: str | int) -> str:
    """A JSON pointer as a URI fragment. Long and odd names are cut."""
    parts = (shown(str(part)).replace("~", "~0").replace("/", "~1") for part in path)
    return "#" + "".join(f"/{quote(part, safe='~')}" for part in parts)


def shown(name: str) -> str:
    """A name that somebody gave, fit to be repeated: printable, and cut."""
    cut = name if len(name) <= NAME_SHOWN else f"{name[:NAME_SHOWN]}…"
    return "".join(character if character.isprintable() else "\ufffd" for character in cut)


def _refused(reading: _Reading) -> Refusal:
    told = reading.problems[:PROBLEMS_TOLD]
    if more := len(reading.problems) - len(told):
        told.append(Problem("#", f"has {more} more problems of this kind"))
    first = "; ".join(f"{one.pointer.removeprefix('#/') or 'it'} {one.detail}" for one in told[:3])
    rest = f"; and {len(told) - 3} more" if len(told) > 3 else ""
    refusal = refusals.invalid_fields(Stop(), problems=first + rest)
    errors = [{"pointer": one.pointer, "detail": one.detail} for one in told]
    return dataclasses.replace(refusal, facts={**refusal.facts, "errors": errors})


def _unknown(name: str) -> str:
    if name in OURS:
        return "is set by the server"
    near = get_close_matches(name[:NAME_SHOWN].lower().replace("-", "_"), MEMBERS, n=1, cutoff=0.6)
    return "is not a member of a registration" + (f"; the nearest is {near[0]}" if near else "")


# The rule of each member: it gives what is stored, or notes what is wrong.


def _id(value: object, reading: _Reading, name: str) -> object:
    if not isinstance(value, str) or not is_id(value):
        reading.wrong("should be 1 to 64 of a-z, 0-9, dot, hyphen, underscore, beginning with a letter or digit", name)
    elif value in RESERVED_IDS:
        reading.wrong(f"should not be one of {', '.join(RESERVED_IDS)}, which records use for others", name)
    return value


def _display_name(value: object, reading: _Reading, name: str) -> object:
    if (
        not isinstance(value, str)
        or not 1 <= len(value) <= DISPLAY_LENGTH
        or not value.isprintable()
        or value != value.strip()
    ):
        reading.wrong(f"should be 1 to {DISPLAY_LENGTH} printable characters, no blank at either end", name)
    return value


def _texts(value: object, reading: _Reading, name: str, least: int, most: int, check: Callable[[str], str]) -> object:
    """A list of distinct texts; `check` says what is wrong with one, or nothing."""
    if not isinstance(value, list) or not least <= len(value) <= most:
        reading.wrong(f"should be a list of {least} to {most}", name)
        return None
    seen: set[str] = set()
    for place, one in enumerate(value):
        if not isinstance(one, str):
            reading.wrong("should be a text", name, place)
        elif problem := check(one):
            reading.wrong(problem, name, place)
        elif one in seen:
            reading.wrong("is there twice", name, place)
        else:
            seen.add(one)
    return tuple(value)


def _scope_problem(text: str) -> str:
    fits = len(text) <= SCOPE_TOKEN_LENGTH and SCOPE.fullmatch(text)
    return "" if fits else f"should be a scope token (RFC 6749, 3.3) of at most {SCOPE_TOKEN_LENGTH} characters"


def _audience_problem(text: str) -> str:
    should = f"should be an absolute URI without fragment or password, of at most {URI_LENGTH} characters"
    if len(text) > URI_LENGTH or not URI.fullmatch(text):
        return should
    try:
        url = urlsplit(text)
        host, _ = url.hostname, url.port
    except ValueError:
        return should
    if "@" in url.netloc or (url.scheme in ("http", "https") and not host):
        return should
    return ""


def _scopes(value: object, reading: _Reading, name: str) -> object:
    return _texts(value, reading, name, 1, SCOPES_MOST, _scope_problem)


def _audiences(value: object, reading: _Reading, name: str) -> object:
    return _texts(value, reading, name, 1, AUDIENCES_MOST, _audience_problem)


def _high_risk(value: object, reading: _Reading, name: str) -> object:
    return _texts(value, reading, name, 0, AUDIENCES_MOST, _audience_problem)


def _ttl(value: object, reading: _Reading, name: str) -> object:
    found = durations.read(value) if isinstance(value, str) else None
    if found is None or found.microseconds or not found:
        reading.wrong("should be a duration of whole seconds as in ISO 8601, for example PT30M", name)
        return None
    if reading.bounds is not None:
        least, most = (getattr(reading.bounds, name.replace("max", edge, 1)) for edge in ("min", "max"))
        if not least <= found <= most:
            reading.wrong(f"should be from {durations.told(least)} to {durations.told(most)}", name)
    return found


def _depth(value: object, reading: _Reading, name: str) -> object:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not DEPTH_LEAST <= value <= DEPTH_MOST:
        reading.wrong(f"should be a whole number from {DEPTH_LEAST} to {DEPTH_MOST}", name)
    return value


def _jwks_uri(value: object, reading: _Reading, name: str) -> object:
    url = None
    if isinstance(value, str) and not _audience_problem(value):
        url = urlsplit(value)
    if url is None or url.scheme not in ("http", "https") or not url.hostname:
        reading.wrong(f"should be an https address of at most {URI_LENGTH} characters, no fragment, no password", name)
    elif url.scheme == "http" and reading.bounds is not None:
        allowed = reading.bounds.http
        if allowed == "no" or (allowed == "loopback" and not loopback(url.hostname)):
            reading.wrong("should be https, unless Onbe:AllowInsecureHttp is true", name)
    return value


def loopback(host: str) -> bool:
    """Whether a host in an address is this machine, for any resolver."""
    return (
        host in ("localhost", "::1")
        or host.endswith(".localhost")
        or re.fullmatch(r"127(\.(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)){3}", host, re.ASCII) is not None
    )


def _jwks(value: object, reading: _Reading, name: str) -> object:
    return check_set(value, lambda detail, *path: reading.wrong(detail, name, *path))


def _enabled(value: object, reading: _Reading, name: str) -> object:
    if not isinstance(value, bool):
        reading.wrong("should be true or false", name)
    return value


Rule = Callable[[object, _Reading, str], object]
RULES: Mapping[str, Rule] = {
    "agent_id": _id,
    "display_name": _display_name,
    "allowed_scopes": _scopes,
    "allowed_audiences": _audiences,
    "max_task_ttl": _ttl,
    "max_token_ttl": _ttl,
    "max_delegation_depth": _depth,
    "high_risk_audiences": _high_risk,
    "jwks_uri": _jwks_uri,
    "jwks": _jwks,
    "enabled": _enabled,
}
