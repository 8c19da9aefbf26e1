"""The page Boxes: what it shows, to whom, and that it changes nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest
from tests.unit.people.house import act, caller, outcomes, user
from tests.wire.web.browsing import Browser

from keel.db import Tx
from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase
from rift.boxes import actions
from rift.deps import Deps
from rift.tasks import actions as tasks
from rift.tasks.model import Lease
from rift.times import ahead

HOSTILE = "<script>alert('pwned')</script>\u202e" + "x" * 100


async def opened(deps: Deps, email: str, name: str, client: str = "Claude") -> Lease:
    """A task of a person, held by a client of theirs."""
    lease = await tasks.open_task(deps, act(await caller(deps, email, client)), name)
    assert isinstance(lease, Lease)
    return lease


def box(database: FreshDatabase, owner: str, task: str, **more: object) -> str:
    """A box as it would be stored. Its id."""
    facts: dict[str, object] = {"id": "b-" + "0" * 24, "state": "running", "failure": None, "lacks": "", **more}
    with psycopg.connect(database.owner) as connection:
        connection.execute(
            """
            INSERT INTO repos (id, org, owner, name, url, network, created_at)
            SELECT 'repo_1', m.org, 'acme', 'app', '/srv/app', 'proxy', now() FROM members m WHERE m.user_id = %(owner)s
            ON CONFLICT DO NOTHING
            """,
            {"owner": owner},
        )
        connection.execute(
            """
            INSERT INTO boxes (id, name, number, repo, ref, commit, task, state, failure, lacks, incarnation, epoch,
                               next_command, used_at, created_at, seen_at)
            SELECT %(id)s, 'app-main-' || n, n, 'repo_1', 'main', repeat('c', 40), %(task)s, %(state)s, %(failure)s,
                   %(lacks)s, 1, 0, 1, now(), now(), now()
            FROM (SELECT count(*) + 1 AS n FROM boxes) counted
            """,
            {**facts, "task": task},
        )
    return str(facts["id"])


def command(database: FreshDatabase, box: str, n: int, text: str, state: str = "claimed") -> None:
    """A command of a box as it would be stored."""
    with psycopg.connect(database.owner) as connection:
        connection.execute(
            """
            INSERT INTO commands (box, n, kind, input, timeout, state, created_at, incarnation)
            VALUES (%(box)s, %(n)s, 'bash', %(text)s, 60, %(state)s, now(),
                    CASE %(state)s WHEN 'claimed' THEN 1 END)
            """,
            {"box": box, "n": n, "text": text, "state": state},
        )


async def test_the_page_shows_each_open_task_with_holder_boxes_and_what_runs(
    browser: Browser, database: FreshDatabase
) -> None:
    person = await browser.sign_in("ada@example.com")
    lease = await opened(browser.deps, "ada@example.com", "fix the parser", "Claude Code")
    id = box(database, person.id, lease.task.id)
    command(database, id, 1, "make test")
    command(database, id, 2, "sleep 5", "queued")
    html = (await browser.get("/app/boxes")).text
    for part in (
        "fix the parser", lease.task.id, "held by mcp:Claude Code", id, "app-main-1", "running", "acme/app", "main at",
        "cccccccccc", "make test", "bash, running", "bash, waiting to start", "Last activity",
        "in 30 minutes", "in 4 hours",
    ):  # fmt: skip
        assert part in html, part
    assert lease.secret not in html
    assert "rift_task_attach {&#34;task&#34;: &#34;" + lease.task.id + "&#34;, &#34;takeover&#34;: true}" in html


async def test_a_task_that_nobody_holds_is_free_and_its_call_takes_it(browser: Browser) -> None:
    await browser.sign_in("ada@example.com")
    lease = await opened(browser.deps, "ada@example.com", "left behind")
    await tasks.release(browser.deps, act(await caller(browser.deps, "ada@example.com")), lease.handle)
    html = (await browser.get("/app/boxes")).text
    assert ">free</span>" in html
    assert "takeover" not in html


async def test_somebody_with_no_task_learns_how_an_agent_opens_one(browser: Browser) -> None:
    await browser.sign_in("ada@example.com")
    html = (await browser.get("/app/boxes")).text
    assert "No open task" in html
    assert "rift_task_new" in html


async def test_nobody_sees_the_task_of_another_person(browser: Browser) -> None:
    await browser.sign_in("ada@example.com")
    await user(browser.deps, "bob@example.com")
    await opened(browser.deps, "bob@example.com", "a secret plan")
    assert "a secret plan" not in (await browser.get("/app/boxes")).text


async def test_looking_changes_nothing_and_writes_no_record(browser: Browser) -> None:
    await browser.sign_in("ada@example.com")
    lease = await opened(browser.deps, "ada@example.com", "quiet")
    before = await outcomes(browser.deps)
    await browser.get("/app/boxes")
    assert await outcomes(browser.deps) == before
    (view,) = await actions.look(browser.deps, await caller(browser.deps, "ada@example.com"))
    assert view.task.activity_at == lease.task.activity_at


async def test_the_page_takes_as_many_statements_for_many_boxes_as_for_one(
    browser: Browser, database: FreshDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = await browser.sign_in("ada@example.com")
    asked = 0
    real = Tx.all

    async def counting(self: Tx, *arguments: Any) -> object:
        nonlocal asked
        asked += 1
        return await real(self, *arguments)

    monkeypatch.setattr(Tx, "all", counting)
    counts = []
    for name in ("one", "two", "three"):
        lease = await opened(browser.deps, "ada@example.com", name)
        for n in range(2):
            command(database, box(database, person.id, lease.task.id, id=f"b-{name}{n}"), 1, "true")
        asked = 0
        await browser.get("/app/boxes")
        counts.append(asked)
    assert counts == [3, 3, 3]


async def test_why_a_box_failed_is_told_whole_and_what_its_checkout_lacks(
    browser: Browser, database: FreshDatabase
) -> None:
    person = await browser.sign_in("ada@example.com")
    lease = await opened(browser.deps, "ada@example.com", "broken")
    box(database, person.id, lease.task.id, state="failed", failure="line one\n" + "y" * 5000, lacks="It lacks LFS.")
    html = (await browser.get("/app/boxes")).text
    assert "y" * 5000 in html
    assert "It lacks LFS." in html


async def test_markup_in_names_and_secrets_in_commands_are_never_shown_as_such(
    browser: Browser, database: FreshDatabase
) -> None:
    person = await browser.sign_in("ada@example.com")
    lease = await opened(browser.deps, "ada@example.com", HOSTILE, client="<img src=x onerror=alert(1)>")
    secret = "rift_" + "A" * 43
    command(database, box(database, person.id, lease.task.id, failure=f"no {secret}"), 1, f"echo {secret} <b>\u202e")
    html = (await browser.get("/app/boxes")).text
    assert "<script>alert" not in html
    assert "\u202e" not in html
    assert "\\u202e" in html
    assert "<img" not in html
    assert "&lt;b&gt;" in html
    assert secret not in html


async def test_a_task_past_its_clocks_says_so(browser: Browser, clock: FakeClock) -> None:
    await browser.sign_in("ada@example.com")
    await opened(browser.deps, "ada@example.com", "old")
    clock.advance(5 * 3600)
    html = (await browser.get("/app/boxes")).text
    assert html.count("<dd>now</dd>") == 2


def test_how_far_off_something_is_is_told_in_two_units_at_most(clock: FakeClock) -> None:
    now = clock.now()
    for seconds, text in (
        (-1, "now"), (0, "now"), (1, "in less than a minute"), (60, "in 1 minute"), (3600, "in 1 hour"),
        (14_399, "in 3 hours 59 minutes"), (90_000, "in 1 day 1 hour"), (86_400 + 60, "in 1 day 1 minute"),
        (200_000, "in 2 days 7 hours"),
    ):  # fmt: skip
        assert ahead(now + timedelta(seconds=seconds), now) == text
