"""The Secrets pages and their API: who sees and changes what, and that no answer ever holds a value."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import httpx2
import pytest
from tests.unit.people.house import outcomes
from tests.wire.web.browsing import PUBLIC, Browser
from tests.wire.web.teams import signed_in

from keel.ids import digest
from rift.deps import Deps
from rift.people import actions as people
from rift.wire.web.visit import csrf_of

ADA, BOB, EVE = "ada@example.com", "bob@example.com", "eve@example.com"
VALUE = "sk_live_4242424242424242"
HOME = "/app/secrets/repo_app"
API = "/api/repos/acme/app/secrets"


@dataclass
class Team:
    ada: Browser
    bob: Browser
    eve: Browser


@pytest.fixture
async def team(deps: Deps) -> Team:
    """Ada is the admin of a team with a repository, Bob is a member, Eve is nobody there."""
    browsers = [Browser(deps) for _ in range(3)]
    ids = [(await browser.sign_in(email)).id for browser, email in zip(browsers, (ADA, BOB, EVE), strict=True)]
    async with deps.db.tx() as tx:
        await tx.run("INSERT INTO orgs (id, name, created_at) VALUES ('org_team', 'team', now())")
        for id, role in zip(ids[:2], ("admin", "member"), strict=True):
            await tx.run(
                "INSERT INTO members (org, user_id, role, joined_at) VALUES ('org_team', %(id)s, %(role)s, now())",
                {"id": id, "role": role},
            )
        await tx.run(
            """
            INSERT INTO repos (id, org, owner, name, url, created_at)
            VALUES ('repo_app', 'org_team', 'acme', 'app', 'https://example.org/acme/app.git', now())
            """
        )
    return Team(*browsers)


def csrf(browser: Browser) -> str:
    return csrf_of(browser.client.cookies["rift_session"])


async def call(browser: Browser, method: str, path: str, told: object = None, **more: str) -> httpx2.Response:
    """The API as a script of a page of ours calls it."""
    headers = {"origin": PUBLIC, "sec-fetch-site": "same-origin", "content-type": "application/json"}
    headers["x-csrf-token"] = csrf(browser) if "rift_session" in browser.client.cookies else "none"
    headers |= {name.replace("_", "-"): value for name, value in more.items()}
    return await browser.client.request(
        method, path, headers=headers, content=None if told is None else json.dumps(told).encode()
    )


async def stored(deps: Deps) -> dict[str, str]:
    """The values, as their key opens them."""
    async with deps.db.tx() as tx:
        rows = await tx.rows("SELECT repo, name, sealed FROM secrets ORDER BY name")
    return {row["name"]: deps.vault.open(row["sealed"], f"secret {row['repo']} {row['name']}").decode() for row in rows}


async def test_an_admin_sets_changes_and_removes_a_secret_on_its_page(deps: Deps, team: Team) -> None:
    assert 'href="/app/secrets"' in (await team.ada.get("/app")).text
    assert HOME in (await team.ada.get("/app/secrets")).text
    assert HOME in (await team.ada.get("/app/repositories")).text
    done = await team.ada.submit(HOME, name="API_KEY", value=f"{VALUE}\r\n")
    assert (done.status_code, done.headers["location"]) == (303, HOME)
    page = (await team.ada.get(HOME)).text
    assert "API_KEY is set: the next command in each box has it." in page
    assert f"by <bdi>{ADA}</bdi>" in page
    assert VALUE not in page
    await team.ada.submit(HOME, name="API_KEY", value="-----BEGIN-----\r\n  line\r\n-----END-----")
    assert "API_KEY is changed" in (await team.ada.get(HOME)).text
    assert await stored(deps) == {"API_KEY": "-----BEGIN-----\n  line\n-----END-----"}
    assert (await team.ada.submit(HOME, f"{HOME}/remove", name="API_KEY")).status_code == 303
    assert "API_KEY is removed" in (await team.ada.get(HOME)).text
    assert await stored(deps) == {}
    assert (await team.ada.submit(HOME, f"{HOME}/remove", name="API_KEY")).status_code == 404
    done_by = [(action, outcome) for _, via, action, outcome in await outcomes(deps) if "secret" in action]
    assert done_by == [
        ("web set secret", "ok"), ("web set secret", "ok"), ("web remove secret", "ok"),
        ("web remove secret", "no_such_secret"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value", "said", "kept"),
    [
        ("API-KEY", VALUE, "no name for a secret", ""),
        ("PATH", VALUE, "every command in a box goes by it", ""),
        (VALUE + "!", VALUE, "no name for a secret", ""),
        ("API_KEY", "", "it is empty", "API_KEY"),
        ("API_KEY", "x" * 65_537, "65,537 bytes", "API_KEY"),
    ],
)
async def test_after_an_error_the_value_is_typed_again(
    deps: Deps, team: Team, name: str, value: str, said: str, kept: str
) -> None:
    refused = await team.ada.submit(HOME, name=name, value=value)
    assert refused.status_code == 422
    assert said in refused.text
    assert "type it again" in refused.text
    assert VALUE not in refused.text
    assert "xxxxxxxx" not in refused.text
    typed = re.search(r'<input id="f-name"[^>]* value="([^"]*)"', refused.text)
    assert typed
    assert typed[1] == kept
    assert re.search(r'<textarea id="f-value"[^>]*autocomplete="off"[^>]*></textarea>', refused.text)
    assert await stored(deps) == {}
    async with deps.db.tx() as tx:
        rows = await tx.rows("SELECT arguments::text FROM ledger")
    assert VALUE not in str(rows)


async def test_a_value_as_large_as_may_be_goes_through_the_form_and_the_api(deps: Deps, team: Team) -> None:
    large = "é" * 32_768
    assert (await team.ada.submit(HOME, name="LARGE", value=large)).status_code == 303
    assert (await call(team.ada, "PUT", f"{API}/LARGER", {"value": "\x01" * 65_536})).status_code == 201
    assert await stored(deps) == {"LARGE": large, "LARGER": "\x01" * 65_536}


async def test_a_member_sees_names_and_has_no_form_and_a_stranger_sees_nothing(deps: Deps, team: Team) -> None:
    await team.ada.submit(HOME, name="API_KEY", value=VALUE)
    page = (await team.bob.get(HOME)).text
    assert "<code>API_KEY</code>" in page
    assert "its admins set and remove secrets" in page
    assert "<textarea" not in page
    assert f"{HOME}/remove" not in page
    for browser, status in ((team.bob, 403), (team.eve, 404)):
        form = {"csrf": csrf(browser), "name": "API_KEY", "value": "other"}
        assert (await browser.post(HOME, form)).status_code == status
        assert (await browser.post(f"{HOME}/remove", form)).status_code == status
    assert (await team.eve.get(HOME)).status_code == 404
    assert "acme/app" not in (await team.eve.get("/app/secrets")).text
    assert await stored(deps) == {"API_KEY": VALUE}
    nobody = Browser(deps)
    assert (await nobody.get(HOME)).headers["location"].startswith("/sign-in")


async def test_a_form_of_another_site_sets_nothing(deps: Deps, team: Team) -> None:
    form = {"csrf": csrf(team.ada), "name": "API_KEY", "value": VALUE}
    for told in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
        assert (await team.ada.post(HOME, form, told)).status_code == 403
    assert (await team.ada.post(HOME, {**form, "csrf": csrf(team.bob)})).status_code == 403
    assert await stored(deps) == {}


async def test_the_api_lists_sets_and_removes_for_who_is_signed_in(deps: Deps, team: Team) -> None:
    made = await call(team.ada, "PUT", f"{API}/API_KEY", {"value": f"{VALUE}\n"})
    assert made.status_code == 201
    assert made.json() == {"name": "API_KEY", "set_at": made.json()["set_at"], "set_by": ADA}
    assert (await call(team.ada, "PUT", f"{API}/API_KEY", {"value": f"{VALUE}\n"})).status_code == 200
    assert await stored(deps) == {"API_KEY": f"{VALUE}\n"}
    for browser in (team.ada, team.bob):
        listed = await browser.get(API)
        assert listed.json() == {"repo": "acme/app", "secrets": [made.json()]}
        assert listed.headers["cache-control"] == "no-store"
    gone = await call(team.ada, "DELETE", f"{API}/API_KEY")
    assert (gone.status_code, gone.content) == (204, b"")
    assert await stored(deps) == {}


@pytest.mark.parametrize(
    ("method", "path", "told", "status", "code"),
    [
        ("PUT", f"{API}/API-KEY", {"value": VALUE}, 422, "secret_name"),
        ("PUT", f"{API}/PATH", {"value": VALUE}, 422, "secret_name_taken"),
        ("PUT", f"{API}/API_KEY", {"value": ""}, 422, "secret_value"),
        ("PUT", f"{API}/API_KEY", {"value": 7}, 400, "bad_form"),
        ("PUT", f"{API}/API_KEY", {"value": "a\0"}, 400, "bad_form"),
        ("PUT", f"{API}/API_KEY", [VALUE], 400, "bad_form"),
        ("PUT", f"{API}/API_KEY", {"value": "x" * (513 * 1024)}, 413, "form_too_large"),
        ("DELETE", f"{API}/API_KEY", None, 404, "no_such_secret"),
        ("DELETE", f"{API}/{VALUE}%21", None, 404, "no_such_secret"),
        ("PUT", "/api/repos/acme/none/secrets/API_KEY", {"value": VALUE}, 404, "no_such_repository"),
        ("GET", "/api/repos/acme/none/secrets", None, 404, "no_such_repository"),
    ],
)
async def test_the_api_refuses_by_problem_documents_with_their_mends(
    deps: Deps, team: Team, method: str, path: str, told: object, status: int, code: str
) -> None:
    refused = await call(team.ada, method, path, told)
    assert refused.status_code == status
    assert refused.headers["content-type"] == "application/problem+json"
    problem = refused.json()
    assert problem["type"] == f"urn:rift:refusal:{code}"
    assert problem["status"] == status
    assert problem["mends"]
    assert VALUE not in refused.text
    assert await stored(deps) == {}


async def test_members_change_nothing_by_the_api_and_strangers_see_nothing(deps: Deps, team: Team) -> None:
    for browser, status in ((team.bob, 403), (team.eve, 404)):
        assert (await call(browser, "PUT", f"{API}/API_KEY", {"value": VALUE})).status_code == status
        assert (await call(browser, "DELETE", f"{API}/API_KEY")).status_code == status
    assert (await team.eve.get(API)).status_code == 404
    assert await stored(deps) == {}


async def test_the_api_answers_nobody_who_is_not_signed_in(deps: Deps, team: Team) -> None:
    for method, path in (("GET", API), ("PUT", f"{API}/API_KEY"), ("DELETE", f"{API}/API_KEY")):
        refused = await call(Browser(deps), method, path, {"value": VALUE} if method == "PUT" else None)
        assert (refused.status_code, refused.json()["type"]) == (401, "urn:rift:refusal:not_signed_in")


async def test_the_api_takes_no_clients_token_not_even_an_admins(deps: Deps, team: Team) -> None:
    made = await people.new_token(deps, ADA, "Claude")
    assert isinstance(made, tuple)
    for browser in (Browser(deps), team.ada):
        for method, path in (("GET", API), ("PUT", f"{API}/API_KEY"), ("DELETE", f"{API}/API_KEY")):
            told = {"value": VALUE} if method == "PUT" else None
            refused = await call(browser, method, path, told, authorization=f"Bearer {made[1]}")
            assert (refused.status_code, refused.json()["type"]) == (403, "urn:rift:refusal:no_token_here")
    assert await stored(deps) == {}
    assert digest(made[1])  # the token is a good one


@pytest.mark.parametrize(
    "told",
    [{"origin": "https://evil.example"}, {"sec_fetch_site": "cross-site"}, {"x_csrf_token": "guess"},
     {"x_csrf_token": ""}],
)  # fmt: skip
async def test_the_api_changes_nothing_for_another_site(deps: Deps, team: Team, told: dict[str, str]) -> None:
    refused = await call(team.ada, "PUT", f"{API}/API_KEY", {"value": VALUE}, **told)
    assert (refused.status_code, refused.json()["type"]) == (403, "urn:rift:refusal:foreign_form")
    assert await stored(deps) == {}


async def test_the_api_answers_to_its_own_names_alone(team: Team) -> None:
    assert (await team.ada.get(API, host="evil.example")).status_code == 421


async def test_a_person_with_a_name_that_two_organizations_have_is_given_their_own(deps: Deps, team: Team) -> None:
    ada = await signed_in(deps, ADA)
    assert (await ada.get(API)).status_code == 200
