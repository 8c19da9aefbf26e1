"""Letters are sent once, tried again in growing waits, given up in the end, and never sent twice at once."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from tests.unit.people.house import house, outcomes, user

from keel.ids import digest
from keel.refusal import Refusal
from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase
from rift.audit import Act
from rift.deps import Deps
from rift.drivers.post.fake import FakePost
from rift.drivers.post.protocol import Message
from rift.mail import actions, jobs
from rift.mail.decide import WAITS, decide_again
from rift.mail.model import Kind, Letter
from rift.people.model import Caller
from rift.sessions import actions as sessions
from rift.sessions.model import Browser

LINK = re.compile(r"http://127\.0\.0\.1:7433/sign-in/link/(riftl_\S+)")


@pytest.fixture
def office() -> FakePost:
    """What is sent, and what goes wrong."""
    return FakePost()


@pytest.fixture
async def deps(database: FreshDatabase, tmp_path: Path, clock: FakeClock, office: FakePost) -> AsyncIterator[Deps]:
    """Everything an action takes, with a post."""
    async with house(database, tmp_path, clock, post=office) as made:
        yield made


async def post(deps: Deps, kind: Kind = "sign_in", email: str = "ada@example.com", **facts: object) -> str:
    async with deps.db.tx() as tx:
        await actions.post(tx, deps, kind, email, facts or {"next": ""})
        row = await tx.row("SELECT id FROM letters ORDER BY created_at DESC, id DESC LIMIT 1")
    assert row is not None
    return str(row["id"])


async def letter(deps: Deps, id: str) -> Letter:
    found = [one for one in (await actions.list_letters(deps)).letters if one.id == id]
    return found[0]


def text_of(office: FakePost, index: int = -1) -> str:
    return str(next(office.sent[index].iter_parts()).get_content())


async def test_the_link_in_a_letter_signs_its_reader_in_and_goes_where_they_wanted(
    deps: Deps, office: FakePost
) -> None:
    ada = await user(deps, "ada@example.com")
    await jobs.send(deps, await post(deps, next="/app/feedback"))
    (secret,) = set(LINK.findall(text_of(office)))
    done = await sessions.use_link(deps, secret, Browser("a browser"))
    assert not isinstance(done, Refusal)
    assert (done.session.user, done.next) == (ada.id, "/app/feedback")


async def test_neither_a_letter_nor_a_record_nor_a_job_keeps_the_link(
    deps: Deps, office: FakePost, database: FreshDatabase
) -> None:
    await user(deps, "ada@example.com")
    await jobs.send(deps, await post(deps))
    (secret,) = set(LINK.findall(text_of(office)))
    async with deps.db.tx() as tx:
        for table in ("letters", "links", "ledger", "procrastinate_jobs", "ledger_texts"):
            rows = await tx.rows(f"SELECT t::text AS row FROM {table} t")
            assert not [row for row in rows if secret in row["row"]]
        assert await tx.row("SELECT 1 AS one FROM links WHERE sha256 = %(sha)s", {"sha": digest(secret)})


async def test_a_letter_that_was_sent_is_not_sent_again_whoever_asks(deps: Deps, office: FakePost) -> None:
    await user(deps, "ada@example.com")
    id = await post(deps)
    await asyncio.gather(*(jobs.send(deps, id) for _ in range(8)))
    await jobs.send(deps, id)
    assert len(office.sent) == 1
    assert (await letter(deps, id)).state == "sent"


async def test_a_letter_that_does_not_go_is_tried_in_growing_waits_for_two_days_and_then_given_up(
    deps: Deps, office: FakePost, clock: FakeClock
) -> None:
    await user(deps, "ada@example.com")
    begun, office.away = clock.now(), "451 come back later"
    id = await post(deps)
    tried = []
    while (await letter(deps, id)).state != "failed":
        clock.set(max(clock.now(), (await letter(deps, id)).next_at or clock.now()))
        await jobs.send(deps, id)
        tried.append(clock.now() - begun)
    waits = [after - before for before, after in pairwise(tried)]
    assert tuple(waits[:6]) == WAITS
    assert set(waits[6:]) == {timedelta(hours=6)}
    assert timedelta(days=1, hours=18) < tried[-1] <= timedelta(days=2)
    assert (await letter(deps, id)).failure == "451 come back later"
    assert (await outcomes(deps))[-1] == (None, "upkeep", "mail send", "given_up")
    office.away = None
    clock.advance(timedelta(days=1))
    await jobs.send(deps, id)
    assert office.sent == []


async def test_a_letter_waits_between_its_tries_and_goes_once_its_server_is_back(
    deps: Deps, office: FakePost, clock: FakeClock
) -> None:
    await user(deps, "ada@example.com")
    id, office.away = await post(deps), "away"
    await jobs.send(deps, id)
    office.away = None
    clock.advance(59)
    await jobs.send(deps, id)
    assert (office.sent, (await letter(deps, id)).state) == ([], "again")
    clock.advance(1)
    await jobs.send(deps, id)
    assert (len(office.sent), (await letter(deps, id)).state) == (1, "sent")
    assert (await letter(deps, id)).failure is None


async def test_what_a_server_refuses_for_good_is_not_tried_again(deps: Deps, office: FakePost) -> None:
    await user(deps, "ada@example.com")
    office.refused["ada@example.com"] = "550 no such mailbox: riftl_" + "x" * 43
    id = await post(deps)
    await jobs.send(deps, id)
    found = await letter(deps, id)
    assert (found.state, found.failure) == ("failed", "550 no such mailbox: <your token>")


async def test_who_is_killed_while_sending_leaves_a_letter_that_is_sent_again(
    deps: Deps, office: FakePost, clock: FakeClock
) -> None:
    await user(deps, "ada@example.com")
    id = await post(deps)

    class Killed(BaseException):
        pass

    real = office.send

    async def sent_and_killed(message: Message) -> str:
        await real(message)
        raise Killed

    office.send = sent_and_killed  # type: ignore[method-assign]  # what a kill after sending looks like from outside
    with pytest.raises(Killed):
        await actions.send(deps, id)
    office.send = real  # type: ignore[method-assign]  # and back
    clock.advance(119)
    await jobs.send(deps, id)
    assert len(office.sent) == 1
    clock.advance(1)
    await jobs.send(deps, id)
    assert len(office.sent) == 2
    assert (await letter(deps, id)).state == "sent"
    first, second = (set(LINK.findall(text_of(office, index))) for index in (0, 1))
    assert not first & second
    assert office.sent[0]["Message-ID"] != office.sent[1]["Message-ID"]


async def test_a_letter_whose_job_was_lost_is_found_when_it_is_due(deps: Deps, clock: FakeClock) -> None:
    id = await post(deps)
    async with deps.db.tx() as tx:
        await tx.run("DELETE FROM procrastinate_jobs")
    await jobs.due(deps)
    await jobs.due(deps)
    async with deps.db.tx() as tx:
        assert await tx.rows("SELECT task_name, args FROM procrastinate_jobs") == [
            {"task_name": "mail.send", "args": {"letter": id}}
        ]


async def test_a_sign_in_letter_to_who_was_put_out_meanwhile_is_not_sent(deps: Deps, office: FakePost) -> None:
    ada, boss = await user(deps, "ada@example.com"), await user(deps, "boss@example.com", admin=True)
    ids = [await post(deps), await post(deps, "sign_in", "nobody@example.com", next="")]
    async with deps.db.tx() as tx:
        await tx.run("UPDATE users SET disabled_at = now() WHERE id = %(id)s", {"id": ada.id})
    for id in ids:
        await jobs.send(deps, id)
        assert (await letter(deps, id)).failure == actions.NOBODY
        act = Act(Caller(boss.id, boss.email, True, "ses_1", "", "web"), "web open letter", {}, 0.0)
        refused = await actions.open_letter(deps, act, id)
        assert isinstance(refused, Refusal)
        assert refused.code == "letter_is_over"
    assert office.sent == []


async def test_letters_that_waited_for_a_mail_server_too_long_are_not_sent_when_one_comes(
    deps: Deps, office: FakePost, clock: FakeClock
) -> None:
    await user(deps, "ada@example.com")
    id = await post(deps)
    clock.advance(timedelta(days=2, seconds=1))
    await jobs.send(deps, id)
    assert (office.sent, (await letter(deps, id)).failure) == ([], actions.TOO_LATE)


async def test_an_admin_has_a_letter_tried_anew_discards_it_and_opens_it(
    deps: Deps, office: FakePost, clock: FakeClock
) -> None:
    boss = await user(deps, "boss@example.com", admin=True)
    ada = await user(deps, "ada@example.com")

    def act(what: str) -> Act:
        return Act(Caller(boss.id, boss.email, True, "ses_1", "", "web"), f"web {what}", {}, clock.monotonic())

    office.refused["ada@example.com"] = "550 no"
    id = await post(deps)
    await jobs.send(deps, id)
    opened = await actions.open_letter(deps, act("open letter"), id)
    assert not isinstance(opened, Refusal)
    (secret,) = set(LINK.findall(opened.text))
    assert secret in opened.html
    signed_in = await sessions.use_link(deps, secret, Browser("a browser"))
    assert not isinstance(signed_in, Refusal)
    assert signed_in.session.user == ada.id
    del office.refused["ada@example.com"]
    clock.advance(timedelta(days=3))
    assert not isinstance(await actions.retry_letter(deps, act("retry letter"), id), Refusal)
    await jobs.send(deps, id)
    assert len(office.sent) == 1
    again = await actions.retry_letter(deps, act("retry letter"), id)
    assert isinstance(again, Refusal)
    assert again.code == "no_such_letter"
    other = await post(deps)
    assert not isinstance(await actions.discard_letter(deps, act("discard letter"), other), Refusal)
    await jobs.send(deps, other)
    assert len(office.sent) == 1
    for action in (actions.open_letter, actions.retry_letter, actions.discard_letter):
        assert isinstance(await action(deps, act("open letter"), other), Refusal)
    assert [row[2:] for row in await outcomes(deps) if row[1] == "web"] == [
        ("web open letter", "ok"), ("web sign in", "ok"), ("web retry letter", "ok"),
        ("web retry letter", "no_such_letter"), ("web discard letter", "ok"), ("web open letter", "no_such_letter"),
        ("web open letter", "no_such_letter"), ("web open letter", "no_such_letter"),
    ]  # fmt: skip


@pytest.mark.parametrize("action", [actions.open_letter, actions.retry_letter, actions.discard_letter])
async def test_who_is_a_platform_admin_no_longer_does_nothing_with_a_letter(
    deps: Deps, office: FakePost, action: Callable[[Deps, Act, str], Awaitable[object]]
) -> None:
    ada = await user(deps, "ada@example.com")
    id = await post(deps)
    act = Act(Caller(ada.id, ada.email, True, "ses_1", "", "web"), "web a letter", {}, 0.0)
    refused = await action(deps, act, id)
    assert isinstance(refused, Refusal)
    assert refused.code == "needs_platform_admin"
    async with deps.db.tx() as tx:
        assert await tx.rows("SELECT FROM links") == []


async def test_a_letter_that_is_being_sent_is_not_sent_twice_for_an_admins_retry(
    deps: Deps, office: FakePost, clock: FakeClock
) -> None:
    boss = await user(deps, "boss@example.com", admin=True)
    await user(deps, "ada@example.com")
    id = await post(deps)
    act = Act(Caller(boss.id, boss.email, True, "ses_1", "", "web"), "web retry letter", {}, clock.monotonic())
    real = office.send

    async def slow(message: Message) -> str:
        assert not isinstance(await actions.retry_letter(deps, act, id), Refusal)
        await actions.send(deps, id)
        return await real(message)

    office.send = slow  # type: ignore[method-assign]  # a server that takes its time
    await actions.send(deps, id)
    assert len(office.sent) == 1


async def test_letters_are_erased_after_their_time(deps: Deps, clock: FakeClock) -> None:
    await user(deps, "ada@example.com")
    await jobs.send(deps, await post(deps))
    clock.advance(timedelta(days=14))
    kept = await post(deps)
    await jobs.erase(deps)
    assert len((await actions.list_letters(deps)).letters) == 2
    clock.advance(1)
    await jobs.erase(deps)
    assert [one.id for one in (await actions.list_letters(deps)).letters] == [kept]


async def test_the_letters_of_an_invitation_that_is_over_are_taken_back(deps: Deps) -> None:
    facts = {"team": "acme", "inviter": "ada@example.com", "role": "member"}
    id = await post(deps, "team_invitation", "grace@example.com", invitation="inv_1", **facts)
    other = await post(deps, "team_invitation", "grace@example.com", invitation="inv_2", **facts)
    async with deps.db.tx() as tx:
        assert await actions.recall(tx, "inv_1") == 1
    assert [one.id for one in (await actions.list_letters(deps)).letters] == [other] != [id]


async def test_a_trial_letter_tells_what_the_server_said(deps: Deps, office: FakePost) -> None:
    assert await actions.trial(deps, "ada@example.com") == "taken"
    office.refused["ada@example.com"] = "550 no"
    refused = await actions.trial(deps, "ada@example.com")
    assert isinstance(refused, Refusal)
    assert (refused.code, refused.sentence) == ("letter_not_sent", "The letter was not sent: 550 no.")
    bad = await actions.trial(deps, "ada")
    assert isinstance(bad, Refusal)
    assert [row[2:] for row in await outcomes(deps)] == [
        ("rift mail test", "ok"), ("rift mail test", "letter_not_sent"), ("rift mail test", "bad_email"),
    ]  # fmt: skip


@pytest.mark.parametrize("tries", [1, 2, 3, 6, 7, 1000])
def test_a_next_try_is_never_after_the_letters_time(tries: int, clock: FakeClock) -> None:
    now = clock.now()
    letter = Letter("let_1", "trial", "a@b.c", {}, now, now + timedelta(hours=6), now, tries, None, None)
    assert decide_again(letter, now) == now + WAITS[min(tries, 6) - 1]
    assert decide_again(letter, now + timedelta(hours=6)) is None
