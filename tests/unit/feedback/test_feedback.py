"""Feedback is the agent's to draft, the person's to change, drop and submit, and the admin's to read."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.unit.people.house import act, caller, outcomes, user

from keel.refusal import Refusal
from rift.audit import Act
from rift.deps import Deps
from rift.feedback import actions
from rift.feedback.decide import CONTEXT_MOST, DRAFT_MOST, TEXT_MOST, clean, decide_item, decide_room
from rift.feedback.model import Added, Item, Said
from rift.mail import actions as mail
from rift.people.model import Caller

BUG = Said("bug", "rift_vm_new took 40 s", "request r-1")
WISH = Said("improvement", "a box with a screen")


def code(result: object) -> str | None:
    return result.code if isinstance(result, Refusal) else None


async def person(deps: Deps, email: str, *, admin: bool = False) -> Caller:
    await user(deps, email, admin=admin)
    return await caller(deps, email)


def web(who: Caller, what: str) -> Act:
    return Act(Caller(who.user, who.email, who.admin, "ses_1", "", "web"), f"web {what}", {}, 1000.0)


async def added(deps: Deps, who: Caller, *items: Said) -> list[Item]:
    assert isinstance(await actions.add(deps, act(who, "rift_feedback"), items), Added)
    return await actions.draft(deps, who)


async def inbox(deps: Deps) -> list[str]:
    return [item.text for item in (await actions.inbox(deps, "all", None, 1)).items]


async def test_each_call_adds_to_the_same_draft_and_nobody_else_sees_it(deps: Deps) -> None:
    ada, grace = await person(deps, "ada@example.com"), await person(deps, "grace@example.com", admin=True)
    await added(deps, ada, BUG)
    held = await added(deps, ada, WISH, BUG)
    assert sorted((item.category, item.text, item.context, item.client) for item in held) == [
        ("bug", BUG.text, BUG.context, "Claude"), ("bug", BUG.text, BUG.context, "Claude"),
        ("improvement", WISH.text, "", "Claude"),
    ]  # fmt: skip
    assert await actions.draft(deps, grace) == []
    assert await inbox(deps) == []
    assert (await mail.list_letters(deps)).letters == []


async def test_what_is_ticked_is_submitted_once_with_a_letter_to_each_platform_admin(deps: Deps) -> None:
    ada = await person(deps, "ada@example.com")
    await person(deps, "boss@example.com", admin=True)
    gone = await person(deps, "gone@example.com", admin=True)
    async with deps.db.tx() as tx:
        await tx.run("UPDATE users SET disabled_at = now() WHERE id = %(id)s", {"id": gone.user})
    first, second, third = await added(deps, ada, BUG, WISH, Said("bug", "stays"))
    ids = [item.id for item in (first, second, third) if item.text != "stays"]
    assert await actions.submit(deps, web(ada, "submit feedback"), ids) == 2
    assert [item.text for item in await actions.draft(deps, ada)] == ["stays"]
    assert sorted(await inbox(deps)) == sorted([BUG.text, WISH.text])
    (letter,) = (await mail.list_letters(deps)).letters
    assert (letter.email, letter.kind) == ("boss@example.com", "feedback")
    assert letter.facts == {"sender": "ada@example.com", "items": 2, "path": "/app/inbox"}
    assert code(await actions.submit(deps, web(ada, "submit feedback"), ids)) == "feedback_none_ticked"
    assert len((await mail.list_letters(deps)).letters) == 1


async def test_submitted_at_once_in_two_windows_an_item_is_submitted_once(deps: Deps) -> None:
    ada = await person(deps, "ada@example.com")
    await person(deps, "boss@example.com", admin=True)
    ids = [item.id for item in await added(deps, ada, BUG, WISH)]
    said = await asyncio.gather(*(actions.submit(deps, web(ada, "submit feedback"), ids) for _ in range(6)))
    assert sorted(map(str, map(code, said))) == ["None"] + ["feedback_none_ticked"] * 5
    assert len((await mail.list_letters(deps)).letters) == 1


async def test_a_person_changes_and_drops_what_is_in_their_draft_and_nothing_else(deps: Deps) -> None:
    ada, grace = await person(deps, "ada@example.com"), await person(deps, "grace@example.com")
    (item,) = await added(deps, ada, BUG)
    changed = Said("improvement", "say it shorter", "")
    for who, expected in ((grace, "no_such_feedback"), (ada, None)):
        assert code(await actions.edit(deps, web(who, "edit feedback"), item.id, changed)) == expected
    (now,) = await actions.draft(deps, ada)
    assert (now.category, now.text, now.context, now.edited_at) == ("improvement", "say it shorter", "", now.created_at)
    assert code(await actions.submit(deps, web(grace, "submit feedback"), [item.id])) == "feedback_none_ticked"
    assert code(await actions.drop(deps, web(grace, "drop feedback"), item.id)) == "no_such_feedback"
    assert await actions.submit(deps, web(ada, "submit feedback"), [item.id]) == 1
    for refused in (
        await actions.edit(deps, web(ada, "edit feedback"), item.id, BUG),
        await actions.drop(deps, web(ada, "drop feedback"), item.id),
    ):
        assert code(refused) == "no_such_feedback"
    assert await inbox(deps) == ["say it shorter"]
    (other,) = await added(deps, ada, WISH)
    assert await actions.drop(deps, web(ada, "drop feedback"), other.id) is None
    assert await actions.draft(deps, ada) == []
    assert (await outcomes(deps))[-1][2:] == ("web drop feedback", "ok")


async def test_a_draft_is_bounded_also_where_many_add_to_it_at_once(deps: Deps) -> None:
    ada = await person(deps, "ada@example.com")
    said = await asyncio.gather(
        *(actions.add(deps, act(ada, "rift_feedback"), [BUG] * 10) for _ in range(DRAFT_MOST // 10 + 3))
    )
    assert sorted(map(str, map(code, said))) == ["None"] * (DRAFT_MOST // 10) + ["feedback_full"] * 3
    assert len(await actions.draft(deps, ada)) == DRAFT_MOST
    grace = await person(deps, "grace@example.com")
    assert len(await added(deps, grace, BUG)) == 1


async def test_of_items_that_came_together_all_are_kept_or_none(deps: Deps) -> None:
    ada = await person(deps, "ada@example.com")
    assert code(await actions.add(deps, act(ada, "rift_feedback"), [BUG, Said("bug", " \t\n ")])) == "feedback_no_text"
    too_long = Said("bug", "x" * (TEXT_MOST + 1))
    assert code(await actions.add(deps, act(ada, "rift_feedback"), [BUG, too_long])) == "feedback_too_long"
    assert await actions.draft(deps, ada) == []


async def test_an_admin_handles_what_was_submitted_and_opens_it_again(deps: Deps) -> None:
    boss = await person(deps, "boss@example.com", admin=True)
    first, second = await added(deps, boss, BUG, WISH)
    assert await actions.submit(deps, web(boss, "submit feedback"), [first.id]) == 1
    act = web(boss, "handle feedback")
    assert await actions.handle(deps, act, first.id, handled=True) is None
    assert await actions.handle(deps, act, first.id, handled=True) is None
    assert code(await actions.handle(deps, act, second.id, handled=True)) == "no_such_feedback"
    for show, count in (("open", 0), ("handled", 1), ("all", 1)):
        assert len((await actions.inbox(deps, show, None, 1)).items) == count  # type: ignore[arg-type]  # one of them
    assert (await actions.inbox(deps, "all", "improvement" if first.category == "bug" else "bug", 1)).items == []
    once = web(replace(await person(deps, "once@example.com"), admin=True), "handle feedback")
    assert code(await actions.handle(deps, once, first.id, handled=False)) == "needs_platform_admin"
    assert await actions.handle(deps, act, first.id, handled=False) is None
    assert (await actions.inbox(deps, "open", None, 1)).open == 1


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a\r\nb\rc", "a\nb\nc"),
        ("  a\tb\x00\x1b[31m\x7f\ud800  ", "a\tb[31m"),
        ("task_abcd2345.secretsecret", "<your handle>"),
        ("rift_" + "x" * 43, "<your token>"),
        ("git clone https://ada:pw@example.com/x", "git clone https://<your credentials>@example.com/x"),
        ("\u202efdp.exe\u2066", "fdp.exe"),
        ("família 👩‍👩‍👧 \u200cمی", "família 👩‍👩‍👧 \u200cمی"),
        ("<b>&amp;</b>", "<b>&amp;</b>"),
    ],
)
def test_what_is_kept_of_a_text_has_no_secret_and_nothing_that_hides(text: str, kept: str) -> None:
    assert clean(Said("bug", text, text)) == Said("bug", kept, kept)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (Said("bug", "x"), None),
        (Said("bug", ""), "feedback_no_text"),
        (Said("bug", "x" * TEXT_MOST, "x" * CONTEXT_MOST), None),
        (Said("bug", "x" * (TEXT_MOST + 1)), "feedback_too_long"),
        (Said("bug", "x", "x" * (CONTEXT_MOST + 1)), "feedback_too_long"),
    ],
)
def test_an_item_has_a_text_and_is_no_longer_than_it_may_be(said: Said, expected: str | None) -> None:
    assert code(decide_item(said)) == expected


@pytest.mark.parametrize(("held", "more", "fits"), [(0, 10, True), (90, 10, True), (91, 10, False), (100, 1, False)])
def test_a_draft_holds_so_many_items_and_no_more(held: int, more: int, fits: bool) -> None:
    assert (decide_room(held, more) is None) is fits
