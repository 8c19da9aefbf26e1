"""The People page: what the platform admin sees of everybody, and putting somebody out."""

from __future__ import annotations

import asyncio
import re
from html import unescape

import psycopg
import pytest
from tests.unit.people.house import user
from tests.wire.web.browsing import Browser
from tests.wire.web.teams import admin, boxes_of, said

from keel.refusal import Refusal
from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase
from rift.boxes import actions as boxes
from rift.deps import Deps
from rift.people import actions as people
from rift.people.model import User
from rift.tasks import actions as tasks
from rift.wire.web.pages import people as page_of_people

ADA, ROOT = "ada@example.com", "root@example.com"


async def test_the_page_is_there_for_the_platform_admin_alone(deps: Deps) -> None:
    root, ada = await admin(deps), Browser(deps)
    who = await ada.sign_in(ADA)
    assert (await root.get("/app/people")).status_code == 200
    for path in ("/app/people", f"/app/people/{who.id}"):
        assert (await ada.get(path)).status_code == 404
        assert (await Browser(deps).get(path)).status_code == 303
    for page in page_of_people.PAGES:
        if page.post:
            to = page.path.replace("{person}", who.id)
            assert (await ada.submit("/app/organizations", to, email=ADA)).status_code == 404, to
    assert 'href="/app/people"' in (await root.get("/app/boxes")).text
    assert 'href="/app/people"' not in (await ada.get("/app/boxes")).text


async def test_it_counts_what_each_person_uses_in_one_statement(
    deps: Deps, database: FreshDatabase, clock: FakeClock
) -> None:
    root = await admin(deps)
    ada = Browser(deps)
    who = await ada.sign_in(ADA)
    quiet = await user(deps, "quiet@example.com")
    assert not isinstance(await people.new_token(deps, ADA, "Claude"), Refusal)
    async with deps.db.look() as tx:
        (personal,) = await people.memberships(tx, who.id)
    with psycopg.connect(database.owner) as connection:
        boxes_of(connection, personal.org, who.id, 5)
        connection.execute("UPDATE boxes SET state = 'destroyed', ended_at = now() WHERE number = 1")
        connection.execute("UPDATE boxes SET state = 'destroying' WHERE number = 2")
        connection.execute(
            """
            INSERT INTO tasks (id, owner, name, status, activity_at, created_at, closed_at)
            VALUES ('task_bbbb3333', %s, 'over', 'closed', now(), now(), now())
            """,
            (who.id,),
        )
    found = {one.email: one for one in await boxes.use_of_people(deps, None, "", 10)}
    assert (found[ADA].tasks, found[ADA].boxes, found[ADA].tokens, found[ADA].sessions) == (1, 3, 1, 1)
    assert found[ADA].seen_at == clock.now()
    assert (found["quiet@example.com"].tasks, found["quiet@example.com"].seen_at) == (0, None)
    text = said((await root.get("/app/people")).text)
    assert f"{ADA} " in text
    assert re.search(rf"{ADA} 20\d\d-\d\d-\d\d \S.*? ago 1 3 active", text), text
    assert re.search(r"quiet@example.com 20\d\d-\d\d-\d\d never 0 0 active", text), text
    one = said((await root.get(f"/app/people/{who.id}")).text)
    for ends in ("1 MCP client of theirs", "1 browser of theirs", "1 open task of theirs", "3 boxes of theirs"):
        assert ends in one
    assert "0 boxes of theirs" in said((await root.get(f"/app/people/{quiet.id}")).text)


async def test_whoever_is_put_out_is_out_and_can_be_let_in_again(deps: Deps) -> None:
    root, ada = await admin(deps), Browser(deps)
    who = await ada.sign_in(ADA)
    made = await people.new_token(deps, ADA, "Claude")
    assert not isinstance(made, Refusal)
    caller = await people.authenticate(deps, made[1])
    assert caller is not None
    page = f"/app/people/{who.id}"
    assert (await root.submit(page, f"{page}/disable")).headers["location"] == page
    shown = (await root.get(page)).text
    assert "is put out" in shown
    assert "disabled" in said((await root.get("/app/people")).text)
    assert f"{page}/enable" in shown
    assert f"{page}/disable" not in shown
    assert (await ada.get("/app/boxes")).status_code == 303
    assert await people.authenticate(deps, made[1]) is None
    assert (await root.submit(page, f"{page}/enable")).headers["location"] == page
    assert f"{ADA} can sign in again." in (await root.get(page)).text
    assert await people.authenticate(deps, made[1]) == caller


async def test_tasks_of_who_was_put_out_close(deps: Deps, database: FreshDatabase) -> None:
    root, ada = await admin(deps), Browser(deps)
    who = await ada.sign_in(ADA)
    async with deps.db.look() as tx:
        (personal,) = await people.memberships(tx, who.id)
    with psycopg.connect(database.owner) as connection:
        boxes_of(connection, personal.org, who.id, 2)
    await root.submit(f"/app/people/{who.id}", f"/app/people/{who.id}/disable")
    assert await tasks.close_put_out(deps) == ["task_aaaa2222"]


async def test_the_last_platform_admin_is_not_put_out_and_is_told_beside_the_form(deps: Deps) -> None:
    root = await admin(deps)
    async with deps.db.look() as tx:
        me = await people.find(tx, ROOT)
    assert isinstance(me, User)
    refused = await root.submit(f"/app/people/{me.id}", f"/app/people/{me.id}/disable")
    assert refused.status_code == 409
    assert "is the only platform admin" in refused.text
    assert "Disable the account" in refused.text
    await user(deps, "second@example.com", admin=True)
    assert (await root.submit(f"/app/people/{me.id}", f"/app/people/{me.id}/disable")).status_code == 303
    assert (await root.get("/app/people")).status_code == 303


async def test_two_platform_admins_who_put_each_other_out_at_once_leave_one(deps: Deps) -> None:
    emails = (ROOT, "second@example.com")
    browsers = [await admin(deps, email) for email in emails]
    async with deps.db.look() as tx:
        ids = [one.id for email in emails if (one := await people.find(tx, email))]
    first, second = await asyncio.gather(
        browsers[0].submit("/app/people", f"/app/people/{ids[1]}/disable"),
        browsers[1].submit("/app/people", f"/app/people/{ids[0]}/disable"),
    )
    assert 303 in (first.status_code, second.status_code)
    left = [one for one in await boxes.use_of_people(deps, None, "", 10) if one.disabled_at is None]
    assert len(left) == 1


async def test_somebody_who_is_not_there_is_no_page(deps: Deps) -> None:
    root = await admin(deps)
    for who in ("user_none", "%00", "🦊", "x" * 5000):
        assert (await root.get(f"/app/people/{who}")).status_code == 404
        assert (await root.submit("/app/people", f"/app/people/{who}/disable")).status_code == 404


async def test_somebody_is_let_in_by_a_letter_until_it_is_withdrawn(deps: Deps) -> None:
    root = await admin(deps)
    assert (await root.submit("/app/people", email="new@example.com")).headers["location"] == "/app/people"
    shown = (await root.get("/app/people")).text
    assert (
        "new@example.com is invited. No mail server is set, so the letter with the link waits on the Mailbox page"
        in shown
    )
    assert "Invited, without an account yet" in shown
    to = "/app/people/invitations/withdraw"
    assert (await root.submit("/app/people", to, email="new@example.com")).status_code == 303
    assert "Invited, without an account yet" not in (await root.get("/app/people")).text
    assert (await root.submit("/app/people", to, email="new@example.com")).status_code == 409
    for email in ("no address", ROOT, "<b>", "🦊" * 200):
        refused = await root.submit("/app/people", email=email)
        assert refused.status_code == 409
        assert f'value="{email.replace("<", "&lt;").replace(">", "&gt;")}"' in refused.text
        assert 'aria-invalid="true"' in refused.text


async def test_thousands_are_shown_page_by_page_and_found_by_their_address(deps: Deps, database: FreshDatabase) -> None:
    root = await admin(deps)
    with psycopg.connect(database.owner) as connection:
        connection.execute(
            """
            INSERT INTO users (id, email, admin, created_at)
            SELECT 'user_' || n, 'p' || lpad(n::text, 4, '0') || '_100%%\\@example.com', false,
                   now() + (n / 7) * interval '1 second'
            FROM generate_series(1, 2500) n
            """,
            (),
        )
    seen, path, pages = [], "/app/people", 0
    while path:
        page = (await root.get(path)).text
        seen += re.findall(r'href="/app/people/(user_\d+)"', page)
        following = re.search(r'rel="next" href="([^"]+)"', page)
        path, pages = unescape(following[1]) if following else "", pages + 1
    assert pages == 26
    assert len(seen) == len(set(seen)) == 2500
    for part, found in (("P0042", 1), ("_100%", 100), ("%", 100), ("\\", 100), ("100_", 3), ("nobody", 0)):
        page = (await root.client.get("/app/people", params={"find": part})).text
        assert len(re.findall(r'href="/app/people/user_\d+"', page)) == found, part
        assert ("Nobody found" in page) == (found == 0)
    following = re.search(r'rel="next" href="([^"]+)"', (await root.client.get("/app/people?find=_100%25")).text)
    assert following
    assert "find=_100%25" in following[1]
    assert (await root.get("/app/people?after=nobody")).status_code == 200


@pytest.mark.parametrize("part", ["<script>alert(1)</script>", "\u202egnp", "'; DROP TABLE users; --", "🦊" * 200])
async def test_what_was_looked_for_is_text(deps: Deps, part: str) -> None:
    root = await admin(deps)
    page = await root.client.get("/app/people", params={"find": part})
    assert page.status_code == 200
    assert part in unescape(page.text)
    assert "<script>alert" not in page.text
