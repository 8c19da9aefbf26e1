"""The Organization pages: who sees what of a team, and who changes it."""

from __future__ import annotations

import asyncio
import re
from html import unescape

import psycopg
import pytest
from tests.unit.people.house import outcomes, user
from tests.wire.web.browsing import Browser
from tests.wire.web.teams import boxes_of, joins, members, said, signed_in, team_of, values

from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase
from rift.deps import Deps
from rift.wire.web.pages import organizations
from rift.wire.web.pages import people as people_page

ADA, BOB, EVE, ROOT = "ada@example.com", "bob@example.com", "eve@example.com", "root@example.com"
HOSTILE = ("<script>alert(1)</script>", "'\"><img src=x onerror=alert(1)>", "{{ 7 * 7 }} & co", "Ünï çødé 🦊🦊🦊")


async def test_a_person_has_their_own_organization_and_is_told_how_to_get_into_a_team(deps: Deps) -> None:
    ada = await signed_in(deps, ADA)
    page = (await ada.get("/app/organizations")).text
    assert "personal" in page
    assert "You are in no team" in page
    own = re.search(r'href="(/app/organizations/org_\w+)"', page)
    assert own
    page = (await ada.get(own[1])).text
    assert "nobody else can be in it" in page
    assert "/invite" not in page
    assert "/leave" not in page
    assert (await ada.get(f"{own[1]}/leave")).status_code == 404
    assert (await ada.submit(own[1], f"{own[1]}/leave")).status_code == 404
    refused = await ada.submit(own[1], f"{own[1]}/invite", email=BOB)
    assert (refused.status_code, "nobody is invited to it" in refused.text) == (409, True)


async def test_a_team_is_made_and_joined_by_invitation_and_each_sees_their_part(deps: Deps) -> None:
    ada, bob, eve = [await signed_in(deps, email) for email in (ADA, BOB, EVE)]
    team = await team_of(ada)
    page = (await ada.get(team)).text
    assert "Engines is there, and you are its admin." in page
    assert "None is open." in page
    assert "None is connected. This Rift has no GitHub App" in said(page)
    await joins(ada, team, bob, BOB)
    assert {one.email: one.role for one in (await members(deps, team)).values()} == {ADA: "admin", BOB: "member"}
    page = (await bob.get(team)).text
    assert ADA in page
    assert "/invite" not in page
    assert "/members/" not in page
    assert f"{team}/leave" in page
    assert (await eve.get(team)).status_code == 404
    assert "Engines" in (await bob.get("/app/organizations")).text
    assert "Engines" not in (await eve.get("/app/organizations")).text
    by_name = await bob.get("/app/organizations/Engines")
    assert (by_name.status_code, ADA in by_name.text) == (200, True)


async def test_only_an_admin_of_this_team_changes_it(deps: Deps) -> None:
    root = await user(deps, ROOT, admin=True)
    ada, bob, eve = [await signed_in(deps, email) for email in (ADA, BOB, EVE)]
    team, others = await team_of(ada), await team_of(eve, "Others")
    await joins(ada, team, bob, BOB)
    await ada.submit(team, f"{team}/invite", email="new@example.com")
    (invitation,) = values((await ada.get(team)).text, "invitation")
    ids = {one.email: one.user for one in (await members(deps, team)).values()}
    platform = await signed_in(deps, ROOT)
    for browser, status in ((bob, 403), (eve, 404), (platform, 404)):
        home = "/app/organizations"
        for to, form in (
            (f"{team}/invite", {"email": "x@example.com"}),
            (f"{team}/withdraw", {"invitation": invitation}),
            (f"{team}/members/{ids[ADA]}/role", {"role": "member"}),
            (f"{team}/members/{ids[ADA]}/remove", {}),
        ):
            assert (await browser.submit(home, to, **form)).status_code == status, to
        assert (await browser.get(f"{team}/members/{ids[ADA]}")).status_code == status
    # What belongs to one team is not reached through another.
    assert (await eve.submit(others, f"{others}/withdraw", invitation=invitation)).status_code == 409
    assert (await eve.get(f"{others}/members/{ids[BOB]}")).status_code == 404
    assert (await eve.submit(others, f"{others}/members/{ids[BOB]}/remove")).status_code == 404
    assert (await ada.get(f"{team}/members/{root.id}")).status_code == 404
    assert invitation in (await ada.get(team)).text
    assert {one.email: one.role for one in (await members(deps, team)).values()} == {ADA: "admin", BOB: "member"}


async def test_a_role_is_changed_and_a_member_removed_after_a_page_that_says_what_happens(deps: Deps) -> None:
    ada, bob = [await signed_in(deps, email) for email in (ADA, BOB)]
    team = await team_of(ada)
    await joins(ada, team, bob, BOB)
    one = f"{team}/members/{(await members(deps, team))[BOB].user}"
    assert "No box is destroyed" in (await ada.get(one)).text
    assert (await ada.submit(one, f"{one}/role", role="admin")).headers["location"] == team
    assert f"{BOB} is admin of Engines." in (await ada.get(team)).text
    assert "/invite" in (await bob.get(team)).text
    assert (await ada.submit(one, f"{one}/role", role="member")).status_code == 303
    assert (await ada.submit(one, f"{one}/remove")).headers["location"] == team
    assert (await bob.get(team)).status_code == 404
    assert (await ada.get(one)).status_code == 404
    done = [(action, outcome) for _, via, action, outcome in await outcomes(deps) if via == "web"]
    assert ("web set role", "ok") in done
    assert ("web remove member", "ok") in done


async def test_whoever_leaves_or_is_removed_learns_which_boxes_go(deps: Deps, database: FreshDatabase) -> None:
    ada, bob = [await signed_in(deps, email) for email in (ADA, BOB)]
    team = await team_of(ada)
    await joins(ada, team, bob, BOB)
    org, who = team.rpartition("/")[2], (await members(deps, team))[BOB].user
    with psycopg.connect(database.owner) as connection:
        boxes_of(connection, org, who, 23)
    for page in (await bob.get(f"{team}/leave"), await ada.get(f"{team}/members/{who}")):
        text = said(page.text)
        assert "23 boxes that" in text
        assert "app-main-1 " in text
        assert "and 3 more" in text
    assert "No box is destroyed" in (await ada.get(f"{team}/leave")).text
    assert (await bob.submit(f"{team}/leave")).headers["location"] == "/app/organizations"
    assert (await bob.get(team)).status_code == 404


async def test_the_last_admin_stays_and_is_told_why_beside_the_form(deps: Deps) -> None:
    ada, bob = [await signed_in(deps, email) for email in (ADA, BOB)]
    team = await team_of(ada)
    await joins(ada, team, bob, BOB)
    one = f"{team}/members/{(await members(deps, team))[ADA].user}"
    for to, form in ((f"{one}/role", {"role": "member"}), (f"{one}/remove", {}), (f"{team}/leave", {})):
        refused = await ada.submit(team, to, **form)
        assert refused.status_code == 409
        assert "the only admin of Engines" in refused.text
        assert 'role="alert"' in refused.text
    page = (await ada.submit(one, f"{one}/role", role="member")).text
    assert re.search(r'value="member" checked', page), "what was chosen is chosen still"


async def test_two_admins_who_demote_each_other_at_once_leave_one(deps: Deps) -> None:
    ada, bob = [await signed_in(deps, email) for email in (ADA, BOB)]
    team = await team_of(ada)
    await joins(ada, team, bob, BOB, "admin")
    ids = await members(deps, team)
    for what, form in (("role", {"role": "member"}), ("remove", {})):
        answers = await asyncio.gather(
            ada.submit(team, f"{team}/members/{ids[BOB].user}/{what}", **form),
            bob.submit(team, f"{team}/members/{ids[ADA].user}/{what}", **form),
        )
        assert min(answer.status_code for answer in answers) == 303
        assert max(answer.status_code for answer in answers) in (403, 404, 409)
        left = [one.email for one in (await members(deps, team)).values() if one.role == "admin"]
        assert len(left) == 1
        winner, loser = (ada, BOB) if left == [ADA] else (bob, ADA)
        if what == "role":
            await winner.submit(team, f"{team}/members/{ids[loser].user}/role", role="admin")


async def test_a_role_that_is_gone_between_page_and_form_is_no_role(deps: Deps) -> None:
    ada, bob = [await signed_in(deps, email) for email in (ADA, BOB)]
    team = await team_of(ada)
    await joins(ada, team, bob, BOB, "admin")
    ids = await members(deps, team)
    page = (await bob.get(team)).text
    await ada.submit(team, f"{team}/members/{ids[BOB].user}/role", role="member")
    csrf = values(page, "csrf")[0]
    refused = await bob.post(f"{team}/invite", {"csrf": csrf, "email": EVE, "role": "admin"})
    assert refused.status_code == 403
    assert "Only an admin of Engines" in refused.text
    await ada.submit(team, f"{team}/members/{ids[BOB].user}/remove")
    assert (await bob.post(f"{team}/invite", {"csrf": csrf, "email": EVE})).status_code == 404


async def test_an_invitation_is_declined_withdrawn_or_runs_out(deps: Deps, clock: FakeClock) -> None:
    ada, bob = [await signed_in(deps, email) for email in (ADA, BOB)]
    team = await team_of(ada)

    async def invited() -> str:
        assert (await ada.submit(team, f"{team}/invite", email=BOB.upper())).status_code == 303
        return values((await bob.get("/app/organizations")).text, "invitation")[0]

    async def answer(how: str, one: str) -> int:
        return (await bob.submit("/app/organizations", f"/app/organizations/{how}", invitation=one)).status_code

    one = await invited()
    assert await answer("decline", one) == 303
    assert [await answer(how, one) for how in ("accept", "decline")] == [409, 409]
    one = await invited()
    assert (await ada.submit(team, f"{team}/withdraw", invitation=one)).status_code == 303
    assert (await ada.submit(team, f"{team}/withdraw", invitation=one)).status_code == 409
    assert await answer("accept", one) == 409
    one = await invited()
    clock.advance(deps.settings.sign_in.invitation_for.total_seconds() + 1)
    bob, ada = await signed_in(deps, BOB), await signed_in(deps, ADA)
    assert "You are invited" not in (await bob.get("/app/organizations")).text
    assert await answer("accept", one) == 409
    assert "None is open." in (await ada.get(team)).text
    assert set(await members(deps, team)) == {ADA}


async def test_an_invitation_of_another_address_is_not_mine_to_answer(deps: Deps) -> None:
    ada, eve = [await signed_in(deps, email) for email in (ADA, EVE)]
    team = await team_of(ada)
    await ada.submit(team, f"{team}/invite", email=BOB)
    (one,) = values((await ada.get(team)).text, "invitation")
    for how in ("accept", "decline"):
        refused = await eve.submit("/app/organizations", f"/app/organizations/{how}", invitation=one)
        assert refused.status_code == 409
        assert "Engines" not in refused.text
        assert "This invitation is not open any more" in refused.text
    assert set(await members(deps, team)) == {ADA}
    assert one in (await ada.get(team)).text


async def test_what_was_typed_stays_when_it_is_refused(deps: Deps) -> None:
    ada = await signed_in(deps, ADA)
    team = await team_of(ada)
    refused = await ada.submit(team, f"{team}/invite", email="no <address>", role="admin")
    assert refused.status_code == 409
    assert 'value="no &lt;address&gt;"' in refused.text
    assert 'aria-invalid="true"' in refused.text
    assert 'value="admin" selected' in refused.text
    refused = await ada.submit(team, f"{team}/invite", email=ADA)
    assert "is in Engines already" in refused.text
    for name in ("engines", "personal", "", "🦊" * 200, "a" * 65, "ada@example.com", "\u202e\u200f"):
        refused = await ada.submit("/app/organizations", name=name)
        assert refused.status_code == 409, name
        assert f'value="{name.strip()}"' in refused.text


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_name_is_text_wherever_it_is_shown(deps: Deps, name: str) -> None:
    ada, bob = [await signed_in(deps, email) for email in (ADA, BOB)]
    team = await team_of(ada, name)
    await ada.submit(team, f"{team}/invite", email=BOB)
    pages = [await ada.get(team), await ada.get(f"{team}/leave"), await bob.get("/app/organizations")]
    await joins(ada, team, bob, BOB)
    one = f"{team}/members/{(await members(deps, team))[BOB].user}"
    pages += [await ada.get("/app/organizations"), await ada.get(one), await bob.get(team)]
    for page in pages:
        assert page.status_code == 200
        assert name in said(page.text).replace("  ", " ") or name in unescape(page.text)
        assert "<script>alert" not in page.text
        assert "<img src=x" not in page.text
        assert "49 &" not in page.text


async def test_a_name_of_several_lines_or_with_marks_that_turn_text_is_one_plain_line(deps: Deps) -> None:
    ada = await signed_in(deps, ADA)
    page = (await ada.get(await team_of(ada, "Engines\r\nSet-Cookie: a=b\u202egnp"))).text
    assert "Engines Set-Cookie: a=b gnp" in page
    assert "\u202e" not in page


async def test_many_members_and_many_teams_are_shown_page_by_page(deps: Deps, database: FreshDatabase) -> None:
    ada = await signed_in(deps, ADA)
    team = await team_of(ada)
    with psycopg.connect(database.owner) as connection:
        connection.execute(
            """
            INSERT INTO users (id, email, admin, created_at)
            SELECT 'user_' || n, 'p' || lpad(n::text, 4, '0') || '@example.com', false, now()
            FROM generate_series(1, 250) n
            """
        )
        connection.execute(
            "INSERT INTO members (org, user_id, role) SELECT %s, 'user_' || n, 'member' FROM generate_series(1, 250) n",
            (team.rpartition("/")[2],),
        )
        connection.execute(
            """
            INSERT INTO orgs (id, name, created_at)
            SELECT 'org_' || n, 'team ' || n, now() FROM generate_series(1, 150) n
            """
        )
        connection.execute(
            """
            INSERT INTO members (org, user_id, role)
            SELECT 'org_' || n, (SELECT id FROM users WHERE email = %s), 'member' FROM generate_series(1, 150) n
            """,
            (ADA,),
        )
    seen, path = [], team
    while path:
        page = (await ada.get(path)).text
        seen += re.findall(r"p\d{4}@example\.com</bdi></th>", page)
        following = re.search(r'rel="next" href="([^"]+)"', page)
        path = unescape(following[1]) if following else ""
    assert len(seen) == len(set(seen)) == 250
    teams, path = 0, "/app/organizations"
    while path:
        page = (await ada.get(path)).text
        teams += page.count('<th scope="row">')
        following = re.search(r'rel="next" href="([^"]+)"', page)
        path = unescape(following[1]) if following else ""
    assert teams == 152
    assert (await ada.get(f"{team}?after=nobody")).status_code == 200


async def test_every_form_of_these_pages_wants_its_token(deps: Deps) -> None:
    await user(deps, ROOT, admin=True)
    root = await signed_in(deps, ROOT)
    team = await team_of(root)
    who = (await members(deps, team))[ROOT].user
    before = await outcomes(deps)
    pages = [page for page in (*organizations.PAGES, *people_page.PAGES) if page.post]
    assert len(pages) >= 10
    for page in pages:
        path = page.path.replace("{org}", team.rpartition("/")[2]).replace("{user}", who).replace("{person}", who)
        assert (await root.post(path, {"name": "x", "email": BOB, "csrf": "no"})).status_code == 403, path
        assert (await Browser(deps).post(path, {"email": BOB})).status_code == 303, path
    assert await outcomes(deps) == before
    for path in (
        "/app/organizations",
        team,
        f"{team}/leave",
        f"{team}/members/{who}",
        "/app/people",
        f"/app/people/{who}",
    ):
        html = (await root.get(path)).text
        posts = re.findall(r'<form[^>]*method="post".*?</form>', html, re.DOTALL)
        assert posts, path
        assert all('name="csrf" value="' in form for form in posts), path
