"""Agents as files, as somebody types it: a draft with a key, applied to a live server, again and changed."""

from __future__ import annotations

import json
import stat
import sys
import tomllib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from tests.behaviour.onbe.directory.office import KEY, Office, key, registration
from tests.wire.serving import served
from tests.wire.testers import Ran, ran

from keel import jose
from onbe.serving import web


@dataclass(frozen=True)
class Desk:
    """A terminal in a folder, before a server."""

    url: str
    folder: Path

    async def types(self, *words: str, key: str | None = KEY) -> Ran:
        """What `onbe agent …` does."""
        env = {"ONBE_URL": self.url, "ONBE_DATA": str(self.folder / "nothing"), "ONBE_ADMIN_KEY": key or ""}
        program = str(Path(sys.executable).parent / "onbe")
        done = await ran(program, "agent", *words, env=env, cwd=self.folder)
        assert KEY not in done.out + done.err
        return done

    def write(self, name: str, **members: Any) -> str:
        """A file of a registration, as JSON; its name."""
        (self.folder / name).write_text(json.dumps(registration(**members)))
        return name


@pytest.fixture
async def desk(admin: Office, tmp_path: Path) -> AsyncIterator[Desk]:
    async with served(web(admin.deps)) as url:
        yield Desk(url, tmp_path)


async def test_a_draft_is_applied_as_it_is_and_a_second_time_changes_nothing(admin: Office, desk: Desk) -> None:
    assert (await desk.types("init", "mailer")).code == 0
    secret = desk.folder / "mailer.key.pem"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    file = tomllib.loads((desk.folder / "mailer.agent.toml").read_text())
    private = load_pem_private_key(secret.read_bytes(), None)
    assert isinstance(private, EllipticCurvePrivateKey)
    public = private.public_key().public_numbers()
    assert jose.decode(file["jwks"]["keys"][0]["x"]) == public.x.to_bytes(32)

    again = await desk.types("init", "mailer")
    assert (again.code, "not written over" in again.err) == (1, True)

    first = await desk.types("apply", "mailer.agent.toml")
    assert (first.code, first.out.split()[:2]) == (0, ["create", "mailer"]), first.err
    second = await desk.types("apply", "mailer.agent.toml")
    assert (second.code, second.out.split()[:2]) == (0, ["unchanged", "mailer"])
    assert len(await admin.records()) == 1
    assert (await admin.http.get("/agents/mailer")).json()["jwks"] == file["jwks"]
    assert "mailer  mailer" in (await desk.types("ls")).out
    assert (await desk.types("rm", "mailer")).code == 0
    assert (await desk.types("rm", "mailer")).code == 1


async def test_a_difference_is_shown_by_member_and_made_so(admin: Office, desk: Desk) -> None:
    await admin.register("mailer", max_task_ttl="PT10M", enabled=False)
    file = desk.write(
        "m.json", agent_id="mailer", allowed_scopes=["mail.send", "mail.list"], jwks={"keys": [key("new")]},
        allowed_audiences=["https://files.example.com/", "https://mail.example.com/"],
    )  # fmt: skip
    would = await desk.types("apply", file, "--dry-run")
    assert (would.code, len(await admin.records())) == (0, 1)
    assert "- mail.read  + mail.list" in would.out
    assert "PT10M → the default" in would.out
    assert "allowed_audiences" not in would.out, "their order means nothing"
    done = await desk.types("apply", file, "--json")
    (step,) = json.loads(done.out)["agents"]
    assert (step["action"], set(step["changes"])) == ("change", {"allowed_scopes", "max_task_ttl", "jwks"})
    now = (await admin.http.get("/agents/mailer")).json()
    assert (now["allowed_scopes"], now["max_task_ttl"]) == (["mail.send", "mail.list"], None)
    assert now["enabled"] is False, "what a file does not say of it is left as it is"


async def test_every_file_is_checked_before_anything_is_changed(admin: Office, desk: Desk) -> None:
    good = desk.write("good.json", agent_id="good")
    wrong = desk.write("wrong.json", agent_id="wrong", max_task_tll="PT5M", allowed_scopes=["a b"])
    (desk.folder / "broken.toml").write_text("agent_id = ")
    (desk.folder / "twice.json").write_text('{"agent_id": "a", "agent_id": "b"}')
    twin = desk.write("twin.json", agent_id="good")
    done = await desk.types("apply", good, wrong, "broken.toml", "twice.json", twin, "absent.json", "x.yaml")
    assert (done.code, done.out) == (1, "")
    for said in (
        "wrong.json: max_task_tll is not a member of a registration; the nearest is max_task_ttl",
        "wrong.json: allowed_scopes/0 should be a scope token",
        "broken.toml: is not TOML (at ",
        "twice.json: the member agent_id is there twice",
        "twin.json: agent_id is that of good.json too",
        "absent.json: cannot be read",
        "x.yaml: cannot be read",
    ):
        assert said in done.err
    assert await admin.records() == []


async def test_what_only_the_server_can_refuse_stops_the_rest_too(admin: Office, desk: Desk) -> None:
    """Its bounds are its settings; it is asked of every file first."""
    good, long = desk.write("good.json", agent_id="good"), desk.write("long.json", agent_id="long", max_task_ttl="P9D")
    done = await desk.types("apply", good, long, "--json")
    (error,) = json.loads(done.out)["errors"]
    assert done.code == 1
    assert error == {"file": "long.json", "pointer": "#/max_task_ttl", "detail": "should be from PT1M to P1D"}
    assert (await admin.http.get("/agents/good")).status_code == 404


async def test_how_it_ends_says_what_went_wrong(admin: Office, desk: Desk) -> None:
    file = desk.write("good.json", agent_id="good")
    (desk.folder / "key").write_text(f"{KEY}\n")
    for words, used, code, said in (
        (("apply",), KEY, 2, "Missing argument"),
        (("apply", file), None, 2, "name that with --data or ONBE_DATA"),
        (("apply", file, "--admin-key-file", "absent"), None, 2, "cannot be read"),
        (("apply", file, "--url", "http://onbe.example.com"), KEY, 2, "should be https"),
        (("apply", file, "--url", "ftp://x"), KEY, 2, "should be an address"),
        (("apply", file), "w" * 40, 1, "bearer key"),
        (("apply", file, "--url", "http://127.0.0.1:9"), KEY, 1, "cannot be reached"),
        (("init", "../evil"), KEY, 2, "NAME should be"),
        (("init", "admin"), KEY, 2, "NAME should be"),
        (("rm", "../agents/x"), KEY, 1, "is no agent's id"),
        (("apply", file, "--admin-key-file", "key"), None, 0, ""),
    ):
        done = await desk.types(*words, key=used)
        assert (done.code, said in done.err) == (code, True), (words, done.err)
