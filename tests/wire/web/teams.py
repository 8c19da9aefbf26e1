"""What the tests of several pages do with teams, and how they read a page."""

from __future__ import annotations

import re
from html import unescape

import psycopg
from tests.unit.people.house import user
from tests.wire.web.browsing import Browser

from rift.deps import Deps
from rift.people import actions as people
from rift.people.model import Person


async def signed_in(deps: Deps, email: str) -> Browser:
    """A browser of this person's."""
    browser = Browser(deps)
    await browser.sign_in(email)
    return browser


async def team_of(browser: Browser, name: str = "Engines") -> str:
    """The path of a team that this browser's person makes."""
    made = await browser.submit("/app/organizations", name=name)
    assert made.status_code == 303, made.text
    return made.headers["location"]


def values(html: str, name: str) -> list[str]:
    """What the hidden fields of this name say."""
    return [unescape(value) for value in re.findall(rf'name="{name}" value="([^"]*)"', html)]


def said(html: str) -> str:
    """The text of a page, as a person reads it."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


async def joins(admin: Browser, team: str, browser: Browser, email: str, role: str = "member") -> None:
    """Invite somebody, who accepts."""
    assert (await admin.submit(team, f"{team}/invite", email=email, role=role)).status_code == 303
    (invitation,) = values((await browser.get("/app/organizations")).text, "invitation")[:1]
    done = await browser.submit("/app/organizations", "/app/organizations/accept", invitation=invitation)
    assert done.headers["location"] == team


async def members(deps: Deps, team: str) -> dict[str, Person]:
    """Who is in a team, by address."""
    async with deps.db.look() as tx:
        return {one.email: one for one in await people.people_of(tx, team.rpartition("/")[2])}


async def admin(deps: Deps, email: str = "root@example.com") -> Browser:
    """A browser of a platform admin's."""
    await user(deps, email, admin=True)
    return await signed_in(deps, email)


def boxes_of(connection: psycopg.Connection[object], org: str, person: str, n: int) -> None:
    """Living boxes of an organization's repository, in an open task of this person."""
    connection.execute(
        """
        INSERT INTO repos (id, org, owner, name, url, created_at)
        VALUES ('repo_1', %s, 'acme', 'app', 'https://example.org/app.git', now())
        """,
        (org,),
    )
    connection.execute(
        """
        INSERT INTO tasks (id, owner, name, status, activity_at, created_at)
        VALUES ('task_aaaa2222', %s, 'work', 'open', now(), now())
        """,
        (person,),
    )
    connection.execute(
        """
        INSERT INTO boxes (id, name, number, repo, ref, commit, task, state, used_at, created_at)
        SELECT 'b-' || n, 'app-main-' || n, n, 'repo_1', 'main', repeat('a', 40), 'task_aaaa2222', 'running', now(),
               now() + n * interval '1 second'
        FROM generate_series(1, %s) n
        """,
        (n,),
    )
