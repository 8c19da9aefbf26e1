"""Signing in through an App: by a device's code, by a browser, by what refreshes; and installing and making an App."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.github.desk import Desk
from tests.github.oauth import DEVICE_GRANT

TOKENS = "/login/oauth/access_token"
NEW = "/apps/rift-of-tests/installations/new?state=mine"


def begun(desk: Desk) -> dict[str, Any]:
    return desk.sign_in("/login/device/code")


def asked(desk: Desk, login: dict[str, Any]) -> dict[str, Any]:
    """Ask whether the person answered, as soon as that may be asked."""
    desk.github.advance(timedelta(seconds=5))
    return desk.sign_in(TOKENS, grant_type=DEVICE_GRANT, device_code=login["device_code"])


def told(address: str) -> dict[str, str]:
    """What a browser was sent back with."""
    return {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}


def test_a_device_login_waits_until_the_person_agrees_and_is_good_once(desk: Desk) -> None:
    login = begun(desk)
    assert (login["expires_in"], login["interval"]) == (900, 5)
    assert login["verification_uri"] == f"{desk.github.url}/login/device"
    assert asked(desk, login)["error"] == "authorization_pending"
    with desk.github.browser(desk.ada) as browser:
        assert "all set" in browser.device(login["user_code"].lower())
    given = asked(desk, login)
    assert (given["token_type"], given["expires_in"], given["scope"]) == ("bearer", 28800, "")
    assert desk.ask("GET", "/user", given["access_token"]).json()["login"] == "ada"
    assert asked(desk, login)["error"] == "incorrect_device_code"


def test_who_asks_too_often_must_wait_longer(desk: Desk) -> None:
    login = begun(desk)
    assert asked(desk, login)["error"] == "authorization_pending"
    hasty = desk.sign_in(TOKENS, grant_type=DEVICE_GRANT, device_code=login["device_code"])
    assert (hasty["error"], hasty["interval"]) == ("slow_down", 10)
    assert asked(desk, login)["error"] == "slow_down"


def test_a_device_login_ends_when_it_is_denied_or_too_old(desk: Desk) -> None:
    denied, old = begun(desk), begun(desk)
    with desk.github.browser(desk.ada) as browser:
        browser.device(denied["user_code"], "no")
    assert asked(desk, denied)["error"] == "access_denied"
    desk.github.advance(timedelta(minutes=15))
    assert asked(desk, old)["error"] == "expired_token"


def test_an_app_without_the_device_flow_begins_no_login(desk: Desk) -> None:
    desk.app.device_flow = False
    assert begun(desk)["error"] == "device_flow_disabled"


def test_a_refresh_token_is_used_up_with_the_access_token_beside_it(desk: Desk) -> None:
    login = begun(desk)
    desk.github.answer_device_login(login["user_code"], desk.ada)
    first = asked(desk, login)
    again = desk.sign_in(TOKENS, grant_type="refresh_token", refresh_token=first["refresh_token"])
    assert desk.ask("GET", "/user", again["access_token"]).status_code == 200
    assert desk.ask("GET", "/user", first["access_token"]).status_code == 401
    replayed = desk.sign_in(TOKENS, grant_type="refresh_token", refresh_token=first["refresh_token"])
    assert replayed["error"] == "bad_refresh_token"


def test_a_refresh_token_outlives_its_access_token_and_ends_after_half_a_year(desk: Desk) -> None:
    refresh = desk.github.user_token(desk.app, desk.ada).refresh or ""
    secret = {"client_secret": desk.app.client_secret, "grant_type": "refresh_token"}
    desk.github.advance(timedelta(hours=9))
    first = desk.sign_in(TOKENS, refresh_token=refresh, **secret)
    foreign = secret | {"client_secret": "no"}
    refused = desk.sign_in(TOKENS, refresh_token=first["refresh_token"], **foreign)
    assert refused["error"] == "incorrect_client_credentials"
    desk.github.advance(timedelta(days=185))
    assert desk.sign_in(TOKENS, refresh_token=first["refresh_token"], **secret)["error"] == "bad_refresh_token"


def test_a_browser_is_sent_back_with_a_code_that_is_good_once(desk: Desk) -> None:
    address = f"/login/oauth/authorize?client_id={desk.app.client_id}&state=xyz"
    with desk.github.browser(desk.eve) as browser:
        assert told(browser.authorize(address, "no"))["error"] == "access_denied"
        back = told(browser.authorize(address))
        assert back["state"] == "xyz"
        # Who has authorized the App once is not asked again.
        assert told(str(browser.open(address).headers["location"]))["state"] == "xyz"
    secret = {"client_secret": desk.app.client_secret}
    given = desk.sign_in(TOKENS, code=back["code"], **secret)
    assert desk.ask("GET", "/user", given["access_token"]).json()["login"] == "eve"
    assert desk.sign_in(TOKENS, code=back["code"], **secret)["error"] == "bad_verification_code"
    assert desk.sign_in(TOKENS, code="x", client_secret="no")["error"] == "incorrect_client_credentials"


def test_a_browser_is_not_sent_to_an_address_that_is_not_the_apps(desk: Desk) -> None:
    address = f"/login/oauth/authorize?client_id={desk.app.client_id}&redirect_uri=http://evil.example/back"
    with desk.github.browser(desk.ada) as browser:
        assert browser.open(address).status_code == 400


def test_an_admin_installs_the_app_and_comes_back_with_the_installation_and_a_code(desk: Desk) -> None:
    github = desk.github
    desk.app.request_oauth_on_install = True
    mine = github.make_repo("ada/mine")
    github.make_repo("ada/other")
    with github.browser(desk.ada) as browser:
        back = told(browser.install(NEW, desk.ada.id, [mine.id]))
        assert (back["setup_action"], back["state"]) == ("install", "mine")
        made = github.world.installations[int(back["installation_id"])]
        assert (made.account.login, made.chosen) == ("ada", {mine.id})
        assert told(browser.install(NEW, desk.ada.id))["setup_action"] == "update"
    given = desk.sign_in(TOKENS, code=back["code"], client_secret=desk.app.client_secret)
    assert desk.ask("GET", "/user", given["access_token"]).json()["login"] == "ada"
    created = github.hooks.last("installation", "created").body
    assert [one["full_name"] for one in created["repositories"]] == ["ada/mine"]


def test_who_does_not_administer_the_account_only_asks_for_the_app(desk: Desk) -> None:
    with desk.github.browser(desk.grace) as browser:
        back = told(browser.install(NEW, desk.acme.id))
    assert (back["setup_action"], "installation_id" in back) == ("request", False)
    assert desk.installation.selection == "selected"


def test_a_private_app_is_offered_to_its_owners_account_alone(desk: Desk) -> None:
    desk.app.public = False
    with desk.github.browser(desk.ada) as browser:
        page = browser.open(NEW)
    assert "> acme</label>" in page.text
    assert "> ada</label>" not in page.text


@pytest.mark.parametrize("organization", ["", "acme"])
def test_an_app_is_made_from_a_manifest_and_told_once(desk: Desk, organization: str) -> None:
    manifest = {
        "name": "Made", "url": "http://rift.example", "redirect_url": "http://rift.example/made?x=1",
        "hook_attributes": {"url": "http://rift.example/hooks/github"}, "callback_urls": ["http://rift.example/back"],
        "request_oauth_on_install": True, "public": False, "default_events": ["push"],
        "default_permissions": {"contents": "write"},
    }  # fmt: skip
    where = f"/organizations/{organization}/settings/apps/new" if organization else "/settings/apps/new"
    with desk.github.browser(desk.ada) as browser:
        back = told(browser.make_app(where, json.dumps(manifest), "st"))
    assert (back["x"], back["state"]) == ("1", "st")
    answer = desk.ask("POST", f"/app-manifests/{back['code']}/conversions")
    made = answer.json()
    assert made["owner"]["login"] == (organization or "ada")
    assert made["pem"].startswith("-----BEGIN RSA PRIVATE KEY-----")
    assert desk.ask("POST", f"/app-manifests/{back['code']}/conversions").status_code == 404
    app = desk.github.world.app_of_client(made["client_id"])
    assert (app.webhook_url, app.events, app.device_flow) == ("http://rift.example/hooks/github", ("push",), False)


def test_a_manifest_is_good_for_an_hour_and_must_say_where_the_app_is(desk: Desk) -> None:
    with desk.github.browser(desk.ada) as browser:
        manifest = {"name": "Late", "url": "http://rift.example", "redirect_url": "http://rift.example/made"}
        back = told(browser.make_app("/settings/apps/new", json.dumps(manifest)))
        refused = browser.open("/settings/apps/new?manifest=%7B%7D")
    assert refused.status_code == 422
    desk.github.advance(timedelta(minutes=61))
    assert desk.ask("POST", f"/app-manifests/{back['code']}/conversions").status_code == 404
