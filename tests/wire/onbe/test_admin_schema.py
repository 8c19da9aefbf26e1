"""schemathesis against the live admin API: its OpenAPI document is complete, and true of every answer."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest
from tests.behaviour.onbe.directory.office import KEY, KEYS, Office, office
from tests.wire.serving import served
from tests.wire.testers import Ran, ran

from keel.testing.plugin import FreshDatabase
from onbe.serving import web
from onbe.settings import LimitSettings, OnbeSettings

CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,"
    "response_schema_conformance,negative_data_rejection,unsupported_method,allow_header_conformance,ignored_auth"
)


@pytest.fixture
async def url(onbe_database: FreshDatabase, tmp_path: Path) -> AsyncIterator[str]:
    settings = OnbeSettings(admin=KEYS, limits=LimitSettings(per_source=1_000_000))
    async with office(onbe_database, tmp_path, settings) as opened:
        await _populate(opened)
        async with served(web(opened.deps)) as url:
            yield url


async def _populate(opened: Office) -> None:
    for name in ("mailer", "reporter"):
        assert (await opened.register(name)).status_code == 201


async def schemathesis(url: str, *more: str, home: Path) -> Ran:
    """A run of its command line; exit code 0: nothing failed."""
    return await ran(
        str(Path(sys.executable).parent / "st"), "--no-color", "run", f"{url}/admin/openapi.json",
        "--url", f"{url}/admin", "-H", f"Authorization: Bearer {KEY}",
        "--checks", CHECKS, "--continue-on-failure", "--generation-database", "none", "--warnings", "off",
        "--suppress-health-check", "all", *more, cwd=home, seconds=300,
    )  # fmt: skip


async def test_every_answer_is_as_the_document_says(url: str, tmp_path: Path) -> None:
    done = await schemathesis(
        url, "--phases", "examples,coverage,fuzzing", "--max-examples", "10", "--seed", "7", home=tmp_path
    )
    assert done.code == 0, done.out[-8000:] + done.err


async def test_the_document_s_examples_are_taken(onbe_database: FreshDatabase, tmp_path: Path) -> None:
    async with office(onbe_database, tmp_path) as admin:
        schemas = (await admin.http.get("/openapi.json")).json()["components"]["schemas"]
        (new,), (patch,) = schemas["AgentNew"]["examples"], schemas["AgentPatch"]["examples"]
        made = await admin.http.post("/agents", json=new)
        assert made.status_code == 201, made.text
        assert (await admin.http.patch("/agents/mailer", json=patch)).status_code == 200
        for schema, body in (("Agent", made.json()), ("AgentNew", new), ("AgentPatch", patch)):
            jsonschema.validate(body, schemas[schema])
