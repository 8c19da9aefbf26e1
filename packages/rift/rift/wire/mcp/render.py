"""Words for a model to read: status first, then output, then the exact next call. Pure.

A structured answer says what its text says, because a client shows the model one of the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from keel.refusal import Call
from rift.boxes.model import Box, BoxLine, OpenCommand
from rift.commands.decide import decide_next
from rift.commands.model import Answer as CommandAnswer
from rift.commands.model import Piece, Report
from rift.commands.refusals import reading
from rift.people.model import Membership
from rift.repos.decide import why_closed
from rift.repos.model import Account, Repo, RepoView, Watch
from rift.times import age, rfc3339, when
from rift.wire.mcp.tool import Answer, Image

PERSISTS = (
    "Files under the checkout, the home and /tmp persist for the VM's life; processes persist between commands and, "
    "as a rule, through parking; variables and the working directory of one command do not reach the next."
)
"""What persists on a VM (contract: Boxes, rift_bash)."""

WAIT_SECONDS = 30
"""The `block_for` of the calls that an answer suggests."""
INPUT_CHARACTERS = 80
DO_NOT_REPEAT = "Do not send the command again."


def quoted(text: str) -> str:
    """A person's words inside a line."""
    return '"' + text.replace('"', "'") + '"'


def org_name(place: Membership) -> str:
    """An organization's name inside a line: a team's was chosen by a person."""
    return place.name if place.personal else quoted(place.name)


def next_line(call: Call) -> str:
    """The exact next call, on the last line of an answer."""
    return f"next: {call.text}"


def lines(*parts: str | None) -> str:
    """The parts that there are, each on lines of its own."""
    return "\n".join(part for part in parts if part)


# Boxes


def box_line(box: Box) -> str:
    """A VM on one line: id, name, status, repository, ref, commit."""
    return f"{box.id} {box.name}: {box.state}, {box.repository} at {box.ref}, commit {box.commit}"


def box_value(box: Box) -> dict[str, Any]:
    """A VM as structured answers carry it."""
    return {
        "id": box.id,
        "name": box.name,
        "status": box.state,
        "repository": box.repository,
        "ref": box.ref,
        "commit": box.commit,
    }


def box_lines(line: BoxLine, now: datetime) -> str:
    """A VM in rift_vm_ls: its line, why it failed, what its checkout lacks, and its open commands."""
    failure = f"  why: {line.box.failure}" if line.box.failure else None
    doing = f"  {line.box.doing}" if line.box.doing else None
    lacks = f"  {line.box.lacks}" if line.box.lacks else None
    return lines(box_line(line.box), doing, failure, lacks, *(f"  {open_line(one, now)}" for one in line.open))


def box_line_value(line: BoxLine) -> dict[str, Any]:
    """The same, structured."""
    commands = [
        {
            "id": one.id,
            "kind": one.kind,
            "input": shortened(one.input),
            "started": one.claimed,
            "at": rfc3339(one.created_at),
        }
        for one in line.open
    ]
    return {
        **box_value(line.box),
        "doing": line.box.doing or None,
        "failure": line.box.failure,
        "lacks": line.box.lacks or None,
        "open_commands": commands,
    }


def open_line(command: OpenCommand, now: datetime) -> str:
    """An open command: its id, whether it runs, since when, and how it begins."""
    state = "running" if command.claimed else "waiting to start"
    return (
        f"command {command.id}: {state}, sent {age(command.created_at, now)}, {command.kind} {shortened(command.input)}"
    )


def shortened(text: str) -> str:
    """The beginning of a command or a path, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= INPUT_CHARACTERS else line[:INPUT_CHARACTERS] + "…"


# Commands


def status_line(report: Report, reason: str | None) -> str:
    """How a command stands, on one line: the status, its exit code, the reason."""
    exit = f", exit {report.exit}" if report.exit is not None else ""
    return f"{report.status}{exit}" + (f": {reason}" if reason else "")


def reason_of(answer: CommandAnswer) -> str | None:
    """Why it stands so; for a picture, where it is."""
    if answer.media is None:
        return answer.report.reason
    return f"an image, {answer.media}, " + ("beside this text" if answer.image is not None else "which rift_read gives")


def open_still(report: Report) -> bool:
    """Whether a later call can find more of this command: it waits, runs, or may come back."""
    return report.status == "has not finished"


def next_call(answers: Sequence[CommandAnswer]) -> Call | None:
    """The rift_output call that waits on what is open and reads what remains; None when all is ended and read."""
    wanted = decide_next(list(answers))
    if not wanted and len(answers) == 1 and open_still(answers[0].report):
        wanted = [(answers[0].report.id, answers[0].piece.next_offset)]  # lost, and its agent may come back
    if not wanted:
        return None
    named = {id for id, _ in wanted}
    waits = any(open_still(answer.report) for answer in answers if answer.report.id in named)
    return reading(wanted, WAIT_SECONDS if waits else 0)


def command_answer(answer: CommandAnswer, otherwise: Call | None = None) -> Answer:
    """One command's answer, for the five command tools. `otherwise` is the next call where nothing is left to read."""
    call = next_call([answer]) or otherwise
    text = lines(command_text(answer), next_line(call) if call else None)
    structured = {**command_value(answer), "next": call.text if call else None}
    return Answer(text, structured, _images(answer))


def commands_answer(answers: Sequence[CommandAnswer]) -> Answer:
    """The answer of rift_output: flat for one command, a list and the ended ones for several."""
    if len(answers) == 1:
        return command_answer(answers[0])
    call = next_call(answers)
    blocks = [command_text(answer) for answer in answers]
    return Answer(
        lines(*blocks, next_line(call) if call else None),
        {
            "commands": [command_value(answer) for answer in answers],
            "ended": [answer.report.id for answer in answers if answer.report.ended],
            "next": call.text if call else None,
        },
        tuple(image for answer in answers for image in _images(answer)),
    )


def command_text(answer: CommandAnswer) -> str:
    """A command in an answer's text: its status, its id and offsets, then its output as it is."""
    report, piece = answer.report, answer.piece
    head = f"command {report.id}: next_offset {piece.next_offset}, size {piece.size}"
    warning = DO_NOT_REPEAT if open_still(report) else None
    output = f"output:\n{piece.output}".removesuffix("\n") if piece.output else None
    return lines(status_line(report, reason_of(answer)), head, warning, lacking_line(report.id, piece), output)


def command_value(answer: CommandAnswer) -> dict[str, Any]:
    """The contract's fields of one command."""
    report, piece = answer.report, answer.piece
    lacking = lacking_line(report.id, piece)
    reason = "; ".join(part for part in (reason_of(answer), lacking) if part) or None
    return {
        "status": report.status,
        "reason": reason,
        "command": report.id,
        "exit": report.exit,
        "output": piece.output,
        "next_offset": piece.next_offset,
        "size": piece.size,
    }


def lacking_line(id: str, piece: Piece) -> str | None:
    """Which bytes cannot be given now, and what they need."""
    if piece.why is None:
        return None
    part = piece.lacking
    which = f"bytes {part[0]} to {part[1]} of its output" if part else "its output"
    match piece.why:
        case "parked":
            wakes = f"a rift_bash, rift_read or rift_write on {id.rpartition('.')[0]} wakes it"
            return f"{which} {'need' if part else 'needs'} the VM awake: {wakes}"
        case "silent":
            return f"{which} cannot be read now, because the VM's agent is silent"
        case "gone":
            return f"{which} {'are' if part else 'is'} kept nowhere any more"


def _images(answer: CommandAnswer) -> tuple[Image, ...]:
    return (Image(answer.media, answer.image),) if answer.media and answer.image is not None else ()


# Repositories


NAMES_TOLD = 300
"""How many repositories without a watched ref a text names at most."""


def account_line(account: Account, now: datetime) -> str:
    """An account of GitHub's: enabled or not, how many repositories it gives, and what keeps it from giving more."""
    stands = "enabled" if account.enabled else "not enabled"
    if account.suspended_at is not None:
        stands += ", suspended at GitHub"
    elif not account.enabled:
        stands += " (rift_github_enable, for admins)"
    listed = f"listed {age(account.covered_at, now)}" if account.covered_at else "not listed yet"
    return lines(
        f"  GitHub account {account.login}: {stands}, {account.covered} covered, {listed}",
        f"    its repositories could not be listed: {account.failure}" if account.failure else None,
        *(f"    cannot be had here: {one}" for one in account.untaken),
    )


def account_value(account: Account) -> dict[str, Any]:
    """The same, structured."""
    return {
        "login": account.login,
        "kind": account.kind,
        "enabled": account.enabled,
        "suspended": account.suspended_at is not None,
        "covered": account.covered,
        "listed_at": rfc3339(account.covered_at) if account.covered_at else None,
        "failure": account.failure,
        "cannot_be_had": account.untaken,
    }


def unwatched_line(found: Sequence[Repo]) -> str | None:
    """Repositories of GitHub's without a watched ref: there may be thousands, so their names alone, and not all."""
    if not found:
        return None
    names = [repo.full if repo.enabled else f"{repo.full} (not enabled)" for repo in found[:NAMES_TOLD]]
    more = f", and {len(found) - NAMES_TOLD} more" if len(found) > NAMES_TOLD else ""
    return f"  no ref watched: {', '.join(names)}{more}"


def repo_lines(view: RepoView, now: datetime) -> str:
    """A repository with its watched refs, each on a line."""
    head = f"  {view.repo.full} from {view.shown_url}" + ("" if view.watches else ": no watched refs")
    if why := why_closed(view.repo):
        head += f"; {why}, so it gives no VMs"
    unread = f"    its origin could not be read: {view.repo.failure}" if view.repo.failure else None
    return lines(head, unread, *(f"    {watch_line(watch, now)}" for watch in view.watches))


def watch_line(watch: Watch, now: datetime) -> str:
    """A watched ref: warm count, ready, head, and the last failure at the head, whole."""
    head = f"head {watch.head}" if watch.head else "no such branch now"
    line = f"{watch.ref}: warm {watch.warm}, ready {watch.ready}, {head}"
    if watch.failure is None:
        return line
    at = f" {when(watch.failure_at, now)}" if watch.failure_at else ""
    return f"{line}; failed{at}: {watch.failure}"


def repo_value(view: RepoView) -> dict[str, Any]:
    """The same, structured."""
    watched = [
        {
            "ref": watch.ref,
            "warm": watch.warm,
            "ready": watch.ready,
            "head": watch.head,
            "failure": watch.failure,
            "failed_at": rfc3339(watch.failure_at) if watch.failure_at else None,
        }
        for watch in view.watches
    ]
    return {
        "repository": view.repo.full,
        "account": view.repo.login,
        "url": view.shown_url,
        "enabled": view.repo.enabled,
        "open": view.repo.open,
        "archived": view.repo.archived,
        "failure": view.repo.failure,
        "watched": watched,
    }
