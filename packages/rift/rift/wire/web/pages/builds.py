"""The build of a commit's environment, with its log: the end of it as it goes on, and the whole of it as a file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import Response, StreamingResponse

from keel.db import Tx
from keel.refusal import Refusal
from keel.sizes import KIB, MIB
from rift.environments import actions as environments
from rift.environments.model import Environment
from rift.repos import actions as repos
from rift.repos.model import Repo
from rift.secrecy import without_secrets
from rift.wire.web import live
from rift.wire.web.pages.repositories import BUILT, PATH, going
from rift.wire.web.visit import Page, Visit, headers

HERE = f"{PATH}/{{repo}}/builds/{{commit}}"
SHOWN_BYTES = 64 * KIB
"""How much of a log the page shows: its end."""
LINE_MOST = MIB
"""A longer line is shown in pieces."""


async def build(visit: Visit) -> Response | Refusal:
    """How it stands, and the end of its log."""
    facts = await _facts(visit)
    return facts if isinstance(facts, Refusal) else visit.render("build.html", **facts)


async def events(visit: Visit) -> Response | Refusal:
    """The same, again and again while it is looked at."""
    first = await _facts(visit)
    if isinstance(first, Refusal):
        return first
    topic = environments.topic(first["repo"].id)

    async def show() -> live.Shown:
        facts = await _facts(visit)
        return ("" if isinstance(facts, Refusal) else visit.html("build_now.html", **facts)), {topic}

    return going(visit, show)


async def log(visit: Visit) -> Response | Refusal:
    """The whole log as it was kept, as plain text, without what the page does not show either.

    What a box's secrets are is not in it: a build has none.
    """
    async with visit.deps.db.look(visit.caller.user) as tx:
        found = await _found(tx, visit)
    if isinstance(found, Refusal):
        return found
    _, one = found

    shown = _by_line(_kept(visit, one))
    return StreamingResponse(shown, media_type="text/plain; charset=utf-8", headers=headers(visit.site))


async def _kept(visit: Visit, one: Environment | None) -> AsyncIterator[bytes]:
    """What is kept of a log, piece by piece."""
    at, epoch = 0, None
    while one is not None:
        async with visit.deps.db.look(visit.caller.user) as tx:
            part = await environments.log_of(tx, one.id, at)
        if part is None or (epoch is not None and part.epoch != epoch):
            return  # forgotten, or built again meanwhile
        epoch = part.epoch
        if part.first > at:
            yield f"\n… {part.first - at} bytes were not kept …\n".encode()
        yield part.data
        at = part.first + len(part.data)
        if not part.data or at >= part.size:
            return


async def _by_line(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same without secrets, which have no line break in them: so a piece ends where a line does."""
    held = b""
    async for piece in pieces:
        held += piece
        end = held.rfind(b"\n") + 1 or (len(held) if len(held) > LINE_MOST else 0)
        if end:
            yield _shown(held[:end])
        held = held[end:]
    yield _shown(held)


def _shown(text: bytes) -> bytes:
    """The text as the page shows it, in which bytes that are no UTF-8 stay what they are."""
    return without_secrets(text.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


async def _found(tx: Tx, visit: Visit) -> tuple[Repo, Environment | None] | Refusal:
    at = visit.request.path_params
    repo = await repos.find_by_id(tx, visit.caller, at["repo"])
    if isinstance(repo, Refusal):
        return repo
    return repo[0], await environments.of_head(tx, repo[0].id, at["commit"].replace("\0", ""))


async def _facts(visit: Visit) -> dict[str, Any] | Refusal:
    async with visit.deps.db.look(visit.caller.user) as tx:
        found = await _found(tx, visit)
        if isinstance(found, Refusal):
            return found
        repo, one = found
        whole = await environments.log_of(tx, one.id, 2**62) if one else None
        first = max(0, (whole.size if whole else 0) - SHOWN_BYTES)
        part = await environments.log_of(tx, one.id, first) if one and whole else None
    commit = visit.request.path_params["commit"]
    here = f"{PATH}/{repo.id}/builds/{commit}"
    text = part.data.decode("utf-8", "replace").replace("\0", "\ufffd") if part else ""
    return {
        "repo": repo, "one": one, "commit": commit, "here": here, "text": text, "built": BUILT,
        "before": part.first if part else 0, "size": part.size if part else 0,
    }  # fmt: skip


PAGES = (
    Page(HERE, build),
    Page(f"{HERE}/live", events),
    Page(f"{HERE}/log", log),
)
