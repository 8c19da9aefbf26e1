"""The App: made from a running Rift, by a platform admin, once; or set by the settings, which win."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import pytest
from pydantic import ValidationError
from tests.behaviour.github.hub import WITH_APP, Hub, code_of
from tests.unit.people.house import act

from keel.refusal import Refusal
from keel.vault import vault_of
from rift.deps import Deps
from rift.drivers.github.fake import APP
from rift.drivers.github.protocol import App, GitHubError
from rift.registration import actions
from rift.registration.decide import manifest
from rift.registration.model import Making
from rift.settings import GitHubSettings, RiftSettings, ServerSettings

MADE = replace(APP, id=77, slug="rift-ours", private_key="-----BEGIN made", client_secret="made-secret")


def bare(hub: Hub, public: str | None = None) -> Deps:
    """A Rift whose settings name no App."""
    return replace(hub.deps, settings=RiftSettings(server=ServerSettings(public_url=public)))


async def begun(hub: Hub, deps: Deps, org: str | None = None) -> tuple[Making, str]:
    making = await actions.begin_making(deps, act(hub.ada), org)
    assert isinstance(making, Making), making
    return making, parse_qs(urlsplit(making.url).query)["state"][0]


async def test_the_app_that_github_made_is_kept_sealed_and_is_the_app_from_then_on(hub: Hub) -> None:
    deps = bare(hub, "https://rift.example.com")
    assert await actions.app_of(deps) is None
    making, state = await begun(hub, deps)
    assert making.replaces is None
    hub.github.manifests["code1"] = MADE
    assert await actions.finish_making(deps, act(hub.ada), "code1", state) == MADE
    assert await actions.app_of(deps) == MADE
    told = repr(await hub.rows("SELECT * FROM github_app")) + repr(await hub.rows("SELECT * FROM ledger"))
    for secret in (MADE.client_secret, MADE.private_key, MADE.webhook_secret):
        assert secret not in told
        assert secret not in repr(MADE)
    standing = await actions.standing(deps)
    assert standing is not None
    assert (standing.app_id, standing.set, standing.webhooks) == (77, False, True)
    again, _ = await begun(hub, deps)
    assert again.replaces == "rift-ours"


async def test_an_app_that_was_made_where_github_cannot_reach_us_has_no_webhooks_to_believe(hub: Hub) -> None:
    deps = bare(hub)
    _, state = await begun(hub, deps)
    hub.github.manifests["code1"] = MADE
    assert await actions.finish_making(deps, act(hub.ada), "code1", state) == replace(MADE, webhook_secret="")
    standing = await actions.standing(deps)
    assert standing is not None
    assert not standing.webhooks


async def test_whoever_is_no_platform_admin_any_more_once_github_has_answered_makes_no_app(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    deps = bare(hub)
    _, state = await begun(hub, deps)
    hub.github.manifests["code1"] = MADE
    convert = hub.github.convert

    async def demoted(code: str) -> App:
        await hub.rows(f"UPDATE users SET admin = false WHERE id = '{hub.ada.user}' RETURNING id")
        return await convert(code)

    monkeypatch.setattr(hub.github, "convert", demoted)
    assert code_of(await actions.finish_making(deps, act(hub.ada), "code1", state)) == "needs_platform_admin"
    assert await hub.rows("SELECT * FROM github_app") == []


async def test_the_apps_state_is_good_once_and_for_the_platform_admin_who_began(hub: Hub) -> None:
    deps = bare(hub)
    assert code_of(await actions.begin_making(deps, act(hub.bob), None)) == "needs_platform_admin"
    _, state = await begun(hub, deps)
    for number in range(5):
        hub.github.manifests[f"code{number}"] = replace(MADE, id=number)
    assert code_of(await actions.finish_making(deps, act(hub.bob), "code0", state)) == "needs_platform_admin"
    assert code_of(await actions.finish_making(deps, act(hub.ada), "code0", f"{state}x")) == "github_making_over"
    many = await asyncio.gather(
        *(actions.finish_making(deps, act(hub.ada), f"code{number}", state) for number in range(5))
    )
    assert sum(isinstance(one, App) for one in many) == 1
    assert {one.code for one in many if isinstance(one, Refusal)} == {"github_making_over"}


async def test_a_state_of_an_accounts_connection_makes_no_app_and_the_other_way_round(hub: Hub) -> None:
    there = hub.github.install("acme-inc", "Organization", "ada-l")
    connecting = await hub.state(hub.ada, "acme")
    deps = bare(hub)
    _, making = await begun(hub, deps)
    hub.github.manifests["code1"] = MADE
    assert code_of(await actions.finish_making(deps, act(hub.ada), "code1", connecting)) == "github_making_over"
    assert code_of(await hub.back(hub.ada, making, "ada-l", there.id)) == "github_connect_over"


async def test_a_code_of_no_app_and_github_being_away_keep_nothing(hub: Hub) -> None:
    deps = bare(hub)
    _, state = await begun(hub, deps)
    assert code_of(await actions.finish_making(deps, act(hub.ada), "guessed", state)) == "github_away"
    _, state = await begun(hub, deps)
    assert code_of(await actions.finish_making(deps, act(hub.ada), "", state)) == "github_making_over"
    assert await hub.rows("SELECT * FROM github_app") == []


async def test_the_app_of_the_settings_wins_and_none_is_made_beside_it(hub: Hub) -> None:
    app = await actions.app_of(hub.deps)
    assert app is not None
    assert (app.id, app.html_url) == (APP.id, "https://github.com/apps/rift-test")
    assert code_of(await actions.begin_making(hub.deps, act(hub.ada), None)) == "github_app_set"
    standing = await actions.standing(hub.deps)
    assert standing is not None
    assert standing.set


def test_an_app_is_set_whole_or_not_and_an_enterprise_server_has_its_own_addresses() -> None:
    faults = list(RiftSettings(github=GitHubSettings(app_id=1, client_id="x")).contradictions())
    assert len(faults) == 1
    assert "set together or not at all" in faults[0]
    assert list(WITH_APP.contradictions()) == []
    own = GitHubSettings(url="https://github.example.com/")
    assert (own.url, own.api) == ("https://github.example.com", "https://github.example.com/api/v3")
    with pytest.raises(ValidationError):
        GitHubSettings(url="http://github.example.com")


async def test_an_app_that_cannot_be_unsealed_is_told_as_that(hub: Hub) -> None:
    deps = bare(hub)
    _, state = await begun(hub, deps)
    hub.github.manifests["code1"] = MADE
    await actions.finish_making(deps, act(hub.ada), "code1", state)
    with pytest.raises(GitHubError, match="cannot be opened"):
        await actions.app_of(replace(deps, vault=vault_of([bytes(32)], deps.ids)))


async def test_the_manifest_asks_for_what_boxes_need_and_for_webhooks_where_github_reaches_us(hub: Hub) -> None:
    making, _ = await begun(hub, bare(hub, "https://rift.example.com"), "acme-inc")
    assert making.url.startswith("https://github.com/organizations/acme-inc/settings/apps/new?state=")
    asked = json.loads(making.manifest)
    assert asked == manifest("https://rift.example.com", reachable=True)
    assert asked["hook_attributes"] == {"url": "https://rift.example.com/hooks/github", "active": True}
    assert asked["default_permissions"] == {
        "metadata": "read", "contents": "write", "pull_requests": "write", "issues": "write", "checks": "read",
        "statuses": "read", "actions": "read", "members": "read",
    }  # fmt: skip
    assert len(manifest("https://a-very-long-name-of-a-host.of.some.company.example.com", reachable=True)["name"]) <= 34
    local, _ = await begun(hub, bare(hub), "../../x")
    assert local.url.startswith("https://github.com/settings/apps/new?state=")
    assert "hook_attributes" not in json.loads(local.manifest)
