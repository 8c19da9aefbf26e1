"""GitHub's webhooks at their door: signed, once, in any order, believed in nothing but that it is time to look."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from tests.behaviour.coverage.covering import Covering, covering
from tests.behaviour.github.hub import WITH_APP, hub_of
from tests.unit.people.house import house

from keel.sizes import MIB
from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase
from rift.coverage import actions as coverage
from rift.deps import Deps
from rift.drivers.github.fake import APP
from rift.repos.model import Watched
from rift.settings import RiftSettings
from rift.wire.hooks.github import PATH, hook_routes

STRANGER = "203.0.113.9"
NOT_OURS = (401, "This is not signed as GitHub signs.")


@pytest.fixture
async def acme(database: FreshDatabase, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Covering]:
    """An account that is covered, with one watched repository and one that is not."""
    async with house(database, tmp_path, clock) as made:
        acme = await covering(await hub_of(made))
        acme.covers("app", "lib")
        await acme.cover()
        assert isinstance(await acme.watch("acme-inc/app"), Watched)
        await clear(acme)
        yield acme


async def clear(acme: Covering) -> None:
    async with acme.hub.deps.db.tx() as tx:
        await tx.run("DELETE FROM procrastinate_jobs")


class Sender:
    """Whoever posts to the door."""

    def __init__(self, deps: Deps, address: str = STRANGER) -> None:
        self.app = Starlette(routes=hook_routes(deps))
        self.address = address
        self.count = 0

    def signed(self, raw: bytes, event: str, delivery: str | None = None, secret: str = APP.webhook_secret) -> Any:
        self.count += 1
        return {
            "content-type": "application/json", "x-github-event": event,
            "x-github-delivery": delivery or f"72d3162e-cc78-11e3-81ab-{self.count:012}",
            "x-hub-signature-256": "sha256=" + hmac.new(secret.encode(), raw, hashlib.sha256).hexdigest(),
        }  # fmt: skip

    async def post(self, raw: Any, headers: Any) -> tuple[int, str]:
        transport = httpx2.ASGITransport(self.app, client=(self.address, 4711))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:7433") as client:
            answer = await client.post(PATH, content=raw, headers=headers)
        return answer.status_code, answer.text

    async def send(self, event: str, body: object, delivery: str | None = None) -> tuple[int, str]:
        raw = json.dumps(body).encode()
        return await self.post(raw, self.signed(raw, event, delivery))


async def ids(acme: Covering) -> dict[str, tuple[int, str]]:
    return {row["full"].partition("/")[2]: (github, row["id"]) for github, row in (await acme.rows()).items()}


def push(acme: Covering, repository: int, **more: object) -> dict[str, object]:
    return {
        "ref": "refs/heads/main", "installation": {"id": acme.there.id}, "repository": {"id": repository}, **more
    }  # fmt: skip


async def test_a_push_has_its_repository_read_if_it_is_watched(acme: Covering) -> None:
    names, sender = await ids(acme), Sender(acme.hub.deps)
    assert await sender.send("push", push(acme, names["lib"][0])) == (204, "")
    assert await acme.jobs() == []
    assert await sender.send("push", push(acme, names["app"][0])) == (204, "")
    assert await acme.jobs() == [("origins.sync", {"repo": names["app"][1]})]


@pytest.mark.parametrize(
    ("event", "action"),
    [
        ("installation", "created"), ("installation", "deleted"), ("installation", "suspend"),
        ("installation", "unsuspend"), ("installation", "new_permissions_accepted"),
        ("installation_repositories", "added"), ("installation_repositories", "removed"),
        ("installation_target", "renamed"), ("repository", "renamed"), ("repository", "transferred"),
        ("repository", "archived"), ("repository", "deleted"), ("repository", "a_new_one"),
    ],
)  # fmt: skip
async def test_what_may_change_what_is_covered_has_the_account_listed(acme: Covering, event: str, action: str) -> None:
    body = {"action": action, "installation": {"id": acme.there.id}, "repository": {"id": 1, "name": "../../etc"}}
    assert await Sender(acme.hub.deps).send(event, body) == (204, "")
    assert await acme.jobs() == [("coverage.cover", {"installation": acme.there.id})]


async def test_a_replayed_webhook_changes_nothing(acme: Covering) -> None:
    names, sender = await ids(acme), Sender(acme.hub.deps)
    body = push(acme, names["app"][0])
    assert (await sender.send("push", body, "a-delivery-1"))[0] == 204
    await clear(acme)
    assert (await sender.send("push", body, "a-delivery-1"))[0] == 204
    assert await acme.jobs() == []
    acme.hub.clock.advance(coverage.DELIVERIES_KEPT.total_seconds() + 1)
    await coverage.forget(acme.hub.deps)
    assert await acme.hub.rows("SELECT * FROM github_deliveries") == []


async def test_webhooks_in_any_order_and_about_things_long_past_only_have_it_looked_at_again(acme: Covering) -> None:
    sender, here = Sender(acme.hub.deps), {"installation": {"id": acme.there.id}}
    for event, action in (("installation", "unsuspend"), ("installation", "suspend"), ("installation", "deleted")):
        assert (await sender.send(event, {"action": action, **here}))[0] == 204
    assert await acme.cover() is not None
    account = await acme.account()
    assert (account["suspended_at"], account["removed_at"]) == (None, None)
    assert await acme.names() == ["acme-inc/app", "acme-inc/lib"]


async def test_a_missed_webhook_is_caught_up_by_looking(acme: Covering) -> None:
    acme.covers("new")
    acme.hub.clock.advance(acme.hub.deps.settings.github.cover_every)
    await coverage.poll(acme.hub.deps)
    assert await acme.jobs() == [("coverage.cover", {"installation": acme.there.id})]


BODIES: list[tuple[str, bytes, dict[str, str | None]]] = [
    ("signed by another secret", b"{}", {"x-hub-signature-256": "sha256=" + "0" * 64}),
    ("not signed", b"{}", {"x-hub-signature-256": None}),
    ("signed as of old", b"{}", {"x-hub-signature-256": None, "x-hub-signature": "sha1=" + "0" * 40}),
    ("half signed", b"{}", {"x-hub-signature-256": "sha256=" + "0" * 63}),
    ("a longer one", b"{}", {"x-hub-signature-256": "sha256=" + "0" * 65}),
    ("upper case", b"{}", {"x-hub-signature-256": "SHA256=" + "0" * 64}),
    ("no digits", b"{}", {"x-hub-signature-256": "sha256=" + "\u00e9" * 32}),
]


@pytest.mark.parametrize(("what", "raw", "headers"), BODIES, ids=[one[0] for one in BODIES])
async def test_what_is_not_signed_is_refused_in_one_sentence(
    acme: Covering, what: str, raw: bytes, headers: dict[str, str | None]
) -> None:
    sender = Sender(acme.hub.deps)
    sent = sender.signed(raw, "push") | headers
    made = [(name, str(value).encode("latin-1")) for name, value in sent.items() if value is not None]
    assert await sender.post(raw, made) == NOT_OURS
    assert await acme.hub.rows("SELECT * FROM github_deliveries") == []


async def test_one_bit_of_a_signed_body_changed_is_refused(acme: Covering) -> None:
    sender = Sender(acme.hub.deps)
    raw = json.dumps(push(acme, 1)).encode()
    assert await sender.post(raw.replace(b"main", b"mair"), sender.signed(raw, "push")) == NOT_OURS


async def test_an_app_without_a_secret_answers_as_one_with_another(acme: Covering) -> None:
    settings = WITH_APP.model_copy(update={"github": WITH_APP.github.model_copy(update={"webhook_secret": None})})
    sender = Sender(replace(acme.hub.deps, settings=settings))
    raw = b"{}"
    assert await sender.post(raw, sender.signed(raw, "ping", secret="")) == NOT_OURS


async def test_without_an_app_nothing_is_there(acme: Covering) -> None:
    sender = Sender(replace(acme.hub.deps, settings=RiftSettings()))
    assert (await sender.send("ping", {}))[0] == 404


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe{}", b"[" * 100_000, b'{"a":' + b"9" * 5000 + b"}", b"{}\x00"],
)
async def test_a_signed_body_that_is_no_object_of_json_is_refused(acme: Covering, raw: bytes) -> None:
    sender = Sender(acme.hub.deps)
    assert (await sender.post(raw, sender.signed(raw, "push")))[0] == 400
    assert await acme.jobs() == []


async def test_a_form_is_not_read_as_json(acme: Covering) -> None:
    sender, raw = Sender(acme.hub.deps), b"payload=%7B%7D"
    headers = sender.signed(raw, "push") | {"content-type": "application/x-www-form-urlencoded"}
    assert (await sender.post(raw, headers))[0] == 400


@pytest.mark.parametrize(
    "body",
    [
        {}, {"installation": None}, {"installation": {"id": "1"}}, {"installation": {"id": True}},
        {"installation": {"id": -1}}, {"installation": {"id": 2**80}}, {"installation": [1]},
        {"action": "\x00\ud800", "installation": {"id": 1}}, {"action": {"a": 1}},
    ],
)  # fmt: skip
async def test_odd_shapes_that_are_signed_do_no_harm(acme: Covering, body: object) -> None:
    for event in ("push", "repository", "an_event_to_come", "ping"):
        assert (await Sender(acme.hub.deps).send(event, body, "d-" * 8 + event.replace("_", "-")))[0] == 204
    assert await acme.jobs() == []


async def test_an_installation_that_is_not_ours_is_nothing_to_look_at(acme: Covering) -> None:
    assert (await Sender(acme.hub.deps).send("installation", {"installation": {"id": 99}}))[0] == 204
    assert await acme.jobs() == []


async def test_a_body_that_is_too_large_is_not_read(acme: Covering) -> None:
    sender, read = Sender(acme.hub.deps), 0

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal read
        for _ in range(60):
            read += 1
            yield bytes(MIB)

    headers = sender.signed(b"", "push") | {"content-length": str(60 * MIB)}
    assert (await sender.post(pieces(), headers))[0] == 413
    assert read <= 1
    assert (await sender.post(pieces(), sender.signed(b"", "push")))[0] == 413


async def test_a_stranger_who_goes_on_is_not_read_any_more_and_holds_nobody_else(acme: Covering) -> None:
    sender = Sender(acme.hub.deps)
    answers = [(await sender.post(b"{}", {"x-hub-signature-256": "sha256=" + "0" * 64}))[0] for _ in range(30)]
    assert answers[0] == 400
    assert answers[-1] == 429
    assert (await sender.send("ping", {}))[0] == 429
    sender.address = "198.51.100.7"
    assert (await sender.send("ping", {}))[0] == 204
    sender.address = STRANGER
    acme.hub.clock.advance(60)
    assert (await sender.send("ping", {}))[0] == 204


async def test_another_host_is_not_answered(acme: Covering) -> None:
    sender, raw = Sender(acme.hub.deps), b"{}"
    assert (await sender.post(raw, sender.signed(raw, "ping") | {"host": "evil.example"}))[0] == 421
