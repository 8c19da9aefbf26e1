"""The page Repositories: what it shows of each organization, and to whom it tells what changes it."""

from __future__ import annotations

import re

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


def account(database: FreshDatabase, org: str, count: int = 0, **more: object) -> None:
    """An account of GitHub's in an organization, with so many covered repositories."""
    facts = {"org": org, "count": count, "enabled": True, "failure": None, "untaken": [], **more}
    with psycopg.connect(database.owner) as connection:
        connection.execute(
            """
            INSERT INTO github_accounts (installation, org, account_id, login, kind, enabled, failure, untaken,
                                         connected_at)
            VALUES (7, %(org)s, 8, 'acme-inc', 'Organization', %(enabled)s, %(failure)s, %(untaken)s, now())
            """,
            facts,
        )
        connection.execute(
            """
            INSERT INTO repos
                (id, org, owner, name, url, network, created_at, forge, account, github_id, default_branch)
            SELECT 'repo_n' || n, %(org)s, 'acme-inc', 'service-' || to_char(n, 'FM0000'), 'https://github.com/x.git',
                   'proxy', now(), 'github', 7, n, 'main' FROM generate_series(1, %(count)s) AS n
            """,
            facts,
        )


async def test_of_thousands_of_repositories_a_page_shows_some_and_finds_any(
    browser: Browser, database: FreshDatabase
) -> None:
    person = await browser.sign_in("ada@example.com")
    place(database, person.id)
    account(database, "org_app", 3000)
    html = (await browser.get("/app/repositories")).text
    assert "3000 repositories" in html
    assert "acme-inc/service-0050" in html
    assert "acme-inc/service-0051" not in html
    assert "/app/repositories?page=2" in html
    html = (await browser.get("/app/repositories?page=2")).text
    assert "acme-inc/service-0051" in html
    html = (await browser.get("/app/repositories?q=SERVICE-27")).text.replace("&#34;", '"')
    assert "acme-inc/service-2718" not in html.partition("service-2700")[0]
    assert 'rift_watch {"repo": "acme-inc/service-2700", "ref": "main", "warm": 1}' in html
    assert "page=2" in html
    assert "has “nowhere” in its name" in (await browser.get("/app/repositories?q=nowhere")).text
    for odd in ("q=%25_%5C", "page=99999", "page=x", "q=" + "a" * 5000):
        assert (await browser.get(f"/app/repositories?{odd}")).status_code == 200


async def test_accounts_are_shown_with_what_turns_them_on_and_what_is_wrong_with_them(
    browser: Browser, database: FreshDatabase
) -> None:
    person = await browser.sign_in("ada@example.com")
    place(database, person.id)
    why = "acme-inc/app: a repository of that name is here already"
    account(database, "org_app", 1, enabled=False, failure="GitHub was asked too often", untaken=[why])
    html = (await browser.get("/app/repositories")).text.replace("&#34;", '"')
    for part in (
        "acme-inc", "not enabled", "GitHub was asked too often", why,
        'rift_github_enable {"org": "org_app", "account": "acme-inc"}',
    ):  # fmt: skip
        assert part in html, part
    assert 'rift_watch {"repo": "acme-inc/service-0001"' not in html


async def test_an_organization_without_repositories_is_told_how_to_begin(
    browser: Browser, database: FreshDatabase
) -> None:
    person = await browser.sign_in("ada@example.com")
    html = (await browser.get("/app/repositories")).text.replace("&#34;", '"')
    assert 'rift_github_connect {"org": "personal"}' in html
    assert "rift repo add OWNER/NAME URL_OR_PATH" in html
    assert person.email in html


async def test_an_admin_opens_and_closes_where_boxes_push_and_a_member_does_not(
    browser: Browser, database: FreshDatabase
) -> None:
    person = await browser.sign_in("ada@example.com")
    repo = place(database, person.id)
    theirs = place(database, person.id, "theirs", "member")
    assert "any branch but its default branch and watched refs" in (await browser.get("/app/repositories")).text
    csrf = re.search(r'name="csrf" value="([^"]+)"', (await browser.get("/app/repositories")).text)
    assert csrf is not None

    async def push(id: str, which: str, allow: str) -> int:
        form = {"csrf": csrf[1], "which": which, "allow": allow}
        return (await browser.post(f"/app/repositories/{id}/push", form)).status_code

    assert await push(repo, "default", "yes") == 303
    assert "any branch but watched refs" in (await browser.get("/app/repositories?q=acme/app")).text
    assert await push(repo, "default", "no") == 303
    assert "any branch but its default branch and watched" in (await browser.get("/app/repositories")).text
    assert await push(theirs, "watched", "yes") == 403
    assert (await outcomes(browser.deps))[-1][2:] == ("web set push", "needs_admin")
    assert await push("repo_nowhere", "watched", "yes") == 404
    assert (await outcomes(browser.deps))[-1][2:] == ("web set push", "no_such_repository")
    before = await outcomes(browser.deps)
    assert await push(repo, "everything", "yes") == 400
    assert await outcomes(browser.deps) == before


async def test_a_build_is_shown_with_the_end_of_its_log_and_the_whole_of_it_is_a_file(
    browser: Browser, database: FreshDatabase
) -> None:
    person = await browser.sign_in("ada@example.com")
    repo = place(database, person.id)
    watch(database, repo, "main")
    said = b"first line\n" + b"building <b>hello</b>\n" * 20_000 + "größer\n".encode()
    said = said[:99_990] + b"\nhttps://ada:pass-phrase@example.com/x \xff\n" + said[99_990:]  # two pieces have it
    with psycopg.connect(database.owner) as connection:
        connection.execute(
            """
            INSERT INTO environments (id, repo, commit, state, epoch, failure, wanted_at)
            VALUES ('env_1', %(repo)s, %(commit)s, 'failed', 1, 'error: <script>no such attribute', now())
            """,
            {"repo": repo, "commit": HEAD},
        )
        for at in range(0, len(said), 100_000):
            connection.execute(
                "INSERT INTO environment_logs (environment, epoch, first, data) VALUES ('env_1', 1, %s, %s)",
                (at, said[at : at + 100_000]),
            )
    page = f"/app/repositories/{repo}/builds/{HEAD}"
    listed = (await browser.get("/app/repositories")).text
    assert page in listed
    assert ">its log<" in listed
    html = (await browser.get(page)).text
    assert "error: &lt;script&gt;no such attribute" in html
    assert "building &lt;b&gt;hello&lt;/b&gt;" in html
    assert "größer" in html
    assert "first line" not in html
    assert f"of {len(said)}" in html
    whole = await browser.get(f"{page}/log")
    assert whole.headers["content-type"] == "text/plain; charset=utf-8"
    assert whole.content == said.replace(b"ada:pass-phrase", b"<your credentials>")
    assert "No environment of this commit" in (await browser.get(f"/app/repositories/{repo}/builds/nope")).text
    other = await user(browser.deps, "bob@example.com")
    hidden = place(database, other.id, "hidden")
    for path in (f"/app/repositories/{hidden}/builds/{HEAD}", f"/app/repositories/{hidden}/builds/{HEAD}/log"):
        assert (await browser.get(path)).status_code == 404
    with psycopg.connect(database.owner) as connection:  # a commit without a flake of ours: nothing was built
        connection.execute("UPDATE environments SET state = 'ready', failure = NULL WHERE id = 'env_1'")
    listed = (await browser.get("/app/repositories")).text
    assert (">what it has<" in listed, ">its log<" in listed) == (True, False)
