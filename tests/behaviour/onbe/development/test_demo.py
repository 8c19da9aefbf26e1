"""The demo, played against a server as it is composed: every step holds, and what is wrong is told with its mend."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import httpx2
from rich.console import Console
from tests.behaviour.onbe.development.started import ADMIN_KEY, started

from keel.testing.plugin import FreshDatabase
from onbe.demo import play
from onbe.demo.scene import HELPER, SCRIBE
from onbe.demo.story import STEPS

DEVELOPMENT: dict[str, Any] = {"development": {"enabled": True}}


async def told(url: str, key: str = ADMIN_KEY) -> tuple[int, str]:
    """The demo's exit code, and what it said."""
    said = io.StringIO()
    return await play(url, key, patience=0.0, console=Console(file=said, width=200)), said.getvalue()


async def test_every_step_holds_and_it_can_be_played_again(onbe_database: FreshDatabase, tmp_path: Path) -> None:
    async with started(onbe_database, tmp_path, **DEVELOPMENT) as deps:
        for _ in range(2):
            code, said = await told(deps.settings.issuer)
            assert code == 0, said
            assert f"All {len(STEPS)} steps are as they should be" in said
            assert "eyJ" not in said
            assert "task_grant_" not in said
        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {ADMIN_KEY}"}) as http:
            for agent in (SCRIBE, HELPER):
                left = (await http.get(f"{deps.settings.issuer}/admin/agents/{agent}")).json()
                assert left["enabled"] is False
            person = (await http.get(f"{deps.settings.issuer}/development/person")).json()
            assert person["enabled"] is True
            blocked = await http.get(f"{deps.settings.issuer}/admin/sponsors/{person['id']}/block")
            assert blocked.status_code == 404


async def test_a_server_without_the_development_issuer_is_told_what_it_lacks(
    onbe_database: FreshDatabase, tmp_path: Path
) -> None:
    real: dict[str, Any] = {"subjects": {"issuer": "https://id.example.com", "audiences": ("onbe",)}, **DEVELOPMENT}
    async with started(onbe_database, tmp_path, **real) as deps:
        code, said = await told(deps.settings.issuer)
        headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
        async with httpx2.AsyncClient(headers=headers) as http:
            agents = (await http.get(f"{deps.settings.issuer}/admin/agents")).json()["agents"]
    assert code == 1
    assert "an identity provider with one person" in said
    assert "onbe serve --development" in said
    assert agents == [], "a server that people work with is left as it was"


async def test_a_wrong_key_and_a_server_that_is_away_end_it_with_a_sentence(
    onbe_database: FreshDatabase, tmp_path: Path
) -> None:
    async with started(onbe_database, tmp_path, **DEVELOPMENT) as deps:
        code, said = await told(deps.settings.issuer, "another-key-of-tests-0123456789abcdef")
        assert code == 1
        assert "401" in said
        assert "another-key" not in said
    code, said = await told(deps.settings.issuer)
    assert code == 1
    assert "onbe serve" in said
