"""How a command stands and which bytes of its output an answer gives, from plain values."""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from keel.refusal import Refusal
from rift.commands import refusals
from rift.commands.model import Answer, Author, Command, CommandId, End, Piece, Report, Told, Work
from rift.names import COMMAND_BYTES, OUTPUT_BYTES, WRITE_BYTES

REPLACEMENT = "\ufffd"
LOST = "lost: the box's agent is silent; the command may have run in part, and goes on if the agent comes back"
CHECKOUT_DEPTH = 3
"""How many folders stand between the jail's root and where a command starts: /home/dev/<repository>."""


def _one_for_each_byte(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)  # the handler is named by decode() alone
    return REPLACEMENT * (error.end - error.start), error.end


codecs.register_error("rift.bytewise", _one_for_each_byte)


@dataclass(frozen=True, slots=True)
class Tail:
    """The control plane has these bytes itself."""

    data: bytes


@dataclass(frozen=True, slots=True)
class AskBox:
    """Only the box has these bytes."""


Reach = Literal["awake", "parked", "silent", "gone"]
"""Whether the box can be asked for bytes now."""


def outcome(end: End) -> str:
    """A word of a closed list for how a command ended, for counting."""
    if not end.ran:
        return "unrun"
    for word, begins in (("timeout", "timeout:"), ("stopped", "stopped by"), ("killed", "killed by")):
        if end.reason is not None and end.reason.startswith(begins):
            return word
    return "no_exit" if end.exit is None else "ok" if end.exit == 0 else "failed"


def decide_times(told: Sequence[float], claimed: datetime, now: datetime) -> list[datetime]:
    """An agent's times as instants that can be: in order, none before its command was claimed or after now."""
    times, least = [], claimed
    for seconds in told:
        at = claimed + timedelta(seconds=min(max(seconds - claimed.timestamp(), 0.0), 10**6))
        least = max(least, min(at, now))
        times.append(least)
    return times


def decide_report(id: CommandId, command: Command | None, silent: bool) -> Report:
    """How a command stands. `silent`: its box's agent has not been heard for 60 s."""
    if command is None:
        return Report(str(id), "did not run", "Rift has no record of this command", None, False)
    if command.state == "finished":
        return Report(str(id), "finished", command.reason, command.exit, True)
    if command.state == "unrun":
        return Report(str(id), "did not run", command.reason, None, True)
    if command.state == "lost":
        return Report(str(id), "has not finished", command.reason, None, True)
    if command.state == "claimed" and silent:
        return Report(str(id), "has not finished", LOST, None, True)
    reason = "waiting to start" if command.state == "queued" else "running"
    if command.stop_wanted:
        reason += "; a stop is requested"
    return Report(str(id), "has not finished", reason, None, False)


def decide_ids(wanted: Sequence[tuple[str, int]]) -> list[tuple[CommandId, int]] | Refusal:
    """The commands that are wanted, each from its offset: ids that can be read, each once, all of one box."""
    parsed: list[tuple[CommandId, int]] = []
    for text, offset in wanted:
        id = CommandId.parse(text)
        if id is None:
            return refusals.bad_id(text)
        if id in (other for other, _ in parsed):
            return refusals.twice(str(id))
        parsed.append((id, offset))
    count = len({id.box for id, _ in parsed})
    return refusals.several_boxes([str(id) for id, _ in parsed], count) if count > 1 else parsed


def decide_work(owned: Sequence[Mapping[str, Any]], asks: Sequence[dict[str, object]], told: Told, host: str) -> Work:
    """What an agent is told beyond what it was `told` already. `owned` are the rows of `store.claim`, at least one;
    `host` is GitHub's.
    """
    new, stops = [], []
    for row in owned:
        n = row["n"]
        if n is None:
            continue
        if not row["stop_wanted"]:
            new += [_for_agent(row)] if n not in told.known else []
        elif n not in told.stopping:
            stops.append(n)
    power = (owned[0]["epoch"], owned[0]["state"] == "parked")
    unanswered = tuple(ask for ask in asks if ask["id"] not in told.answering)
    author = decide_author(owned[0]["owner"], host) if new else None
    news = author if author != told.author else None
    return Work(tuple(new), tuple(stops), unanswered, power, owned[0]["secrets"], news)


def decide_author(owner: Mapping[str, Any] | None, host: str) -> Author | None:
    """Whose a box's commits are: its task's owner's, at GitHub by the address that hides theirs and that GitHub knows.

    None where the box is in no task.
    """
    if owner is None:
        return None
    if owner["login"] is not None:
        return Author(owner["login"], f"{owner['id']}+{owner['login']}@users.noreply.{host}")
    return Author(owner["email"].partition("@")[0], owner["email"])


def _for_agent(row: Mapping[str, Any]) -> dict[str, object]:
    told = {"n": row["n"], "kind": row["kind"], "timeout": row["timeout"]}
    if row["trace"] is not None:
        told["trace"] = row["trace"]
    if row["kind"] == "bash":
        told["command"] = row["input"] if row["content"] is None else row["content"]
    else:
        told["path"] = row["input"]
    if row["kind"] == "write":
        told["content"] = row["content"] or ""
    return told


def decide_reach(command: Command, now: datetime) -> Reach:
    """Whether the box of a command, as it stood at that moment, can be asked for bytes."""
    if command.box_state == "parked":
        return "parked"
    if command.box_state not in ("starting", "running"):
        return "gone"
    return "silent" if command.silent(now) else "awake"


def decide_bytes(command: Command, offset: int, reach: Reach) -> Tail | AskBox | Piece | Refusal:
    """Where the bytes from `offset` come from. A Piece when there are none, or none that can be had."""
    if command.state in ("queued", "unrun"):
        return refusals.past_end(str(command.id), offset, 0) if offset else Piece("", 0, 0)
    size = command.size
    if size is not None and offset > size:
        return refusals.past_end(str(command.id), offset, size)
    if size is not None and offset == size:
        return Piece("", offset, size)
    if size is not None and command.tail is not None and offset >= size - len(command.tail):
        return Tail(command.tail[offset - (size - len(command.tail)) :])
    if reach == "awake":
        return AskBox()
    return _without_the_box(command, offset, reach)


def _without_the_box(command: Command, offset: int, why: Literal["parked", "silent", "gone"]) -> Piece:
    if command.size is None:
        return Piece("", offset, offset, None, why)
    kept = command.tail or b""
    start = command.size - len(kept)
    text, used = cut(kept, ended=True)
    return Piece(text, start + used, command.size, (offset, start), why)


def share(commands: int) -> int:
    """How many bytes each of so many commands gets in one answer."""
    return OUTPUT_BYTES // commands


def cut(data: bytes, *, ended: bool) -> tuple[str, int]:
    """Decode what can be decoded; the text, and how many bytes it stands for.

    A byte that is not UTF-8 shows as U+FFFD and counts as one byte. An incomplete last character is left for later,
    unless the output `ended` with it: then each of its bytes is U+FFFD.
    """
    keep = len(data) if ended else len(data) - unfinished(data)
    return data[:keep].decode("utf-8", "rift.bytewise"), keep


def unfinished(data: bytes) -> int:
    """How many bytes at the end are the beginning of a character whose rest is missing: 0 to 3."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte & 0b1100_0000 == 0b1000_0000:
            continue  # a continuation byte: its character begins further back
        need = 4 if 0xF0 <= byte <= 0xF4 else 3 if 0xE0 <= byte <= 0xEF else 2 if 0xC2 <= byte <= 0xDF else 1
        return back if need > back and _may_begin(data[-back:]) else 0
    return 0


def _may_begin(data: bytes) -> bool:
    """Whether some bytes could follow to make these a valid character."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"
    return False


def decide_piece(offset: int, first: int, size: int, data: bytes, at_most: int, ended: bool) -> Piece:
    """What an answer gives of bytes that start at `first` (later than `offset` where the oldest were dropped)."""
    data = data[:at_most]
    last = first + len(data) >= size
    text, used = cut(data, ended=ended and last)
    lacking = (offset, first) if first > offset else None
    if used == 0 and data and not last:  # a piece too small for its first character: give its bytes as they are
        text, used = cut(data, ended=True)
    return Piece(text, first + used, size, lacking, "gone" if lacking else None)


def decide_text(tool: str, argument: str, text: str, most: int) -> Refusal | None:
    """Whether a text can be carried into a box: no NUL, UTF-8, not too long."""
    if "\0" in text:
        return refusals.nul(tool, argument)
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return refusals.not_text(tool, argument)
    return refusals.too_long(tool, argument, size, most) if size > most else None


def decide_input(tool: str, input: str, content: str | None) -> Refusal | None:
    """Whether a command, or a path and a content, may be queued."""
    argument, most = ("command", COMMAND_BYTES) if tool == "rift_bash" else ("path", 4096)
    if not input.strip():
        return refusals.empty(tool, argument)
    problem = decide_text(tool, argument, input, most)
    if problem is None and content is not None:
        problem = decide_text(tool, "content", content, WRITE_BYTES)
    if problem is None and tool != "rift_bash" and climbs(input):
        problem = refusals.climbs()
    return problem


def climbs(path: str) -> bool:
    """Whether a path goes above the jail's root, by its own words, from where a command starts."""
    depth = 0 if path.startswith("/") else CHECKOUT_DEPTH
    for part in path.split("/"):
        depth += -1 if part == ".." else 0 if part in ("", ".") else 1
        if depth < 0:
            return True
    return False


def decide_next(answers: list[Answer]) -> list[tuple[str, int]]:
    """The commands that a next rift_output waits on or reads on, each from its next offset."""
    return [
        (answer.report.id, answer.piece.next_offset)
        for answer in answers
        if answer.unread or (answer.report.status == "has not finished" and not answer.report.ended)
    ]
