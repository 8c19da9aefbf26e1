"""What is done for a box at its door: who may, and git's requests carried to the forge and back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from functools import partial

import structlog

from keel.db import Tx
from keel.refusal import Refusal
from keel.secrecy import masked
from rift.audit import SystemAct, audited
from rift.deps import Deps
from rift.drivers.carrier.protocol import CarrierError
from rift.drivers.forge.packets import BadRequest, Packets, Push, beginning, joined, kept_of, once, section
from rift.drivers.forge.protocol import FEED_BYTES, ForgeError, Part
from rift.logins import actions as logins
from rift.logins import refusals as logins_refusals
from rift.origins import actions as origins
from rift.people import actions as people
from rift.repos import actions as repos
from rift.repos.decide import main_of
from rift.secrets import actions as secrets
from rift.verbs import refusals, store
from rift.verbs.decide import (
    REPORT_BYTES,
    basic,
    decide_admit,
    decide_push,
    decide_repository,
    failed_fetch,
    head_of,
    outcome_of,
    read_push,
    refused_push,
    unlike,
)
from rift.verbs.model import Admitted, Answer, Asked, Over, ReadPush, Rules, Speaker, Standing

log = structlog.get_logger()

VIA = "box"
"""What the record of a request at the door says it came through."""
LOOK_AGAIN = 5.0
"""How long what comes slowly is believed, in seconds: then it is looked at again whether its box still may."""
OPTIONS_MOST = 64
Before = Callable[[], Awaitable[None]]
SAID_BYTES = 8192
"""How much of an origin's words on a refused request is read."""


class Withdrawn(Exception):
    """Who sends something may not any more, while it still comes."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.code)
        self.refusal = refusal


async def admit(deps: Deps, speaker: Speaker, tool: str, repository: str | None = None) -> Admitted | Refusal | Over:
    """Who stands behind a request, decided at this moment; a refusal is on record as `tool`'s then.

    `repository` (`OWNER/NAME`) is what was asked for, where the request names one.
    """
    began = deps.clock.monotonic()
    async with deps.db.look() as tx:
        standing = await store.standing(tx, speaker)
        if standing is None:
            return Over()
        found = await _judged(tx, standing)
        former: Collection[str] = ()
        if isinstance(found, Admitted) and repository not in (None, found.repo.full):
            # A box that was made before the repository was renamed calls it as it was called then.
            former = await repos.former_names(tx, found.repo.id)
    refusal = found if isinstance(found, Refusal) else None
    if isinstance(found, Admitted) and repository is not None:
        refusal = decide_repository(repository, found, former)
    if refusal is not None:
        act = SystemAct(tool, {}, began, VIA)
        async with audited(deps, act) as (tx, row):
            row.task, row.box, row.actor = standing.task, standing.box, standing.owner
            return row.said(refusal)
    return found


async def speaks(deps: Deps, speaker: Speaker) -> bool:
    """Whether this is the agent of a box as it is now: nothing is read or held for anybody else."""
    async with deps.db.look() as tx:
        return await store.standing(tx, speaker) is not None


async def _judged(tx: Tx, standing: Standing) -> Admitted | Refusal:
    repo = await repos.repo_by_id(tx, standing.repo)
    member = await people.role_in(tx, repo.org, standing.owner) if repo and standing.owner else None
    return decide_admit(standing, repo, member)


async def record(
    deps: Deps, who: Admitted, tool: str, began: float, outcome: str, arguments: Mapping[str, object]
) -> None:
    """One row for one verb, or one of git's operations, without the values of the repository's secrets: a branch or a
    title may hold one. `began` is monotonic.
    """
    async with audited(deps, SystemAct(tool, arguments, began, VIA)) as (tx, row):
        row.hide = await secrets.hiding(tx, deps, who.repo.id)
        row.task, row.box, row.actor, row.outcome = who.task, who.box, who.owner, outcome


async def begun(deps: Deps, who: Admitted, tool: str, arguments: Mapping[str, object]) -> None:
    """The row of what will change something at a forge, before the forge hears of it: whatever ends Rift meanwhile,
    nothing is there without a record. What became of it is a row of its own.
    """
    await record(deps, who, tool, deps.clock.monotonic(), "begun", arguments)


@asynccontextmanager
async def git(deps: Deps, speaker: Speaker, asked: Asked) -> AsyncIterator[Answer | Refusal | Over]:
    """One request of git's, for the length of the block; its outcome is on record after it.

    A fetch is recorded at its first request, a push before it goes on and when it ends. Reading the answer raises
    ForgeError or CarrierError where the origin goes away in the middle.
    """
    tool = "push" if asked.service == "receive-pack" else "fetch"
    began = deps.clock.monotonic()
    who = await admit(deps, speaker, tool, asked.repository)
    if not isinstance(who, Admitted):
        yield who if asked.refs or isinstance(who, Over) else await _told(asked, who)
    elif tool == "push" and not asked.refs:
        async with _push(deps, speaker, who, asked, began) as answer:
            yield answer
    else:
        async with _origin(deps, who, asked, asked.body) as answer:
            if isinstance(answer, Refusal) or asked.refs:
                outcome = answer.code if isinstance(answer, Refusal) else "ok"
                if tool == "fetch" or isinstance(answer, Refusal):
                    await record(deps, who, tool, began, outcome, {"repo": who.repo.full})
            if isinstance(answer, Answer):
                yield replace(answer, parts=read_while_it_may(deps, speaker, who, tool, answer.parts))
            else:
                yield answer if asked.refs else await _told(asked, answer)


async def _told(asked: Asked, refusal: Refusal) -> Answer | Refusal:
    """A refusal of a request that is under way, in git's own protocol: an error status would hide its words."""
    if asked.service == "upload-pack":
        return _whole("upload-pack", failed_fetch(asked.say(refusal)))
    try:
        read = await _read(asked.body)
    except BadRequest:
        return refusal
    if read is None:
        return _whole("receive-pack", b"")
    async for _ in read.pack:
        pass
    return _refused(asked, read.push, {one.ref: "refused by Rift" for one in read.push.updates}, refusal)


@asynccontextmanager
async def _push(
    deps: Deps, speaker: Speaker, who: Admitted, asked: Asked, began: float
) -> AsyncIterator[Answer | Refusal]:
    """A push: read, judged, carried, and what became of it on record."""
    try:
        read = await _read(asked.body)
    except BadRequest as error:
        refusal = refusals.malformed("push", str(error))
        await record(deps, who, "push", began, refusal.code, {"repo": who.repo.full})
        yield refusal
        return
    if read is None:  # git asks first whether it will be let in, before it sends a large pack
        yield _whole("receive-pack", b"")
        return
    refs = {one.ref: f"{one.old[:12]}..{one.new[:12]}" for one in read.push.updates}
    told: dict[str, object] = {"repo": who.repo.full, "refs": dict(list(refs.items())[:50]), "count": len(refs)}
    outcome, answered = "broken_off", False
    try:
        reasons = decide_push(read.push.updates, await _rules(deps, who))
        if reasons:
            refusal = refusals.push(who.repo.full, reasons)
            outcome = refusal.code
            async for _ in read.pack:  # git sends all of it before it looks at an answer
                pass
            yield _refused(asked, read.push, reasons, refusal)
            return
        head = head_of(read.push, read.words, read.shallow, read.options)
        body = while_it_may(deps, speaker, who, joined(head, read.pack))
        async with _origin(deps, who, asked, body, partial(begun, deps, who, "push", told)) as answer:
            if isinstance(answer, Refusal):
                outcome = answer.code
                yield _refused(asked, read.push, dict.fromkeys(refs, "the origin did not take it"), answer)
                return
            kept, answered = bytearray(), True
            yield Answer(answer.status, answer.type, kept_of(answer.parts, kept, REPORT_BYTES))
            outcome, why = outcome_of(bytes(kept), read.push)
            if why:
                told["refused"] = dict(list(why.items())[:50])
    except Withdrawn as withdrawn:
        outcome = withdrawn.refusal.code
        if answered:
            raise
        yield _refused(asked, read.push, dict.fromkeys(refs, "refused by Rift"), withdrawn.refusal)
    except (ForgeError, CarrierError):
        outcome = "verb_origin_failed"
        raise
    finally:
        await record(deps, who, "push", began, outcome, told)


async def while_it_may(
    deps: Deps, speaker: Speaker, who: Admitted, parts: AsyncIterator[bytes]
) -> AsyncIterator[bytes]:
    """What goes to an origin as it comes, while its box may send it; its last part, without which an origin does
    nothing, only if it still may then. Raises Withdrawn: a box that begins and waits does not outlast a task, a
    membership or a login.
    """
    held = b""
    async for part in _looked_after(deps, speaker, who, parts):
        if held:
            yield held
        held = part
    await _look_again(deps, speaker, who)
    yield held


async def read_while_it_may(
    deps: Deps, speaker: Speaker, who: Admitted, tool: str, parts: AsyncIterator[bytes]
) -> AsyncIterator[bytes]:
    """What comes from an origin, while its box may read it; one that is parked meanwhile goes on when it is awake.
    Raises Withdrawn, which is on record as `tool`'s then.
    """
    began = deps.clock.monotonic()
    try:
        async for part in _looked_after(deps, speaker, who, parts, parked=True):
            yield part
    except Withdrawn as withdrawn:
        await record(deps, who, tool, began, withdrawn.refusal.code, {"repo": who.repo.full})
        raise


async def _looked_after(
    deps: Deps, speaker: Speaker, who: Admitted, parts: AsyncIterator[bytes], *, parked: bool = False
) -> AsyncIterator[bytes]:
    looked = deps.clock.monotonic()
    async for part in parts:
        if deps.clock.monotonic() - looked >= LOOK_AGAIN:
            await _look_again(deps, speaker, who, parked=parked)
            looked = deps.clock.monotonic()
        yield part


async def _look_again(deps: Deps, speaker: Speaker, who: Admitted, *, parked: bool = False) -> None:
    """Raises Withdrawn where the box may not go on. `parked`: one that is parked may."""
    async with deps.db.look() as tx:
        standing = await store.standing(tx, speaker)
        if standing is not None and parked and standing.state == "parked":
            standing = replace(standing, state="running")
        found = await _judged(tx, standing) if standing is not None else refusals.box_over(who.name)
        if isinstance(found, Admitted) and found.repo.forge == "github":
            found = found if await logins.of_user(tx, who.owner) is not None else logins_refusals.no_login()
    if isinstance(found, Refusal):
        raise Withdrawn(found)


async def _rules(deps: Deps, who: Admitted) -> Rules:
    """Where the repository's boxes may not push, as it is at this moment."""
    async with deps.db.look() as tx:
        repo = await repos.repo_by_id(tx, who.repo.id) or who.repo
        watched = await repos.watched_refs(tx, repo.id)
        branches = (await repos.branches_of(tx, [repo.id])).get(repo.id, [])
    default = repo.default_branch or (main_of(branches) if branches and repo.forge == "local" else None)
    return Rules(repo.full, default, frozenset(watched), repo.push_default, repo.push_watched)


@asynccontextmanager
async def _origin(
    deps: Deps, who: Admitted, asked: Asked, body: AsyncIterator[bytes], before: Before | None = None
) -> AsyncIterator[Answer | Refusal]:
    """The forge's answer to one request of git's; its beginning has come, so what failed at once is a refusal.

    `before` is done when all is there that the request needs, and before anything of it goes to the forge.
    """
    if who.repo.forge == "github":
        async with _github(deps, who, asked, body, before) as answer:
            yield answer
        return
    if before is not None:
        await before()
    async with aclosing(_session(deps, who, asked, body)) as parts:
        try:
            first = await anext(parts, b"")
        except ForgeError as error:
            yield refusals.origin_failed(who.repo.full, masked(error.reason))
            return
        yield Answer(200, _type(asked), joined(first, parts))


async def _session(deps: Deps, who: Admitted, asked: Asked, body: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """One request of git's to a plain git origin, by a session of the forge's."""
    repo = who.repo
    part: Part = "refs" if asked.refs else "rpc"
    session = await deps.forge.open(
        repos.mirror_path(deps, repo.id), repo.url, asked.service, part, asked.version,
        await origins.access_of(deps, repo),
    )  # fmt: skip
    feeding = asyncio.create_task(_feed(deps, session, body), name="feed")
    try:
        while (part_of := await deps.forge.drain(session)) is not None:
            if feeding.done():
                feeding.result()  # raises what kept the body from coming
            if part_of:
                yield part_of
    finally:
        feeding.cancel()
        await asyncio.gather(feeding, return_exceptions=True)
        await deps.forge.close(session)


async def _feed(deps: Deps, session: str, body: AsyncIterator[bytes]) -> None:
    async for part in body:
        for start in range(0, len(part), FEED_BYTES):
            await deps.forge.feed(session, part[start : start + FEED_BYTES], False)
    await deps.forge.feed(session, b"", True)


@asynccontextmanager
async def _github(
    deps: Deps, who: Admitted, asked: Asked, body: AsyncIterator[bytes], before: Before | None
) -> AsyncIterator[Answer | Refusal]:
    """One request of git's to GitHub, as the person."""
    person = await logins.person_token(deps, who.owner)
    if isinstance(person, Refusal):
        yield person
        return
    if before is not None:
        await before()
    address = f"{deps.settings.github.url}/{who.repo.full}.git"
    service = f"git-{asked.service}"
    headers = {"Authorization": basic("x-access-token", person.token), "User-Agent": "git/2 (Rift)"}
    if asked.version:
        headers["Git-Protocol"] = f"version={asked.version}"
    if asked.refs:
        asking = deps.carrier.carry("GET", f"{address}/info/refs?service={service}", headers)
    else:
        headers |= {"Content-Type": f"application/x-{service}-request", "Accept": f"application/x-{service}-result"}
        asking = deps.carrier.carry("POST", f"{address}/{service}", headers, body)
    answered = False
    try:
        async with asking as carried:
            answered = True
            # 200, and nothing but git's own: what else a host may answer is shown, and never handed on as git's.
            if carried.status == 200 and carried.headers.get("content-type", "") == _type(asked):
                yield Answer(200, _type(asked), carried.parts)
                return
            said = await beginning(carried.parts, SAID_BYTES)
            over = await logins.check_token(deps, who.owner, person.token) if carried.status == 401 else None
            yield over or unlike(who, person.login, carried.status, said)
    except CarrierError as error:
        if answered:
            raise
        yield refusals.origin_failed(who.repo.full, error.reason)


async def _read(body: AsyncIterator[bytes]) -> ReadPush | None:
    """The push that a body begins with; None where it asks for nothing. Raises BadRequest."""
    packets = Packets()
    lines = await section(packets, body)
    if not lines:
        return None
    asked, words, shallow = read_push(lines)
    if not asked.updates:
        raise BadRequest("it names no ref")
    options: list[bytes] = []
    if "push-options" in asked.able:
        options = await section(packets, body)
        if len(options) > OPTIONS_MOST:
            raise BadRequest(f"a push has at most {OPTIONS_MOST} options")
    start = packets.rest
    while len(start) < 4 and (part := await anext(body, b"")):
        start += part
    if start[:4] != (b"PACK" if asked.brings else b""):
        raise BadRequest("after its refs comes something else than a pack")
    return ReadPush(asked, words, shallow, options, joined(start, body))


def _refused(asked: Asked, refused: Push, reasons: Mapping[str, str], refusal: Refusal) -> Answer:
    return _whole("receive-pack", refused_push(refused, reasons, asked.say(refusal)))


def _whole(service: str, body: bytes) -> Answer:
    return Answer(200, f"application/x-git-{service}-result", once(body), len(body))


def _type(asked: Asked) -> str:
    return f"application/x-git-{asked.service}-{'advertisement' if asked.refs else 'result'}"
