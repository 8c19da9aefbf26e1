"""What `rift doctor` counts: the boxes that the database knows, what is on this host, and where the two differ."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from keel.clock import SystemClock
from keel.db import Database, OperationalError
from rift import app
from rift.cli.place import Place
from rift.drivers.boxes.local.remains import Remains, look
from rift.drivers.forge.local import LocalForge
from rift.drivers.forge.protocol import ForgeError
from rift.health import store
from rift.health.store import Found, Queue

UNHEARD = timedelta(seconds=60)
"""A running box whose agent was not heard for so long is one that upkeep has not brought back."""
LATE = timedelta(seconds=60)
"""A job that waits for so long waits for nobody."""
NAMED = 5
"""So many boxes are named; the others are counted."""


class Finding(NamedTuple):
    """One finding, with its numbers. `mend` is one exact command; None where all is well or none is needed."""

    name: str
    ok: bool
    sentence: str
    mend: str | None
    numbers: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Facts:
    """What was seen. `boxes` and `queue` are None when the database did not say; `pins` are boxes with a pinned commit.

    `served`: whether a server or worker does upkeep. `up` is that command, as it is typed here.
    """

    remains: Remains
    pins: frozenset[str] = frozenset()
    boxes: tuple[Found, ...] | None = None
    queue: Queue | None = None
    served: bool = False
    up: str = "rift up"


async def count(place: Place) -> list[Finding]:
    """Look at everything once; nothing is started, made or changed."""
    clock = SystemClock()
    config = app.local_config(place.settings, place.data)
    remains = await asyncio.to_thread(look, config)
    pins = await _pins(place)
    served = place.running() is not None or bool(place.workers())
    facts = Facts(remains, pins, served=served, up=place.spelled("up"))
    if place.postgres is not None and not await asyncio.to_thread(place.postgres.running):
        return decide_findings(facts)
    try:
        async with asyncio.timeout(10), Database(place.url("runtime"), size=1) as db, db.tx() as tx:
            boxes = tuple(await store.boxes_now(tx, clock.now() - UNHEARD))
            queue = await store.queue_now(tx, clock.now() - LATE)
    except (OperationalError, OSError, TimeoutError):
        return decide_findings(facts)
    return decide_findings(Facts(remains, pins, boxes, queue, served, facts.up))


async def _pins(place: Place) -> frozenset[str]:
    found: frozenset[str] = frozenset()
    forge = LocalForge()
    for mirror in sorted((place.data / "mirrors").glob("[!.]*")):
        try:
            found |= await forge.pins(mirror)
        except ForgeError:
            continue  # a mirror that git cannot read is told by its next fetch
    return found


def decide_findings(facts: Facts) -> list[Finding]:
    """What there is to say of these facts, in the order in which a person should read it."""
    if facts.boxes is None or facts.queue is None:
        return [_no_database(facts)]
    known = {box.id: box for box in facts.boxes}
    findings = [_boxes(facts), _left(facts, known), _missing(facts, known), _doubled(facts), _half_made(facts, known)]
    return [*findings, _silent(facts), _jobs(facts.queue, facts), _locks(facts)]


def _no_database(facts: Facts) -> Finding:
    there = len(facts.remains.boxes)
    sentence = f"The database is down: whether the {_boxes_word(there)} on this host should be there cannot be told."
    if not there:
        sentence = "No box is on this host, and the database is down."
    numbers = {"on_host": there, "agents": sum(facts.remains.agents.values()), "pins": len(facts.pins)}
    return Finding("boxes", not facts.served, sentence, facts.up if facts.served else None, numbers)


def _boxes(facts: Facts) -> Finding:
    assert facts.boxes is not None
    states = Counter(box.state for box in facts.boxes)
    told = ", ".join(f"{count} {state}" for state, count in sorted(states.items())) or "none"
    there = len(facts.remains.boxes)
    numbers = {**states, "on_host": there, "agents": sum(facts.remains.agents.values())}
    return Finding("boxes", True, f"Boxes by state: {told}; {there} on this host.", None, numbers)


def _left(facts: Facts, known: Mapping[str, Found]) -> Finding:
    remains = facts.remains
    kinds = {
        "folders": remains.folders - known.keys(),
        "agents": remains.agents.keys() - known.keys(),
        "cgroups": remains.groups - known.keys(),
        "pins": facts.pins - known.keys(),
    }
    left = frozenset().union(*kinds.values())
    numbers = {kind: len(ids) for kind, ids in kinds.items()}
    if not left:
        return Finding("left behind", True, "Nothing is left of boxes that are gone.", None, numbers)
    parts = ", ".join(f"{number} {kind}" for kind, number in numbers.items() if number)
    sentence = f"Left of boxes that are gone: {parts} ({_named(left)}). {_upkeep(facts, 'removes these', 30)}"
    return Finding("left behind", False, sentence, _mend(facts), numbers)


def _missing(facts: Facts, known: Mapping[str, Found]) -> Finding:
    lost = [
        box.id for box in known.values() if box.state in ("running", "parked") and box.id not in facts.remains.folders
    ]
    numbers = {"missing": len(lost)}
    if not lost:
        return Finding("files of boxes", True, "Each box that runs or is parked has its files.", None, numbers)
    sentence = (
        f"{_boxes_word(len(lost)).capitalize()} without files on this host ({_named(lost)}): another host has them, or "
        f"they are lost. {_upkeep(facts, 'says so to their tasks', 60)}"
    )
    return Finding("files of boxes", False, sentence, _mend(facts), numbers)


def _doubled(facts: Facts) -> Finding:
    twice = [box for box, agents in facts.remains.agents.items() if agents > 1]
    if not twice:
        return Finding("agents", True, "No box has more than one agent.", None, {"doubled": 0})
    sentence = f"More than one agent works for {_named(twice)}. {_upkeep(facts, 'ends the older ones', 30)}"
    return Finding("agents", False, sentence, _mend(facts), {"doubled": len(twice)})


def _half_made(facts: Facts, known: Mapping[str, Found]) -> Finding:
    half = [box for box in facts.remains.half_made if box in known and known[box].state in ("running", "parked")]
    if not half:
        return Finding("checkouts", True, "Each box that runs has a whole checkout.", None, {"half_made": 0})
    sentence = f"Of {_named(half)} the checkout was not finished. Its next start makes it anew."
    return Finding("checkouts", False, sentence, _mend(facts), {"half_made": len(half)})


def _silent(facts: Facts) -> Finding:
    assert facts.boxes is not None
    silent = [box.id for box in facts.boxes if box.silent]
    if not silent:
        return Finding("heard", True, "Each running box was heard in the last minute.", None, {"unheard": 0})
    sentence = f"Not heard for a minute: {_named(silent)}. {_upkeep(facts, 'starts their agents again', 30)}"
    return Finding("heard", False, sentence, _mend(facts), {"unheard": len(silent)})


def _jobs(queue: Queue, facts: Facts) -> Finding:
    numbers = {"waiting": queue.waiting, "doing": queue.doing, "orphaned": queue.orphaned, "late": queue.late}
    told = f"Background work: {queue.doing} going on, {queue.waiting} waiting"
    if not queue.orphaned and not queue.late:
        return Finding("jobs", True, f"{told}.", None, numbers)
    why = f"{queue.late} for more than a minute, {queue.orphaned} left by a worker that is gone"
    return Finding("jobs", False, f"{told}: {why}. {_upkeep(facts, 'takes these up', 30)}", _mend(facts), numbers)


def _locks(facts: Facts) -> Finding:
    free = len(facts.remains.locks)
    sentence = f"{free} lock files that nobody holds: each goes when its lock is next let go." if free else ""
    return Finding("locks", True, sentence or "No lock file without a holder.", None, {"locks": free})


def _upkeep(facts: Facts, does: str, seconds: int) -> str:
    if not facts.served:
        return f"No server or worker runs; upkeep {does} once one does."
    return f"Upkeep {does} within {seconds} s; if it does not, the worker's log says why."


def _mend(facts: Facts) -> str | None:
    return None if facts.served else facts.up


def _named(boxes: Iterable[str]) -> str:
    found = sorted(boxes)
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return ", ".join(found[:NAMED]) + more


def _boxes_word(count: int) -> str:
    return "1 box" if count == 1 else f"{count} boxes"
