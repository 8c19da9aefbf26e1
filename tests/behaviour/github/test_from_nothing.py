"""From a Rift without an App to a warm box: the App is made by its manifest, in browsers, as docs/github.md says."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import Iterator

import pytest
from tests.behaviour.cli.systems import rift as command
from tests.behaviour.github.whole import Whole, whole
from tests.github.standin import StandIn

FORM = re.compile(r'<form class="form" method="post" action="([^"]*)"')
MANIFEST = re.compile(r'name="manifest" value="([^"]*)"')


@pytest.fixture
def bare(github: StandIn) -> Iterator[Whole]:
    with whole(github, {"Rift__GitHub__PollEvery": "PT2S"}, with_app=False) as made:
        yield made


async def test_an_app_made_from_a_running_rift_reads_repositories_without_any_webhook(bare: Whole) -> None:
    github, data = bare.github, bare.rift.data
    told = await asyncio.to_thread(command, "github", "app-manifest", "--org", "acme", "--json", "--data", data)
    async with bare.browser() as at_rift:
        page = await at_rift.get(told.json["url"].removeprefix(bare.address))
        form, manifest = FORM.search(page.text), MANIFEST.search(page.text)
        assert form, page.text
        assert manifest, page.text
        with github.browser(bare.ada) as at_github:
            back = await asyncio.to_thread(at_github.make_app, html.unescape(form[1]), html.unescape(manifest[1]))
        assert back.startswith(bare.address), back
        made = await at_rift.get(back.removeprefix(bare.address), follow_redirects=True)
        assert made.status_code == 200, made.text
    bare.app = next(iter(github.world.apps.values()))
    assert (bare.app.owner.login, bare.app.webhook_url) == ("acme", None)
    status = await asyncio.to_thread(command, "github", "status", "--json", "--data", data)
    assert status.json["app"]["slug"] == bare.app.slug
    for secret in (bare.app.client_secret, bare.app.webhook_secret, bare.app.pem.splitlines()[1]):
        assert secret not in status.out + bare.rift.errors() + made.text

    said = await bare.refused("rift_github_login")  # no manifest can turn the device flow on
    assert "device flow" in said
    bare.app.device_flow = True
    await bare.connect_all()
    repo = github.make_repo("acme/app")
    github.cover(bare.app, bare.acme)
    await asyncio.to_thread(bare.rift.end)
    await asyncio.to_thread(bare.rift.up)  # the App is kept, sealed
    await bare.watch(repo)
    head = github.push_from_outside(repo, by=bare.ada)
    await bare.until_warm(repo, head)
