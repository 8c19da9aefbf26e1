"""The page Repositories: what it shows of each organization, and to whom it tells what changes it."""

from __future__ import annotations

import psycopg
from tests.unit.people.house import outcomes, user
from tests.wire.web.browsing import Browser

from keel.testing.plugin import FreshDatabase

HEAD = "a" * 40


def place(database: FreshDatabase, owner: str, name: str = "app", role: str = "admin", **more: object) -> str:
    """A repository in a team of its own, which a person has a role in. Its id."""
    facts = {"id": f"repo_{name}", "org": f"org_{name}", "owner": owner, "name": name, "role": role, "failure": None,
             "url": "https://ada:hunter2@git.example/acme/app", **more}  # fmt: skip
    with psycopg.connect(database.owner) as connection:
        connection.execute("INSERT INTO orgs (id, name, created_at) VALUES (%(org)s, %(org)s, now())", facts)
        connection.execute("INSERT INTO members (org, user_id, role) VALUES (%(org)s, %(owner)s, %(role)s)", facts)
        connection.execute(
            """
            INSERT INTO repos (id, org, owner, name, url, network, failure, synced_at, created_at)
            VALUES (%(id)s, %(org)s, 'acme', %(name)s, %(url)s, 'proxy', %(failure)s, now(), now())
            """,
            facts,
        )
    return str(facts["id"])


def watch(
    database: FreshDatabase, repo: str, ref: str, head: str | None = HEAD, failure: str | None = None, warm: int = 1
) -> None:
    """A watched ref as it would be stored."""
    with psycopg.connect(database.owner) as connection:
        facts = {"repo": repo, "ref": ref, "head": head, "failure": failure, "warm": warm}
        connection.execute(
            """
            INSERT INTO watches (repo, ref, warm, failure, failure_commit, failure_at, created_at)
            VALUES (%(repo)s, %(ref)s, %(warm)s, %(failure)s, CASE WHEN %(failure)s::text IS NOT NULL THEN %(head)s END,
                    CASE WHEN %(failure)s::text IS NOT NULL THEN now() END, now())
            """,
            facts,
        )
        if head:
            connection.execute("INSERT INTO heads (repo, ref, commit) VALUES (%(repo)s, %(ref)s, %(head)s)", facts)


async def test_the_page_shows_each_repository_with_its_refs_and_the_whole_failure(
    browser: Browser, database: FreshDatabase
) -> None:
    person = await browser.sign_in("ada@example.com")
    repo = place(database, person.id)
    whole = "line one\n" + "y" * 20_000 + "\nthe last line"
    watch(database, repo, "main", failure=whole)
    watch(database, repo, "next", head=None)
    watch(database, repo, "cold", warm=0)
    html = (await browser.get("/app/repositories")).text
    for part in (
        "org_app", "acme/app", "main", HEAD[:10], "0 of 1 ready", "failed", "no such branch", "cold starts", whole,
        "usual registries and forges", "4 GiB",
    ):  # fmt: skip
        assert part in html, part


async def test_an_admin_reads_the_exact_calls_and_a_member_whom_to_ask(
    browser: Browser, database: FreshDatabase
) -> None:
    person = await browser.sign_in("ada@example.com")
    watch(database, place(database, person.id), "main")
    place(database, person.id, "theirs", "member")
    html = (await browser.get("/app/repositories")).text.replace("&#34;", '"')
    assert 'rift_watch {"repo": "acme/app", "ref": "main", "warm": 2}' in html
    assert 'rift_unwatch {"repo": "acme/app", "ref": "main"}' in html
    assert "rift repo limits acme/app --memory 8GiB" in html
    assert "acme/theirs --memory" not in html
    assert "Ask an admin of org_theirs" in html


async def test_a_failure_at_the_head_is_tried_again_by_the_call_that_is_shown(
    browser: Browser, database: FreshDatabase
) -> None:
    person = await browser.sign_in("ada@example.com")
    watch(database, place(database, person.id), "main", failure="no room", warm=3)
    html = (await browser.get("/app/repositories")).text.replace("&#34;", '"')
    assert 'rift_watch {"repo": "acme/app", "ref": "main", "warm": 3}' in html


async def test_nobody_sees_the_repositories_of_others(browser: Browser, database: FreshDatabase) -> None:
    await browser.sign_in("ada@example.com")
    other = await user(browser.deps, "bob@example.com")
    place(database, other.id)
    html = (await browser.get("/app/repositories")).text
    assert "acme/app" not in html
    assert "No repository" in html


async def test_credentials_of_an_origin_and_secrets_in_a_failure_are_not_shown(
    browser: Browser, database: FreshDatabase
) -> None:
    person = await browser.sign_in("ada@example.com")
    secret = "rift_" + "A" * 43
    repo = place(database, person.id, failure=f"could not read it: {secret}")
    watch(database, repo, "main", failure=f"<script>{secret}</script>")
    html = (await browser.get("/app/repositories")).text
    assert "hunter2" not in html
    assert secret not in html
    assert "&lt;script&gt;" in html


async def test_looking_at_repositories_writes_no_record(browser: Browser, database: FreshDatabase) -> None:
    person = await browser.sign_in("ada@example.com")
    place(database, person.id)
    before = await outcomes(browser.deps)
    assert (await browser.get("/app/repositories")).status_code == 200
    assert await outcomes(browser.deps) == before
