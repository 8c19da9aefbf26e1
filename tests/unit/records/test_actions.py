"""Reading records: pages, one record, its proof, and the erasing of texts."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from tests.unit.people.house import act, caller, user

from keel.ledger.proof import parse
from keel.refusal import Refusal
from keel.testing import FakeClock
from rift.audit import audited
from rift.deps import Deps
from rift.people.model import Caller
from rift.records import actions, jobs
from rift.records.model import Entry, Wanted, text_state


@pytest.fixture
async def ada(deps: Deps) -> Caller:
    await user(deps, "ada@example.org", admin=True)
    return await caller(deps, "ada@example.org")


async def call(
    deps: Deps, who: Caller, tool: str = "rift_bash", *, task: str | None = "task_1", box: str | None = "b-1",
    outcome: str = "ok", text: str | None = None,
) -> None:  # fmt: skip
    """A call that is recorded."""
    assert isinstance(deps.clock, FakeClock)
    deps.clock.advance(1)
    made = act(who, tool)
    async with audited(deps, type(made)(who, tool, {"n": 1}, 1000.0, text)) as (_, row):
        row.task, row.box, row.outcome = task, box, outcome


async def page(deps: Deps, **wanted: object) -> list[Entry]:
    found = await actions.page(deps, Wanted(**wanted))  # type: ignore[arg-type]  # what a test asks for
    assert not isinstance(found, Refusal), found
    return found


async def test_where_nothing_was_recorded_there_is_no_checkpoint(deps: Deps) -> None:
    refused = await actions.checkpoint(deps)
    assert isinstance(refused, Refusal)
    assert refused.code == "nothing_sealed"
    assert await page(deps) == []


async def test_pages_are_the_newest_first_and_go_on_after_a_record(deps: Deps, ada: Caller) -> None:
    for _ in range(7):
        await call(deps, ada)
    everything = await page(deps)
    assert [entry.seq for entry in everything] == list(range(9, 0, -1))
    assert everything[0].who == "ada@example.org"
    assert (everything[-1].who, everything[-1].via) == (None, "cli")
    found: list[int] = []
    after = None
    while some := await page(deps, limit=2, after=after):
        found += [entry.seq for entry in some]
        after = found[-1]
    assert found == [entry.seq for entry in everything]


async def test_records_are_found_by_each_thing_that_they_name(deps: Deps, ada: Caller) -> None:
    await user(deps, "bob@example.org")
    bob = await caller(deps, "bob@example.org")
    await call(deps, ada, "rift_read")
    await call(deps, bob, task="task_2", outcome="vm_unknown")
    await call(deps, bob, box="b-2", outcome="error")
    middle = deps.clock.now()
    await call(deps, ada, task=None, box=None)
    first = 5  # after two people and two tokens
    wanted: list[tuple[dict[str, object], list[int]]] = [
        ({"task": "task_2"}, [first + 1]),
        ({"box": "b-2"}, [first + 2]),
        ({"user": "bob@example.org"}, [first + 2, first + 1]),
        ({"user": " BOB@example.org "}, [first + 2, first + 1]),
        ({"action": "rift_read"}, [first]),
        ({"outcome": "vm_unknown"}, [first + 1]),
        ({"outcome": "refused"}, [first + 1]),
        ({"outcome": "error"}, [first + 2]),
        ({"outcome": "ok", "action": "rift_bash"}, [first + 3]),
        ({"since": middle}, [first + 3, first + 2]),
        ({"since": middle, "until": middle + timedelta(microseconds=1)}, [first + 2]),
        ({"user": "bob@example.org", "task": "task_1", "outcome": "error"}, [first + 2]),
        ({"user": "bob@example.org", "after": first + 2}, [first + 1]),
        ({"task": "task_3"}, []),
    ]
    for asked, seqs in wanted:
        assert [entry.seq for entry in await page(deps, **asked)] == seqs, asked


@pytest.mark.parametrize(
    ("asked", "code"), [({"user": "x@example.org"}, "no_such_user"), ({"after": 99}, "no_such_record")]
)
async def test_a_page_of_what_is_not_there_is_refused(deps: Deps, asked: dict[str, object], code: str) -> None:
    refused = await actions.page(deps, Wanted(**asked))  # type: ignore[arg-type]  # what a test asks for
    assert isinstance(refused, Refusal)
    assert refused.code == code


async def test_a_record_is_shown_with_its_text_and_its_seal(deps: Deps, ada: Caller) -> None:
    await call(deps, ada, text="make test")
    one = await actions.show(deps, 3)
    assert not isinstance(one, Refusal)
    assert (one.entry.action, one.text, one.text_state, one.seal) == ("rift_bash", "make test", "kept", None)
    assert await actions.seal(deps) == 3
    one = await actions.show(deps, 3)
    assert not isinstance(one, Refusal)
    assert one.seal
    assert (one.seal.checkpoint, one.seal.position) == (1, 3)
    async with deps.db.tx() as tx:
        await tx.run("UPDATE ledger_texts SET text = 'make tea'")
    changed = await actions.show(deps, 3)
    assert not isinstance(changed, Refusal)
    assert changed.text_state == "changed"


@pytest.mark.parametrize(
    ("kept", "made_with", "found", "said"),
    [
        (False, None, None, "none"),
        (False, b"x", None, "erased"),
        (True, b"x", b"x", "kept"),
        (True, b"x", b"y", "changed"),
        (True, None, b"y", "changed"),
    ],
)
def test_a_text_is_none_kept_erased_or_changed(
    kept: bool, made_with: bytes | None, found: bytes | None, said: str
) -> None:
    assert text_state(kept, made_with, found) == said


async def test_a_proof_holds_without_the_database_and_seals_first_what_is_not_sealed(deps: Deps, ada: Caller) -> None:
    for _ in range(5):
        await call(deps, ada, text="make")
    proof = await actions.prove(deps, 4)
    assert not isinstance(proof, Refusal)
    read = parse(json.dumps(proof.told()))
    assert read == proof
    assert read.problem() is None
    assert json.loads(read.entry)["seq"] == 4
    (key,) = (await actions.keys(deps)).known
    assert read.problem(key.public.hex().upper()) is None
    assert "not with the one" in str(read.problem("00" * 32))
    refused = await actions.prove(deps, 4711)
    assert isinstance(refused, Refusal)


async def test_texts_go_when_they_are_old_or_when_it_is_asked_and_records_stay(deps: Deps, ada: Caller) -> None:
    assert isinstance(deps.clock, FakeClock)
    await call(deps, ada, text="old")
    deps.clock.advance(deps.settings.audit.keep_texts)
    await call(deps, ada, text="new")
    await call(deps, ada, text="other", task="task_2")
    await jobs.forget(deps)
    await actions.seal(deps)
    assert [entry.action for entry in await page(deps)][:3] == ["rift_bash"] * 3

    async def states() -> list[str]:
        shown = [await actions.show(deps, seq) for seq in (3, 4, 5)]
        return [one.text_state for one in shown if not isinstance(one, Refusal)]

    assert await states() == ["erased", "kept", "kept"]
    assert (await actions.erase(deps, "task_1")).records == 1
    assert await states() == ["erased", "erased", "kept"]
    newest = (await page(deps))[0]
    assert (newest.action, newest.task, newest.outcome) == ("rift audit erase", "task_1", "ok")

    async def silent(*_: int) -> None:
        return None

    assert (await actions.verify(deps, progress=silent)).intact


async def test_the_sealing_job_says_what_hinders_it_and_goes_on_when_it_is_mended(deps: Deps, ada: Caller) -> None:
    await jobs.seal(deps)
    key = deps.data / "audit" / "key.pem"
    key.chmod(0o644)
    await call(deps, ada)
    await jobs.seal(deps)
    one = await actions.show(deps, 3)
    assert not isinstance(one, Refusal)
    assert one.seal is None
    key.chmod(0o600)
    await jobs.seal(deps)
    one = await actions.show(deps, 3)
    assert not isinstance(one, Refusal)
    assert one.seal


async def test_a_new_key_is_a_record_and_the_chain_stays_whole(deps: Deps, ada: Caller) -> None:
    assert isinstance(deps.clock, FakeClock)
    await actions.seal(deps)
    deps.clock.advance(1)
    key = await actions.rotate(deps)
    await actions.seal(deps)
    found = await actions.keys(deps)
    assert [one.id for one in found.known][-1] == key.id
    assert set(found.here) == {one.id for one in found.known}
    assert (await page(deps))[0].action == "rift audit rotate"
    assert (await page(deps))[0].at == datetime(2026, 1, 2, 3, 4, 6, tzinfo=UTC)
