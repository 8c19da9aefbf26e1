"""What is done for git-lfs at the door: its API asked as the person, files carried to where the origin wants them."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from urllib.parse import unquote, urlsplit

from keel.refusal import Refusal
from keel.vault import VaultTrouble
from rift.deps import Deps
from rift.drivers.carrier.protocol import CarrierError
from rift.drivers.forge.packets import beginning, once
from rift.logins import actions as logins
from rift.origins import actions as origins
from rift.transfers import refusals
from rift.transfers.decide import CHANGES, KIND, PATHS, Wrong, base_of, batch_of, elsewhere, rewritten
from rift.transfers.model import Api, Asked, Sent, Transfer
from rift.verbs import actions as verbs
from rift.verbs.actions import Withdrawn
from rift.verbs.decide import basic, plain
from rift.verbs.model import Admitted, Answer, Over, Speaker
from rift.verbs.refusals import origin_failed

TYPE = "application/vnd.git-lfs+json"
ANSWER_BYTES = 8 << 20


async def api(deps: Deps, speaker: Speaker, asked: Asked) -> Answer | Refusal | Over:
    """One request of the LFS API. A batch, a lock, and what is refused, is one record: `lfs`; a lock one before too."""
    began = deps.clock.monotonic()
    who = await verbs.admit(deps, speaker, "lfs", asked.repository)
    if not isinstance(who, Admitted):
        return who
    told: dict[str, object] = {"repo": who.repo.full}
    outcome = "broken_off"
    try:
        answer = await _asked(deps, who, asked, told)
        if isinstance(answer, Refusal):
            outcome = answer.code
        else:
            outcome = "ok" if answer.status in (200, 201) else "refused_by_origin"
        return answer
    finally:
        if asked.path == "objects/batch" or _changes(asked) or outcome not in ("ok", "refused_by_origin"):
            await verbs.record(deps, who, "lfs", began, outcome, told)


def _changes(asked: Asked) -> bool:
    return asked.method == "POST" and CHANGES.fullmatch(asked.path) is not None


async def _asked(deps: Deps, who: Admitted, asked: Asked, told: dict[str, object]) -> Answer | Refusal:
    if not PATHS.fullmatch(asked.path):
        return refusals.malformed("the LFS API has no such request")
    there = await _api(deps, who)
    if isinstance(there, Refusal):
        # Of locks it is only said that there are none: git-lfs asks about them at each push, one without new files too.
        none = there.code == "verb_no_lfs" and asked.path.startswith("locks")
        return Answer(501, TYPE, once(b"{}"), 2) if none else there
    batch, body = asked.path == "objects/batch", asked.body
    try:
        if batch:
            made, about = batch_of(asked.body)
            told |= about
            body = json.dumps(made).encode()
        headers = {"Accept": TYPE, "Content-Type": TYPE, "User-Agent": "git-lfs (Rift)"}
        if there.authorization:
            headers["Authorization"] = there.authorization
        if asked.method == "POST":
            headers["Content-Length"] = str(len(body))
        address = f"{there.base}/{asked.path}" + (f"?{asked.query}" if asked.query else "")
        if _changes(asked):
            told["operation"] = "unlock" if asked.path.endswith("/unlock") else "lock"
            await verbs.begun(deps, who, "lfs", told)
        sent = once(body) if asked.method == "POST" else None
        async with deps.carrier.carry(asked.method, address, headers, sent) as carried:
            status, data = carried.status, await beginning(carried.parts, ANSWER_BYTES)
        if status == 200 and batch:
            found = json.loads(data)
            if not isinstance(found, dict):
                raise Wrong("the origin's answer is no object")
            box = who.box
            data = json.dumps(rewritten(found, there, deps.clock.now().timestamp(), lambda one: _seal(deps, box, one))
                              ).encode()  # fmt: skip
    except Wrong as wrong:
        return refusals.malformed(str(wrong))
    except CarrierError as error:
        return origin_failed(who.repo.full, error.reason)
    except (ValueError, RecursionError):
        return origin_failed(who.repo.full, "its answer about LFS files is no JSON")
    if status in (200, 201) or (asked.path.startswith("locks") and status in (404, 409, 501)):
        return Answer(status, TYPE, once(data), len(data))
    words = plain(data.decode("utf-8", "replace"), 500).strip()
    return origin_failed(who.repo.full, f"it answered about LFS files with the status {status}: {words or 'no reason'}")


async def _api(deps: Deps, who: Admitted) -> Api | Refusal:
    """Where the origin's LFS API is, and what opens it."""
    if who.repo.forge == "github":
        person = await logins.person_token(deps, who.owner)
        if isinstance(person, Refusal):
            return person
        base = f"{deps.settings.github.url}/{who.repo.full}.git/info/lfs"
        return Api(base, basic("x-access-token", person.token))
    base_or_none = base_of(who.repo.origin)
    if base_or_none is None:
        return refusals.no_lfs(who.repo.full)
    access, parts = await origins.access_of(deps, who.repo), urlsplit(who.repo.url)
    if access is not None:
        return Api(base_or_none, basic(access.user, access.password))
    if parts.username is not None:
        return Api(base_or_none, basic(unquote(parts.username), unquote(parts.password or "")))
    return Api(base_or_none, "")


@asynccontextmanager
async def transfer(deps: Deps, speaker: Speaker, sent: Sent) -> AsyncIterator[Answer | Refusal | Over]:
    """One file on its way, for the length of the block. Raises CarrierError where it broke off.

    One that goes to the origin is on record before it does, and with what became of it; it ends with the right to it.
    """
    began = deps.clock.monotonic()
    who = await verbs.admit(deps, speaker, "lfs")
    if not isinstance(who, Admitted):
        yield who
        return
    found = _open(deps, who.box, sent.token)
    if found is None or found.method != sent.method or found.expires < deps.clock.now().timestamp():
        refusal = refusals.over()
        await verbs.record(deps, who, "lfs", began, refusal.code, {"repo": who.repo.full})
        yield refusal
        return
    headers = dict(found.headers)
    if sent.method != "GET":
        headers.setdefault("Content-Type", sent.type or "application/octet-stream")
        if sent.length:
            headers["Content-Length"] = sent.length
    body = verbs.while_it_may(deps, speaker, who, sent.body) if sent.method != "GET" and sent.body else None
    told = {"repo": who.repo.full, "operation": "upload", "oid": found.oid, "bytes": found.size}
    if sent.method == "PUT":
        await verbs.begun(deps, who, "lfs", told)
    outcome, answered = "broken_off", False
    try:
        outside = who.repo.forge != "github" and elsewhere(found.href, who.repo.origin)
        async with deps.carrier.carry(sent.method, found.href, headers, body, outside=outside) as carried:
            answered = True
            outcome = "ok" if 200 <= carried.status < 300 else "refused_by_origin"
            length = carried.headers.get("content-length", "")
            status = 403 if carried.status in (401, 407) or 300 <= carried.status < 400 else carried.status
            kind = carried.headers.get("content-type", "")
            kind = kind if KIND.fullmatch(kind) else "application/octet-stream"
            known = length.isascii() and length.isdecimal() and len(length) < 16
            parts = carried.parts
            if sent.method == "GET":
                parts = verbs.read_while_it_may(deps, speaker, who, "lfs", parts)
            yield Answer(status, kind, parts, int(length) if known else None)
    except Withdrawn as withdrawn:
        outcome = withdrawn.refusal.code
        if answered:
            raise
        yield withdrawn.refusal
    except CarrierError as error:
        outcome = "verb_origin_failed"
        if answered:
            raise
        yield origin_failed(who.repo.full, error.reason)
    finally:
        if sent.method == "PUT":
            await verbs.record(deps, who, "lfs", began, outcome, told)


def _about(box: str) -> str:
    return f"lfs transfer {box}"


def _seal(deps: Deps, box: str, one: Transfer) -> str:
    sealed = deps.vault.seal(json.dumps(asdict(one)).encode(), _about(box))
    return base64.urlsafe_b64encode(sealed).rstrip(b"=").decode()


def _open(deps: Deps, box: str, token: str) -> Transfer | None:
    """What was sealed for this box; None for anything else."""
    try:
        sealed = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        return Transfer(**json.loads(deps.vault.open(sealed, _about(box))))
    except (VaultTrouble, ValueError, TypeError, binascii.Error):  # TypeError: sealed by another release
        return None
