"""Letters are written down with what they say, never twice as often as an address may get them."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.people.house import outcomes

from keel.refusal import Refusal
from keel.testing import FakeClock
from rift.deps import Deps
from rift.mail import actions, jobs
from rift.mail.decide import decide_facts
from rift.mail.model import Kind


async def post(deps: Deps, kind: Kind, email: str, **facts: object) -> None:
    async with deps.db.tx() as tx:
        await actions.post(tx, deps, kind, email, facts)


async def waiting(deps: Deps) -> list[dict[str, object]]:
    async with deps.db.tx() as tx:
        return await tx.rows("SELECT * FROM letters ORDER BY created_at, id")


@pytest.mark.parametrize(
    ("kind", "facts"),
    [
        ("sign_in", {}),
        ("sign_in", {"next": 3}),
        ("sign_in", {"next": "/app", "link": "https://rift.example/sign-in/link/x"}),
        ("team_invitation", {"invitation": "inv_1", "team": "acme", "inviter": "ada@example.com"}),
        ("feedback", {"sender": "ada@example.com", "items": "3", "path": "/app/inbox"}),
        ("trial", {"text": "anything"}),
    ],
)
def test_a_letter_has_the_facts_of_its_kind_and_no_others(kind: Kind, facts: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="has the facts"):
        decide_facts(kind, facts)


async def test_a_letter_waits_with_its_facts_and_a_job_to_send_it(deps: Deps) -> None:
    await post(deps, "sign_in", "ada@example.com", next="/app/feedback")
    (letter,) = await waiting(deps)
    assert (letter["kind"], letter["email"], letter["facts"]) == (
        "sign_in", "ada@example.com", {"next": "/app/feedback"},
    )  # fmt: skip
    async with deps.db.tx() as tx:
        (job,) = await tx.rows("SELECT task_name, args FROM procrastinate_jobs")
    assert job == {"task_name": "mail.send", "args": {"letter": letter["id"]}}


async def test_one_address_gets_five_sign_in_letters_an_hour_whatever_its_case(deps: Deps, clock: FakeClock) -> None:
    for _ in range(5):
        await post(deps, "sign_in", "ada@example.com", next="")
    await post(deps, "sign_in", "ADA@example.com", next="")
    await post(deps, "sign_in", "grace@example.com", next="")
    assert len(await waiting(deps)) == 6
    assert await outcomes(deps) == [(None, "upkeep", "mail post", "too_many_letters")]
    clock.advance(3601)
    await post(deps, "sign_in", "ada@example.com", next="")
    assert len(await waiting(deps)) == 7


async def test_of_many_sign_in_letters_asked_for_at_once_five_are_written(deps: Deps) -> None:
    await asyncio.gather(*(post(deps, "sign_in", "ada@example.com", next="") for _ in range(12)))
    assert len(await waiting(deps)) == 5


async def test_where_no_mail_server_is_set_letters_wait_and_a_trial_says_so(deps: Deps) -> None:
    await post(deps, "trial", "ada@example.com")
    await jobs.due(deps)
    (letter,) = (await actions.list_letters(deps)).letters
    assert await actions.send(deps, letter.id) is None
    assert letter.state == "waits"
    refused = await actions.trial(deps, "ada@example.com")
    assert isinstance(refused, Refusal)
    assert refused.code == "no_mail_server"
