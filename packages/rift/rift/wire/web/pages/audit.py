"""The Audit page: what agents did, call by call, as far as one may read it; one record with its proof; erasing texts.

It takes its filter from the address, so that a link can be shared: everybody who opens it sees what they may read.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from keel.ledger import telling
from keel.refusal import CATALOGUE, Refusal
from rift.names import SEAL_SECONDS, TASK_PREFIX
from rift.records import actions
from rift.records.model import UNREFUSED, Asked, Entry, Place
from rift.secrecy import without_secrets
from rift.tasks.model import Handle
from rift.wire.web import refusals
from rift.wire.web.visit import Page, Visit, headers

ROWS = 50
EXPORTED = 1000
VALUE_MOST = 254
"""The longest value of a filter: an email address."""
FIELDS = ("task", "vm", "person", "tool", "outcome", "since", "until")
MOMENT = "2h, 3d, 1w or an instant in UTC, such as 2026-11-30T16:20"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PLACE = re.compile(r"(\d{1,18})-(\d{1,19})", re.ASCII)
_SEQ = re.compile(r"[1-9]\d{0,18}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Filter:
    """The filter as it was typed, what is wrong with it by field, and what it asks for if nothing is."""

    typed: Mapping[str, str]
    wrong: Mapping[str, str] = field(default_factory=dict)
    asked: Asked = field(default_factory=Asked)
    person: str | None = None
    after: str = ""

    def address(self, path: str = "/app/audit", **change: str) -> str:
        """A page's address with this filter and a change."""
        asked = {name: value for name, value in {**self.typed, **change}.items() if value}
        return path + (f"?{urlencode(asked)}" if asked else "")


def read_filter(params: Mapping[str, str], now: datetime, limit: int = ROWS) -> Filter:
    """The filter of an address. Whatever cannot be meant is told beside its field, with what would be taken."""
    typed = {name: params.get(name, "").strip() for name in FIELDS}
    wrong = {
        name: f"This is longer than {VALUE_MOST} characters."
        if len(value) > VALUE_MOST
        else "This has a character that no such value has."
        for name, value in typed.items()
        if len(value) > VALUE_MOST or not value.isprintable()
    }
    typed = {name: without_secrets(value[:VALUE_MOST]) if name != "task" else value for name, value in typed.items()}
    task = Handle.parse(typed["task"])
    if task is not None:
        typed["task"] = task.id  # a handle is forgiven, and its secret goes no further
    elif typed["task"]:
        typed["task"] = without_secrets(typed["task"][:VALUE_MOST])
        wrong.setdefault("task", f"A task's id looks like {TASK_PREFIX}t3fbd463.")
    moments: dict[str, datetime | None] = {}
    for name in ("since", "until"):
        try:
            moments[name] = _instant(typed[name], now)
        except ValueError:
            wrong.setdefault(name, f"{MOMENT}.")
    after = params.get("after", "").strip()
    before = read_place(after) if after else None
    if after and before is None:
        wrong["after"] = "The address names no place in the list that can be read: this is its beginning."
    if wrong:
        return Filter(typed, wrong)
    asked = Asked(
        task=typed["task"] or None, box=typed["vm"] or None, action=typed["tool"] or None,
        outcome=typed["outcome"] or None, since=moments["since"], until=moments["until"], before=before, limit=limit,
    )  # fmt: skip
    return Filter(typed, {}, asked, typed["person"] or None, after)


def place_told(place: Place) -> str:
    """A place in the list as an address carries it: microseconds since 1970, and a record's number."""
    return f"{(place.at - _EPOCH) // timedelta(microseconds=1)}-{place.seq}"


def read_place(text: str) -> Place | None:
    """The place, or None where the text is none."""
    found = _PLACE.fullmatch(text)
    if found is None or int(found[2]) > telling.MOST:
        return None
    try:
        return Place(_EPOCH + timedelta(microseconds=int(found[1])), int(found[2]))
    except OverflowError:
        return None


async def audit(visit: Visit) -> Response | Refusal:
    """The records that fit, the newest first."""
    found = read_filter(visit.request.query_params, visit.deps.clock.now())
    shown = None
    if not found.wrong:
        shown = await actions.page_of(visit.deps, visit.caller, found.asked, person=found.person)
    return visit.render(
        "audit.html", 400 if found.wrong else 200, asked=found, shown=shown, older=_older(found, shown),
        narrowed=any(found.typed.values()), keep=visit.deps.settings.audit.keep_texts, outcome=outcome, client=client,
        most=EXPORTED,
    )  # fmt: skip


async def export(visit: Visit) -> Response | Refusal:
    """The same as JSON, more of them at once; the address of the next ones is in it."""
    found = read_filter(visit.request.query_params, visit.deps.clock.now(), EXPORTED)
    if found.wrong:
        return _file(visit, {"wrong": dict(found.wrong)}, None, 400)
    shown = await actions.page_of(visit.deps, visit.caller, found.asked, person=found.person)
    next = _older(found, shown, "/app/audit/export")
    told = {"records": [entry.told() for entry in shown.entries], "next": visit.site.public + next if next else None}
    return _file(visit, told, "audit.json")


async def record(visit: Visit) -> Response | Refusal:
    """One record with everything that is kept of it."""
    seq = _seq(visit)
    whole = await actions.one_of(visit.deps, visit.caller, seq) if seq is not None else None
    if whole is None:
        return refusals.no_such_page()
    kind = CATALOGUE.get(whole.entry.outcome)
    return visit.render(
        "record.html", whole=whole, entry=whole.entry, outcome=outcome, client=client, pattern=kind and kind.sentence,
        arguments=seen(json.dumps(json.loads(whole.entry.arguments), indent=2, ensure_ascii=False)), seen=seen,
        keep=visit.deps.settings.audit.keep_texts, seal_seconds=SEAL_SECONDS,
    )  # fmt: skip


async def proof(visit: Visit) -> Response | Refusal:
    """A record's proof, as a file that is checked without this Rift."""
    seq = _seq(visit)
    found = await actions.proof_of(visit.deps, visit.caller, seq) if seq is not None else None
    if found is None or isinstance(found, Refusal):
        return found or refusals.no_such_page()
    return _file(visit, found.told(), f"record-{seq}.json")


async def erase(visit: Visit) -> Response | Refusal:
    """Erase a task's texts."""
    task = Handle.parse(visit.said("task"))
    if task is None:
        return refusals.no_such_page()
    done = await actions.erase_of(visit.deps, visit.act("erase texts", task=task.id), task.id)
    if isinstance(done, Refusal):
        return done
    gone = f"{done.records} record{'' if done.records == 1 else 's'}"
    return visit.go(f"/app/audit?task={task.id}", f"The command texts of {gone} of {task.id} are erased for good.")


def outcome(entry: Entry) -> tuple[str, str]:
    """An outcome in words, and the kind of its badge."""
    if entry.outcome == "ok":
        return "done", "ok"
    if entry.outcome in UNREFUSED:
        return entry.outcome.replace("_", " "), "quiet" if entry.outcome == "begun" else "warn"
    return ("failed", "bad") if entry.outcome == "error" else ("refused", "warn")


def seen(text: str) -> str:
    """The text with what would hide or turn around what stands beside it spelled out: `\\u202e`.

    A record is what somebody judges by: a command is not to look like another one.
    """
    hidden = ("Cc", "Cf", "Zl", "Zp")
    return "".join(
        f"\\u{ord(one):04x}" if unicodedata.category(one) in hidden and one not in "\n\t" else one for one in text
    )


def client(entry: Entry) -> str:
    """What it came by, in words."""
    via = entry.via or ""
    named = {
        "web": "a browser", "cli": "the server's terminal", "upkeep": "Rift's upkeep",
        "agent": "the box's agent", "box": "the box's door",
    }  # fmt: skip
    return via.removeprefix("mcp:") if via.startswith("mcp:") else named.get(via, via)


def _older(found: Filter, shown: Any, path: str = "/app/audit") -> str | None:
    return found.address(path, after=place_told(shown.older)) if shown is not None and shown.older else None


def _instant(text: str, now: datetime) -> datetime | None:
    return telling.instant(now, telling.moment(text)) if text else None


def _seq(visit: Visit) -> int | None:
    text = visit.request.path_params["seq"]
    return int(text) if _SEQ.fullmatch(text) and int(text) <= telling.MOST else None


def _file(visit: Visit, told: Mapping[str, Any], name: str | None, status: int = 200) -> Response:
    more = {"Content-Disposition": f'attachment; filename="{name}"'} if name else {}
    text = json.dumps(told, indent=1) + "\n"
    return Response(text, status, {**headers(visit.site), **more}, "application/json")


PAGES = (
    Page("/app/audit", audit),
    Page("/app/audit/export", export),
    Page("/app/audit/erase", post=erase),
    Page("/app/audit/{seq}", record),
    Page("/app/audit/{seq}/proof", proof),
)
