"""`rift github …` as it is typed, and what the doctor says of GitHub: beside a stand-in, and where there is none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.behaviour.cli.systems import Running, rift
from tests.behaviour.github.whole import ADMIN, Whole, whole
from tests.github.standin import StandIn


@pytest.fixture
def without(github: StandIn) -> Iterator[Whole]:
    with whole(github, with_app=False) as made:
        yield made


@pytest.fixture
def there(github: StandIn) -> Iterator[Whole]:
    with whole(github) as made:
        yield made


def finding(up: Running) -> dict[str, Any] | None:
    """What the doctor says of GitHub, if anything."""
    told = rift("doctor", "--json", "--data", up.data, env=up.env)
    return next((one for one in json.loads(told.out) if one["name"] == "github"), None)


def test_without_an_app_each_command_says_how_one_is_made_and_the_doctor_nothing(without: Whole) -> None:
    up = without.rift
    assert rift("github", "status", "--data", up.data).out == (
        "No GitHub App yet. `rift github app-manifest` makes one.\n"
    )
    assert rift("github", "status", "--json", "--data", up.data).json == {"app": None, "accounts": [], "people": []}
    told = rift("github", "app-manifest", "--org", "acme", "--data", up.data)
    first, second = told.out.splitlines()
    assert first.startswith(f"Open {without.address}/github/app/new?org=acme as a platform admin")
    assert second.startswith("GitHub cannot reach this address, so the App gets no webhooks")
    shown = rift("github", "app-manifest", "--print", "--data", up.data).out
    assert json.loads(shown.partition("\nOpen ")[0])["url"]
    wrong = rift("github", "app-manifest", "--org", "no such/org", "--data", up.data)
    assert (wrong.status, wrong.out) == (1, "")
    assert "'no such/org' cannot be an organization at GitHub." in wrong.err
    assert finding(up) is None
    up.end()
    down = rift("github", "app-manifest", "--data", up.data)
    assert (down.status, down.out) == (1, "")
    assert f"no Rift runs on {up.data}, and GitHub sends your browser back to it." in down.err
    assert f"up --data {up.data}" in down.err


async def test_what_is_connected_is_shown_without_a_secret_and_the_doctor_asks_github(there: Whole) -> None:
    up, app = there.rift, there.app
    assert app is not None
    await there.connect_all()
    told = rift("github", "status", "--data", up.data, env=up.env)
    assert told.out.splitlines()[0] == f"App {app.slug} ({app.id}), set, with webhooks"
    assert told.out.splitlines()[2:] == ["account acme  Organization  enabled", f"{ADMIN} is ada"]
    for secret in (app.client_secret, app.webhook_secret, app.pem.splitlines()[1]):
        assert secret not in told.out + told.err
    found = finding(up)
    assert found is not None
    assert found["ok"]
    assert found["sentence"] == f"GitHub takes the App {app.slug}; it is installed in 1 account."
    there.github.break_down(status=503)
    found = finding(up)
    assert found is not None
    assert not found["ok"]
    assert found["sentence"].startswith(f"The GitHub App cannot be used at {there.github.url}: ")
    there.github.calm()
