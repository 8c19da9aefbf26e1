"""Who may ask at the door, where a box may push, and how a push is refused in git's own words. Pure."""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from keel.refusal import Refusal
from rift.drivers.forge.packets import (
    COMMANDS_MOST,
    FLUSH,
    BadRequest,
    Packets,
    Push,
    Update,
    band,
    packet,
    plain_ref,
)
from rift.people.model import Membership
from rift.repos.model import Repo
from rift.verbs import refusals
from rift.verbs.model import Admitted, Rules, Standing

HEADS, TAGS = "refs/heads/", "refs/tags/"
RUNS = frozenset({"starting", "running"})
"""In which states a box's requests are taken: one that is being parked asks again when it is awake."""
REPORT_BYTES = 1 << 18
"""How much of an origin's answer to a push is kept, to learn what became of it."""
PIECE = 1 << 16
_COMMAND = re.compile(rb"([0-9a-f]{40}|[0-9a-f]{64}) ([0-9a-f]{40}|[0-9a-f]{64}) ([^\0 ]{1,1000})")
_SHALLOW = re.compile(rb"shallow ([0-9a-f]{40}|[0-9a-f]{64})")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,1000}(\x07|\x1b\\)|[@-Z\\-_])")


def decide_admit(standing: Standing, repo: Repo | None, member: Membership | None) -> Admitted | Refusal:
    """Whether a box may ask anything of its forge at this moment."""
    if standing.task is None or standing.owner is None or not standing.open or repo is None:
        return refusals.task_closed(standing)
    if standing.disabled:
        return refusals.put_out()
    if member is None:
        return refusals.not_member(repo.full)
    if standing.state not in RUNS:
        return refusals.not_running(standing)
    if not repo.open:
        return refusals.uncovered(repo, member.name)
    return Admitted(standing.box, standing.name, standing.task, standing.owner, repo, member.name)


def decide_repository(asked: str, admitted: Admitted, former: Collection[str] = ()) -> Refusal | None:
    """Whether the repository that is asked for is the box's own, by a `former` name too; a box reaches no other."""
    name = asked.removesuffix(".git")
    own = {one.lower() for one in (admitted.repo.full, *former)}
    return None if name.lower() in own else refusals.other_repository(admitted.repo.full, name)


def decide_push(updates: Iterable[Update], rules: Rules) -> dict[str, str]:
    """Why refs of a push may not be written, by their name; none: it may go on. A removal is a change like any other.

    Names are compared without regard to case: an origin on a file system that has none would take `Main` for `main`.
    """
    return {update.ref: reason for update in updates if (reason := _why_not(update.ref, rules)) is not None}


def _why_not(ref: str, rules: Rules) -> str | None:
    if not plain_ref(ref):
        return refusals.NO_BRANCH
    tag = ref.startswith(TAGS)
    name = ref.removeprefix(TAGS if tag else HEADS)
    if not tag and (name == "HEAD" or name.startswith("refs/")):
        return refusals.AMBIGUOUS
    if rules.default is None and not rules.push_default:
        return f"which branch of {rules.repository} is the default one is not known, so none may be pushed"
    kind = _guarded(name, rules)
    if kind is None:
        return None
    if tag:  # of a tag and a branch of one name git takes the tag (gitrevisions(7)), wherever that name is asked for
        return f"{kind}, and a tag of that name would be taken for it"
    return f"{kind}, and boxes of {rules.repository} may not push to it"


def _guarded(name: str, rules: Rules) -> str | None:
    """What a branch of this name is that boxes may not push to; None where they may."""
    folded = name.casefold()
    if not rules.push_default and rules.default is not None and folded == rules.default.casefold():
        return f"{rules.default} is the default branch"
    watched = next((one for one in rules.watched if one.casefold() == folded), None)
    if not rules.push_watched and watched is not None:
        return f"{watched} is a watched branch"
    return None


def read_push(lines: Sequence[bytes]) -> tuple[Push, bytes, list[bytes]]:
    """What the packets before a push's first flush ask for, what the client can, and its lines of a shallow checkout.

    Refs that no box may push are read too, so that they can be refused by their names. Raises BadRequest.
    """
    shallow = [line.rstrip(b"\n") for line in lines if line.startswith(b"shallow ")]
    if any(not _SHALLOW.fullmatch(line) for line in shallow):
        raise BadRequest("a line of a shallow checkout is not written as git writes it")
    commands = [line for line in lines if not line.startswith(b"shallow ")]
    if len(commands) > COMMANDS_MOST:
        raise BadRequest(f"a push has at most {COMMANDS_MOST} refs")
    words, updates = b"", {}
    for number, line in enumerate(commands):
        text, _, more = line.removesuffix(b"\n").partition(b"\0")
        words = more.strip() if number == 0 else words
        found = _COMMAND.fullmatch(text)
        if found is None or len(found[1]) != len(found[2]):
            raise BadRequest("a ref's update is not written as git writes it")
        try:
            ref = found[3].decode()
        except UnicodeDecodeError:
            raise BadRequest("a ref's name is not UTF-8") from None
        if ref in updates or not ref.isprintable():
            raise BadRequest("a ref is named twice, or by what is no name")
        updates[ref] = Update(ref, found[1].decode(), found[2].decode())
    if any(not 32 <= byte < 127 for byte in words):
        raise BadRequest("what the client can is not written as git writes it")
    return Push(tuple(updates.values()), frozenset(words.decode("ascii").split())), words, shallow


def refused_push(push: Push, reasons: Mapping[str, str], remarks: str) -> bytes:
    """What receive-pack answers to a push that is refused as a whole: each ref with its reason, and `remarks`, which
    git shows as `remote:` lines. Source: gitprotocol-pack(5), report-status.
    """
    lines = ["unpack ok"]
    lines += [f"ng {one.ref} {reasons.get(one.ref, 'another ref of this push is refused')}" for one in push.updates]
    told = b"".join(packet(line.encode() + b"\n") for line in lines) + FLUSH
    if not push.able & {"report-status", "report-status-v2"}:
        told = b""
    if "side-band-64k" not in push.able:
        return told
    said = "".join(f"{line}\n" for line in remarks.splitlines())
    return (band(2, said.encode()) if said else b"") + (band(1, told) if told else b"") + FLUSH


def failed_fetch(text: str) -> bytes:
    """What upload-pack answers instead of a pack: git shows it as `fatal: remote error:`."""
    return packet(b"ERR " + text.encode()[:60_000])


def outcome_of(answer: bytes, push: Push) -> tuple[str, dict[str, str]]:
    """What became of a push, from the beginning of the origin's answer: `ok`, or `refused_by_origin` with the reason of
    each ref; `unknown` where it says nothing that can be read.
    """
    try:
        lines = _report(answer, "side-band-64k" in push.able)
    except BadRequest:
        return "unknown", {}
    refused = {}
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "ng":
            ref, _, why = rest.partition(" ")
            refused[ref] = why[:200]
        elif word == "unpack" and rest != "ok":
            return "refused_by_origin", {update.ref: rest[:200] for update in push.updates}
    if refused:
        return "refused_by_origin", refused
    return ("ok", {}) if lines else ("unknown", {})


def _report(answer: bytes, banded: bool) -> list[str]:
    if banded:
        found, _ = Packets().take(answer)
        answer = b"".join(one[1:] for one in found if one[:1] == b"\x01")
    lines, _ = Packets().take(answer)
    return [line.decode("utf-8", "replace").rstrip("\n") for line in lines]


def head_of(push: Push, words: bytes, shallow: Sequence[bytes], options: Sequence[bytes]) -> bytes:
    """A push's head, written anew from what was judged. `words`: what the client can; `options`: its push options."""
    packets = [packet(line) for line in shallow]
    for number, update in enumerate(push.updates):
        line = f"{update.old} {update.new} {update.ref}".encode()
        packets.append(packet(line + b"\0" + words if number == 0 else line))
    told = b"".join(packets) + FLUSH
    if "push-options" in push.able:
        told += b"".join(packet(one) for one in options) + FLUSH
    return told


class Inflated:
    """Takes gzip off a body in small pieces; one that unpacks to more than `most` bytes raises BadRequest."""

    def __init__(self, most: int) -> None:
        self._open = zlib.decompressobj(16 + zlib.MAX_WBITS)
        self._left = most

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The plain bytes for these."""
        while data and not self._open.eof:
            try:
                part = self._open.decompress(data, PIECE)
            except zlib.error as error:
                raise BadRequest("its body is not the gzip that it says it is") from error
            data = self._open.unconsumed_tail
            self._left -= len(part)
            if self._left < 0:
                raise BadRequest("its body unpacks to more than is taken")
            if part:
                yield part

    def end(self) -> None:
        """Raises BadRequest for a body that broke off."""
        if not self._open.eof:
            raise BadRequest("its body broke off")


def plain(text: str, most: int) -> str:
    """Somebody's text fit to be read by a model in a terminal: no escapes, no control or hidden characters, so long."""
    text = _CONTROL.sub("", _ESCAPES.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))
    return text if len(text) <= most else f"{text[:most]}\n… {len(text) - most} more characters"


def unlike(who: Admitted, login: str, status: int, said: bytes) -> Refusal:
    """GitHub answered with something else than git's protocol: in its own words, and what to do about it."""
    words = plain(said.decode("utf-8", "replace"), 2000).strip() if b"<html" not in said[:1000].lower() else ""
    if status in (301, 302, 307, 308):
        reason = "it has moved at GitHub; rift_repos shows its new name once Rift has seen it"
    elif status in (401, 403, 404):
        reason = f"GitHub lets {login} not do this (status {status})"
    else:
        reason = f"GitHub answered with the status {status}"
    return refusals.origin_failed(who.repo.full, f"{reason}{': ' + words if words else ''}")


def basic(user: str, password: str) -> str:
    """The header's value for a user and a password."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
