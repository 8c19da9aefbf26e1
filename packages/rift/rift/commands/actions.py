"""What is done with commands: run one, wait and read, stop. Each answers within one budget of time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from keel.db import Tx
from keel.refusal import Refusal
from keel.signals import Subscription
from keel.sizes import MIB
from keel.telemetry import tracing
from rift import meters
from rift.audit import Act, audited, refuse
from rift.boxes import actions as boxes
from rift.boxes.actions import Progress
from rift.boxes.decide import decide_command
from rift.boxes.refusals import full
from rift.commands import refusals, store
from rift.commands.decide import (
    Tail,
    decide_bytes,
    decide_ids,
    decide_input,
    decide_piece,
    decide_reach,
    decide_report,
    decide_times,
    decide_work,
    outcome,
    share,
)
from rift.commands.model import Answer, Command, CommandId, End, Ended, Handed, Kind, Piece, Report, Told, Work
from rift.deadline import Deadline
from rift.deps import Deps
from rift.names import AGENT, COMMANDS_KEPT, FILE_SECONDS, TAKE_WITHIN
from rift.secrets import actions as secrets

ASK_SECONDS = 5.0
"""How long a box's agent has to hand over bytes."""
STOP_SECONDS = 10.0
"""How long rift_stop waits for the end: TERM, 5 s, KILL, and the way back."""
HEARD_EVERY = timedelta(seconds=5)
"""An agent that says nothing new is noted this often."""
FORGOTTEN_AT_ONCE = 1000
STOPPED_EARLY = "stopped by rift_stop before it started"
FAR = 2**62
"""An offset past the end of anything, which the database can still hold."""
IMAGE_BYTES = MIB
"""The largest image that rift_read gives."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to run: a shell text, or a file to read or write."""

    kind: Kind
    input: str
    timeout: int = FILE_SECONDS
    content: str | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """Some commands of one box, as they stood at one moment."""

    commands: dict[int, Command]
    at: datetime

    def report(self, id: CommandId) -> Report:
        """How one of them stood."""
        command = self.commands.get(id.n)
        return decide_report(id, command, command is not None and command.silent(self.at))


async def run(
    deps: Deps,
    act: Act,
    deadline: Deadline,
    task: str,
    vm: str,
    wanted: Wanted,
    block_for: float,
    progress: Progress,
) -> Answer | Refusal:
    """Queue a command and wait for its end, at most `block_for` seconds. Source: rift_bash, rift_read, rift_write.

    The command runs until it ends, whether or not the call still waits for it. A parked box resumes.
    """
    problem = decide_input(act.tool, wanted.input, wanted.content)
    if problem is not None:
        return await refuse(deps, act, problem)
    place = tracing.here()
    with ExitStack() as heard:
        async with audited(deps, act) as (tx, row):
            box = await boxes.reach(tx, deps, row, act.caller, task, vm)
            if isinstance(box, Refusal):
                row.hide = await secrets.hiding_in(tx, deps, row.task) if row.task else None
                return row.said(box)
            row.hide = await secrets.hiding(tx, deps, box.repo) if box.secrets_version else None
            decision = decide_command(box)
            if isinstance(decision, Refusal):
                return row.said(decision)
            n, now = box.next_command, deps.clock.now()
            if not await store.insert(
                tx,
                box.id,
                n,
                *_stored(wanted, row.hide),
                wanted.timeout,
                now,
                decision.wake,
                place,
            ):
                return row.said(full(box, await boxes.open_commands(tx, box.id)))
            signal = heard.enter_context(_hear(deps, box.id, [n]))
        if decision.wake:
            await boxes.apply_power(deps, box.id)
        limit = deadline.sooner(block_for)
        await signal.wait(limit.left())  # it cannot have ended before it was queued: the first look comes after
        seen = await _until_one_ended(deps, box.id, [n], signal, limit, progress)
    answers = await _answers(deps, seen, [(CommandId(box.id, n), 0)], deadline)
    return answers if isinstance(answers, Refusal) else answers[0]


async def output(
    deps: Deps,
    act: Act,
    deadline: Deadline,
    task: str,
    wanted: Sequence[tuple[str, int]],
    block_for: float,
    progress: Progress,
) -> list[Answer] | Refusal:
    """Wait for the first of 1 to 4 commands of one box to end, then give each one's output. Source: rift_output."""
    parsed = decide_ids(wanted)
    if isinstance(parsed, Refusal):
        return await refuse(deps, act, parsed)
    async with audited(deps, act) as (tx, row):
        box = await boxes.reach(tx, deps, row, act.caller, task, parsed[0][0].box)
        if isinstance(box, Refusal):
            return row.said(refusals.bad_id(wanted[0][0]) if box.code == "vm_unknown" else box)
        numbers = [id.n for id, _ in parsed]
        known = await store.find(tx, box.id, numbers)
        for id, offset in parsed:  # what is past the end already is refused before the call waits
            source = decide_bytes(known[id.n], offset, "gone") if id.n in known else None
            if isinstance(source, Refusal):
                return row.said(source)
        await boxes.use(tx, deps, box)
    with _hear(deps, box.id, numbers) as signal:
        seen = await _until_one_ended(deps, box.id, numbers, signal, deadline.sooner(block_for), progress)
    return await _answers(deps, seen, parsed, deadline)


async def stop(deps: Deps, act: Act, deadline: Deadline, task: str, id: str, progress: Progress) -> Answer | Refusal:
    """Stop a command: one that has not started does not run, one that runs is killed. Source: rift_stop.

    The answer gives its end, or says that the stop is requested. It carries no output: rift_output reads it.
    """
    parsed = CommandId.parse(id)
    if parsed is None:
        return await refuse(deps, act, refusals.bad_id(id))
    async with audited(deps, act) as (tx, row):
        box = await boxes.reach(tx, deps, row, act.caller, task, parsed.box)
        if isinstance(box, Refusal):
            return row.said(refusals.bad_id(id) if box.code == "vm_unknown" else box)
        await boxes.use(tx, deps, box)
        command = await store.find_locked(tx, box.id, parsed.n)
        if command is not None and command.state == "queued":
            await store.never_run(tx, box.id, parsed.n, STOPPED_EARLY, deps.clock.now())
            await tx.notify(f"command:{parsed}")
        elif command is not None and command.state == "claimed":
            await store.want_stop(tx, box.id, parsed.n)
            await tx.notify(f"agent:{box.id}")
    with _hear(deps, box.id, [parsed.n]) as signal:
        seen = await _until_one_ended(deps, box.id, [parsed.n], signal, deadline.sooner(STOP_SECONDS), progress)
    command = seen.commands.get(parsed.n)
    report = seen.report(parsed)
    return Answer(report, Piece("", 0, (command.size if command else 0) or 0), command.kind if command else "bash")


async def news(
    tx: Tx, deps: Deps, box: str, incarnation: int, token: bytes, told: Told
) -> tuple[tuple[int, bool], bool] | None:
    """Whether there may be something to tell a box's agent, cheaply: its power, and that. None when it is over."""
    found = await store.news(tx, box, incarnation, token, told, deps.clock.now() - HEARD_EVERY)
    return ((found[1], found[0] == "parked"), found[2]) if found else None


async def claim(tx: Tx, deps: Deps, box: str, incarnation: int, token: bytes, told: Told) -> Work | None:
    """Give a box's waiting commands to its agent; everything that the agent has to be told. None when it is over.

    A command that is to stop before its agent heard of it is told as a stop alone: the agent, which knows what it has
    started, answers that it never ran.
    """
    now = deps.clock.now()
    rows = await store.claim(tx, box, incarnation, token, now - TAKE_WITHIN, now)
    if not rows:
        return None
    asks = await store.asked(tx, box) if rows[0]["asked"] else []
    return decide_work(rows, asks, told, urlsplit(deps.settings.github.url).hostname or "")


async def ended(tx: Tx, deps: Deps, box: str, incarnation: int, token: bytes, end: End) -> bool:
    """An agent tells a command's end; the first telling counts. False when that agent is over."""
    done = await store.finish(tx, box, incarnation, token, end, deps.clock.now())
    if isinstance(done, Ended):
        _trace(done, CommandId(box, done.n), end, deps.clock.now())
        meters.COMMANDS.labels(done.kind, outcome(end)).inc()
        meters.QUEUED_SECONDS.labels(done.kind).observe((done.claimed_at - done.created_at).total_seconds())
    return bool(done)


def _trace(done: Ended, id: CommandId, end: End, now: datetime) -> None:
    """What happened to a command since its call, as spans: the queue's, and its agent's on the agent's behalf."""
    call = tracing.parse(done.trace)
    if call is None or not tracing.on():
        return
    tracing.past("", "queue", call, done.created_at, done.claimed_at, command=str(id), command_kind=done.kind)
    times = decide_times(end.times, done.claimed_at, now)
    if times:
        how = {"command": str(id), "command_kind": done.kind, "outcome": outcome(end), "exit": end.exit}
        facts = {name: fact for name, fact in how.items() if fact is not None}
        agent = tracing.past(AGENT, "command", call, times[0], times[-1], **facts)
        for name, since, until in zip(("start", "run"), times, times[1:], strict=False):
            tracing.past(AGENT, name, agent, since, until, command=str(id))
        tracing.past(AGENT, "report", call, times[-1], now, command=str(id))


async def answered(tx: Tx, id: str, box: str, first: int, size: int | None, data: bytes) -> None:
    """An agent hands over bytes that a call asked for."""
    if await store.answer(tx, id, box, first, size, data):
        await tx.notify(f"ask:{id}")


async def expire(deps: Deps) -> None:
    """Upkeep: end the commands that no agent took within 10 minutes, and forget questions nobody waits for."""
    now = deps.clock.now()
    async with deps.db.tx() as tx:
        reason = "no agent took it within 10 minutes"
        for box, n in await store.expire(tx, now - TAKE_WITHIN, reason, now):
            await tx.notify(f"command:{CommandId(box, n)}")
        await store.forget_asks(tx, now - TAKE_WITHIN)


async def erase_texts(tx: Tx, task: str, boxes: Sequence[str] | None = None) -> int:
    """Erase the shell texts of a task's commands that have ended, or of those of these boxes; how many."""
    return await store.erase_texts(tx, task, boxes)


async def forget(deps: Deps) -> int:
    """Upkeep: the commands of a task go some time after it was closed. How many went."""
    async with deps.db.tx() as tx:
        return await store.forget(tx, deps.clock.now() - COMMANDS_KEPT, FORGOTTEN_AT_ONCE)


def _stored(wanted: Wanted, hide: Callable[[str], str] | None) -> tuple[Kind, str, str | None]:
    """A command's kind, its input and its content. A shell text with a secret in it is shown without, and kept whole,
    for its agent, only until it has ended, as what goes into a file is.
    """
    if wanted.kind != "bash" or hide is None or (shown := hide(wanted.input)) == wanted.input:
        return wanted.kind, wanted.input, wanted.content
    return wanted.kind, shown, wanted.input


def _hear(deps: Deps, box: str, numbers: Sequence[int]) -> AbstractContextManager[Subscription]:
    return deps.signals.on(f"box:{box}", *(f"command:{CommandId(box, n)}" for n in numbers))


@tracing.spanned("wait")
async def _until_one_ended(
    deps: Deps, box: str, numbers: Sequence[int], signal: Subscription, deadline: Deadline, progress: Progress
) -> Seen:
    """Wait for the first of some commands to end; how all of them stand then, or when the time is over."""
    certain = False
    seen = None
    while True:
        if seen is None or not certain or deadline.left() <= 0 or signal.closing:
            seen = await _look(deps, box, numbers)
        reports = [seen.report(CommandId(box, n)) for n in numbers]
        over = deadline.left() <= 0 or signal.closing
        if over or any(report.ended or report.status == "did not run" for report in reports):
            return seen
        notified, sure = await signal.wait_surely(deadline.left())
        certain = sure and not notified
        await progress("; ".join(f"{report.id} {report.status}" for report in reports))


async def _answers(
    deps: Deps, seen: Seen, wanted: list[tuple[CommandId, int]], deadline: Deadline
) -> list[Answer] | Refusal:
    found = seen.commands
    at_most = share(len(wanted))
    pieces = await asyncio.gather(*(_piece(deps, found.get(id.n), offset, at_most, deadline) for id, offset in wanted))
    answers = []
    for (id, _), (piece, image) in zip(wanted, pieces, strict=True):
        if isinstance(piece, Refusal):
            return piece
        command = found.get(id.n)
        report = seen.report(id)
        if command is None:
            answers.append(Answer(report, piece))
        else:
            answers.append(Answer(report, piece, command.kind, command.input, command.media, image))
    return answers


async def _piece(
    deps: Deps, command: Command | None, offset: int, at_most: int, deadline: Deadline
) -> tuple[Piece | Refusal, bytes | None]:
    """The piece of one command's output, and the whole image where its output is one."""
    if command is None:
        return Piece("", 0, 0), None
    source = decide_bytes(command, offset, decide_reach(command, deps.clock.now()))
    if command.media is not None and not isinstance(source, Refusal) and offset != command.size:
        return await _picture(deps, command, deadline)
    if isinstance(source, Piece | Refusal):
        return source, None
    if isinstance(source, Tail):
        return decide_piece(offset, offset, command.size or 0, source.data, at_most, ended=True), None
    answer = await _ask(deps, command, offset, at_most, deadline)
    if answer is None:
        return Piece("", offset, command.size or offset, None, "silent"), None
    if answer.size is None:
        return Piece("", offset, command.size or offset, None, "gone"), None
    if offset > answer.size:
        return refusals.past_end(str(command.id), offset, answer.size), None
    first = max(answer.first, offset)
    return decide_piece(offset, first, answer.size, answer.data, at_most, command.ended), None


async def _picture(deps: Deps, command: Command, deadline: Deadline) -> tuple[Piece, bytes | None]:
    """A picture, whole or not at all: from its tail if that is all of it, else from the box."""
    size, tail, reach = command.size or 0, command.tail or b"", decide_reach(command, deps.clock.now())
    if len(tail) == size:
        return Piece("", size, size), tail
    if reach == "awake":
        answer = await _ask(deps, command, 0, IMAGE_BYTES, deadline)
        if answer is not None and len(answer.data) == size:
            return Piece("", size, size), answer.data
        return Piece("", 0, size, (0, size), "silent" if answer is None else "gone"), None
    return Piece("", 0, size, (0, size), reach), None


async def _ask(deps: Deps, command: Command, offset: int, at_most: int, deadline: Deadline) -> Handed | None:
    """Ask the box's agent for bytes; None when it did not answer in time."""
    id = deps.ids.hex(24)
    limit = deadline.sooner(ASK_SECONDS)
    with deps.signals.on(f"ask:{id}") as signal:
        async with deps.db.tx() as tx:
            await store.ask(tx, id, command.box, command.n, min(offset, FAR), at_most, deps.clock.now())
            await tx.notify(f"agent:{command.box}")
        while True:
            async with deps.db.tx() as tx:
                answer = await store.take_answer(tx, id)
            if answer is not None or limit.left() <= 0 or signal.closing:
                return answer
            await signal.wait(limit.left())


async def _look(deps: Deps, box: str, numbers: Sequence[int]) -> Seen:
    async with deps.db.look(f"look:{box}") as tx:  # of a thousand that wait for one end each looks in its turn
        return Seen(await store.find(tx, box, numbers), deps.clock.now())
