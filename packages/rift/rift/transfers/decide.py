"""Requests of the LFS API, read strictly and written anew. Pure.

Source: git-lfs, docs/api/batch.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from rift.drivers.forge.packets import plain_ref
from rift.names import DOOR_PORT
from rift.transfers.model import Api, Transfer
from rift.verbs.decide import plain

CHANGES = re.compile(r"locks(/[A-Za-z0-9-]{1,100}/unlock)?")
"""The requests, but for files themselves, by which something is another at the origin."""
PATHS = re.compile(r"objects/batch|locks(/verify|/[A-Za-z0-9-]{1,100}/unlock)?")
KIND = re.compile(r"[A-Za-z0-9/.+;= _-]{1,200}")
"""A content type that goes on to the jail."""
OBJECTS_MOST = 1000
GOOD_FOR = 3600.0
"""How long the address of one file is good, in seconds: a slow upload begins within it."""
_OID = re.compile(r"[0-9a-f]{64}")
_METHODS = {"download": "GET", "upload": "PUT", "verify": "POST"}
_FIELD = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}: [\x20-\x7e]{0,8000}")
_DROPPED = frozenset({"host", "content-length", "transfer-encoding", "connection", "cookie"})


class Wrong(Exception):
    """A request is none; the text says why."""


def batch_of(body: bytes) -> tuple[dict[str, Any], dict[str, object]]:
    """A batch request written anew, and what the record says of it. Raises Wrong."""
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError):
        raise Wrong("it is no JSON") from None
    if not isinstance(asked, dict) or asked.get("operation") not in ("download", "upload"):
        raise Wrong("its operation is none")
    if asked.get("hash_algo", "sha256") != "sha256":
        raise Wrong("its hash algorithm is not sha256")
    objects = asked.get("objects")
    if not isinstance(objects, list) or not 0 < len(objects) <= OBJECTS_MOST:
        raise Wrong(f"it names no objects, or more than {OBJECTS_MOST}")
    clean = [_object(one) for one in objects]
    made: dict[str, Any] = {"operation": asked["operation"], "transfers": ["basic"], "objects": clean}
    ref = asked.get("ref")
    if isinstance(ref, dict) and isinstance(ref.get("name"), str) and plain_ref(ref["name"]):
        made["ref"] = {"name": ref["name"]}
    return made, {"operation": made["operation"], "count": len(clean), "bytes": sum(one["size"] for one in clean)}


def _object(one: object) -> dict[str, Any]:
    if not isinstance(one, dict):
        raise Wrong("an object is none")
    oid, size = one.get("oid"), one.get("size")
    if not isinstance(oid, str) or not _OID.fullmatch(oid):
        raise Wrong("an object's id is none")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 2**50:
        raise Wrong("an object's size is none")
    return {"oid": oid, "size": size}


def rewritten(answer: Mapping[str, Any], api: Api, now: float, seal: Callable[[Transfer], str]) -> dict[str, Any]:
    """An origin's answer to a batch with each address led through the door. Raises Wrong."""
    objects = answer.get("objects")
    if not isinstance(objects, list) or len(objects) > OBJECTS_MOST:
        raise Wrong("the origin's answer has no objects, or more than were asked for")
    return {"transfer": "basic", "objects": [_rewritten(one, api, now, seal) for one in objects]}


def _rewritten(one: object, api: Api, now: float, seal: Callable[[Transfer], str]) -> dict[str, Any]:
    if not isinstance(one, dict) or not isinstance(one.get("oid"), str) or not _OID.fullmatch(one["oid"]):
        raise Wrong("the origin's answer has an object that is none")
    oid, size, error, actions = one["oid"], one.get("size", 0), one.get("error"), one.get("actions") or {}
    if not isinstance(size, int) or not isinstance(actions, dict):
        raise Wrong("the origin's answer has an object that is none")
    made: dict[str, Any] = {"oid": one["oid"], "size": size, "authenticated": True}
    if isinstance(error, dict):
        code = error.get("code")
        words = plain(str(error.get("message", "")), 500)
        made["error"] = {"code": code if isinstance(code, int) else 500, "message": words}
    made["actions"] = {
        name: {
            "href": f"http://127.0.0.1:{DOOR_PORT}/lfs/{seal(transfer_of(name, action, api, now, oid, size))}",
            "expires_in": int(GOOD_FOR),
        }
        for name, action in actions.items()
        if name in _METHODS
    }
    if not made["actions"]:
        del made["actions"]
    return made


def transfer_of(name: str, action: object, api: Api, now: float, oid: str, size: int) -> Transfer:
    """Where a file goes, as the origin says. Over plain HTTP only to the origin's own address. Raises Wrong."""
    href, given = (action.get("href"), action.get("header") or {}) if isinstance(action, dict) else (None, {})
    if not isinstance(href, str) or not isinstance(given, dict) or not href.isprintable():
        raise Wrong("the origin's answer has an address that is none")
    if not all(_FIELD.fullmatch(f"{key}: {value}") for key, value in given.items()):
        raise Wrong("the origin's answer has a header that is none")
    try:
        there, ours = urlsplit(href), urlsplit(api.base)
    except ValueError:
        raise Wrong("the origin's answer has an address that is none") from None
    same = (there.scheme, there.netloc) == (ours.scheme, ours.netloc)
    if not there.hostname or (there.scheme != "https" and not same):
        raise Wrong("the origin's answer leads to an address without TLS")
    headers = {str(key): str(value) for key, value in given.items() if str(key).lower() not in _DROPPED}
    if same and api.authorization and not any(key.lower() == "authorization" for key in headers):
        headers["Authorization"] = api.authorization
    return Transfer(_METHODS[name], href, headers, now + GOOD_FOR, oid, size)  # type: ignore[arg-type]  # one of three


def elsewhere(href: str, origin: str) -> bool:
    """Whether a file goes to another host than its origin's, for which nothing but that origin's word speaks."""
    return urlsplit(href).hostname != urlsplit(origin).hostname


def base_of(origin: str) -> str | None:
    """Where the LFS API of a plain origin is; None where it is not reached over HTTP."""
    if urlsplit(origin).scheme not in ("http", "https"):
        return None
    return f"{origin.rstrip('/').removesuffix('.git')}.git/info/lfs"
