"""LFS files through the door: the origin's addresses and credentials stay with Rift."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from tests.behaviour.machines.harness import Place
from tests.behaviour.machines.jails import Jail, recorded
from tests.behaviour.machines.test_verbs import Origin, at_github, github_of

from keel.testing import eventually
from rift.drivers.carrier.fake import FakeCarrier

OID = "c" * 64
MEDIA = "application/vnd.git-lfs+json"
STORE = "https://store.example/objects/1?signature=of-the-origin"
DOOR = "http://127.0.0.1:3127"


async def batch(jail: Jail, operation: str = "upload", **more: Any) -> httpx2.Response:
    body = {"operation": operation, "objects": [{"oid": OID, "size": 3}], **more}
    return await api(jail, "objects/batch", json.dumps(body).encode())


async def api(jail: Jail, path: str, body: bytes) -> httpx2.Response:
    return await jail.ask("POST", f"/git/acme/app.git/info/lfs/{path}", body, {"Content-Type": MEDIA})


def answers(origin: Origin, href: str = STORE, name: str = "upload") -> None:
    """Have the origin give out one address."""
    action = {"href": href, "header": {"Authorization": "Secret of-the-store", "Host": "evil"}}
    told = {"objects": [{"oid": OID, "size": 3, "actions": {name: action}}]}
    origin.answer = (200, {"content-type": MEDIA}, json.dumps(told).encode())


async def test_a_file_is_sent_to_the_origins_own_address_which_the_jail_never_sees(rift: Place, jail: Jail) -> None:
    await at_github(rift)
    origin = Origin(rift)
    rift.deps.carrier.origins["https://store.example/"] = origin  # type: ignore[attr-defined]  # the fake's
    answers(origin)
    said = await batch(jail, ref={"name": "refs/heads/fix"}, transfers=["basic", "evil"], evil=True)
    assert said.status_code == 200, said.text
    assert "store" not in said.text
    assert "ecret" not in said.text
    (one,) = said.json()["objects"]
    assert one["authenticated"] is True
    href = one["actions"]["upload"]["href"]
    assert href.startswith(f"{DOOR}/lfs/")
    method, url, headers, body = origin.asked[0]
    assert (method, url) == ("POST", "https://github.com/acme/app.git/info/lfs/objects/batch")
    assert json.loads(body) == {
        "operation": "upload", "transfers": ["basic"], "objects": [{"oid": OID, "size": 3}],
        "ref": {"name": "refs/heads/fix"},
    }  # fmt: skip
    assert headers["Authorization"].startswith("Basic ")
    origin.answer = (200, {}, b"")
    assert (await jail.ask("PUT", href.removeprefix(DOOR), b"abc")).status_code == 200
    method, url, headers, body = origin.asked[1]
    assert (method, url, body) == ("PUT", STORE, b"abc")
    assert headers["Authorization"] == "Secret of-the-store"
    assert "Host" not in headers
    assert headers["Content-Length"] == "3"
    assert await recorded(rift) == [("lfs", "ok"), ("lfs", "begun"), ("lfs", "ok")]
    batched, *sent = [row["arguments"] for row in await rift.rows("SELECT arguments FROM ledger WHERE via = 'box'")]
    assert batched == {"repo": "acme/app", "operation": "upload", "count": 1, "bytes": 3}
    assert sent == [{"repo": "acme/app", "operation": "upload", "oid": OID, "bytes": 3}] * 2


async def silently(rift: Place, asking: Coroutine[Any, Any, httpx2.Response]) -> list[str]:
    """Ask an origin that never answers, go away when that is on record, and tell the outcomes of all rows."""
    known = await recorded(rift)
    asked = asyncio.create_task(asking)
    try:
        begun = await eventually(lambda: more(rift, len(known)))
        assert begun == [*known, ("lfs", "begun")]
        assert not asked.done()
    finally:
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
    return [outcome for _, outcome in await recorded(rift)]


async def more(rift: Place, than: int) -> list[tuple[str, str]]:
    rows = await recorded(rift)
    return rows if len(rows) > than else []


async def test_a_file_and_a_lock_are_on_record_before_the_origin_hears_of_them(rift: Place, jail: Jail) -> None:
    """What is on record while the origin is silent is what a server that is killed then leaves behind."""
    await at_github(rift)
    origin = Origin(rift)
    assert isinstance(rift.deps.carrier, FakeCarrier)
    answers(origin)
    href = (await batch(jail)).json()["objects"][0]["actions"]["upload"]["href"].removeprefix(DOOR)
    rift.deps.carrier.silent |= {"https://store.example/", "https://github.com/acme/app.git/info/lfs/locks"}
    assert await silently(rift, jail.ask("PUT", href, b"abc")) == ["ok", "begun", "broken_off"]
    assert (await silently(rift, api(jail, "locks", b"{}")))[3:] == ["begun", "broken_off"]
    assert (await silently(rift, api(jail, "locks/7/unlock", b"{}")))[5:] == ["begun", "broken_off"]


async def test_what_became_of_a_file_and_of_a_lock_is_on_record(rift: Place, jail: Jail) -> None:
    await at_github(rift)
    origin = Origin(rift)
    answers(origin)
    href = (await batch(jail)).json()["objects"][0]["actions"]["upload"]["href"].removeprefix(DOOR)
    assert (await jail.ask("PUT", href, b"abc")).status_code == 403
    assert "could not be asked" in (await jail.ask("PUT", href, b"abc")).text
    rift.deps.carrier.origins["https://store.example/"] = origin  # type: ignore[attr-defined]  # the fake's
    origin.answer = (507, {}, b"full")
    assert (await jail.ask("PUT", href, b"abc")).status_code == 507
    origin.answer = (201, {"content-type": MEDIA}, b'{"lock": {"id": "7"}}')
    assert (await api(jail, "locks", b"{}")).status_code == 201
    origin.answer = (409, {"content-type": MEDIA}, b'{"message": "already locked"}')
    assert (await api(jail, "locks", b"{}")).status_code == 409
    origin.answer = (200, {"content-type": MEDIA}, b'{"ours": []}')
    assert (await api(jail, "locks/verify", b"{}")).status_code == 200
    told = [outcome for _, outcome in await recorded(rift)]
    assert told[0] == "ok"
    assert set(told[1::2]) == {"begun"}
    assert told[2::2] == ["verb_origin_failed", "verb_origin_failed", "refused_by_origin", "ok", "refused_by_origin"]


async def test_an_address_of_a_file_is_good_for_its_box_its_method_and_its_time(rift: Place, jail: Jail) -> None:
    await at_github(rift)
    origin = Origin(rift)
    answers(origin)
    href = (await batch(jail)).json()["objects"][0]["actions"]["upload"]["href"].removeprefix(DOOR)
    other = await rift.running_box(jail.handle)
    for said in (
        await jail.ask("GET", href),
        await jail.ask("PUT", href, b"abc", agent=rift.agent(other.id)),
        await jail.ask("PUT", href[:-4] + "AAAA", b"abc"),
        await jail.ask("PUT", "/lfs/guess", b"abc"),
    ):
        assert said.status_code == 403
        assert said.text.startswith("This address of an LFS file is not good any more")
    rift.clock.advance(timedelta(hours=2).total_seconds())
    assert (await jail.ask("PUT", href, b"abc")).status_code == 403
    assert len(origin.asked) == 1


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{}", b'{"operation": "delete", "objects": []}', b'{"operation": "upload", "objects": []}',
     b'{"operation": "upload", "objects": [{"oid": "../x", "size": 1}]}',
     b'{"operation": "upload", "objects": [{"oid": "' + OID.encode() + b'", "size": -1}]}',
     b'{"operation": "upload", "hash_algo": "md5", "objects": [{"oid": "' + OID.encode() + b'", "size": 1}]}',
     b"[" * 10_000],
)  # fmt: skip
async def test_what_is_no_request_for_lfs_files_goes_nowhere(rift: Place, jail: Jail, body: bytes) -> None:
    await at_github(rift)
    origin = Origin(rift)
    said = await api(jail, "objects/batch", body)
    assert (said.status_code, said.json()["message"].partition(":")[0]) == (
        403, "The request for LFS files was not passed on",
    )  # fmt: skip
    assert origin.asked == []
    assert (await api(jail, "objects/../../../../x", b"{}")).status_code in (403, 404)


@pytest.mark.parametrize(
    "href", ["http://169.254.169.254/latest", "file:///etc/passwd", "ftp://x/", "//store/", "", "no"]
)
async def test_an_address_without_tls_elsewhere_is_not_gone_to(rift: Place, jail: Jail, href: str) -> None:
    await at_github(rift)
    origin = Origin(rift)
    answers(origin, href)
    assert "without TLS" in (await batch(jail)).json()["message"]


async def test_what_the_origin_says_of_files_comes_through(rift: Place, jail: Jail) -> None:
    await at_github(rift)
    origin = Origin(rift)
    origin.answer = (422, {}, b'{"message": "over its data quota"}')
    assert "over its data quota" in (await batch(jail)).json()["message"]
    told = {"objects": [{"oid": OID, "size": 3, "error": {"code": 404, "message": "gone"}}]}
    origin.answer = (200, {}, json.dumps(told).encode())
    assert (await batch(jail, "download")).json()["objects"][0]["error"] == {"code": 404, "message": "gone"}
    origin.answer = (404, {}, b'{"message": "no locks"}')
    assert (await api(jail, "locks/verify", b"{}")).status_code == 404
    origin.answer = (200, {}, b"no json")
    assert "is no JSON" in (await batch(jail)).json()["message"]


async def test_an_origin_without_a_server_for_lfs_says_so(rift: Place, jail: Jail) -> None:
    await rift.rows("UPDATE repos SET url = '/srv/git/app' RETURNING id")
    assert "passes no LFS files on" in (await batch(jail)).json()["message"]
    locks = await api(jail, "locks/verify", b'{"ref": {"name": "refs/heads/x"}}')
    assert locks.status_code == 501  # git-lfs asks at each push, and is quiet about this answer
    assert [outcome for _, outcome in await recorded(rift)] == ["verb_no_lfs"]


async def test_a_plain_origins_credentials_open_its_lfs_and_nothing_else(rift: Place, jail: Jail) -> None:
    origin = Origin(rift)
    rift.deps.carrier.origins["https://git.example/"] = origin  # type: ignore[attr-defined]  # the fake's
    await rift.rows("UPDATE repos SET url = 'https://bot:s%40crit@git.example/acme/app' RETURNING id")
    answers(origin, "https://git.example/store/1")
    assert (await batch(jail)).status_code == 200
    _, url, headers, _ = origin.asked[0]
    assert url == "https://git.example/acme/app.git/info/lfs/objects/batch"
    assert headers["Authorization"] == "Basic Ym90OnNAY3JpdA=="
    assert github_of(rift).asked == []


async def test_a_plain_origin_leads_no_file_into_a_private_network_but_to_its_own_host(rift: Place, jail: Jail) -> None:
    origin = Origin(rift)
    assert isinstance(rift.deps.carrier, FakeCarrier)
    rift.deps.carrier.origins |= {"https://git.example": origin, "https://store.example/": origin}
    rift.deps.carrier.private |= {"https://git.example", "https://store.example/"}
    await rift.rows("UPDATE repos SET url = 'https://git.example/acme/app' RETURNING id")
    for store, status in ((STORE, 403), ("https://git.example:9000/store/1", 200)):
        answers(origin, store)
        href = (await batch(jail)).json()["objects"][0]["actions"]["upload"]["href"].removeprefix(DOOR)
        origin.asked.clear()
        said = await jail.ask("PUT", href, b"abc")
        assert said.status_code == status
        assert len(origin.asked) == (status == 200)
        assert ("not of the public internet" in said.text) is (status == 403)


FINE = {"oid": OID, "size": 3, "actions": {"upload": {"href": STORE}}}


@pytest.mark.parametrize(
    "objects",
    [
        [{**FINE, "actions": [1]}],
        [{**FINE, "actions": {"upload": "no"}}],
        [{**FINE, "actions": {"upload": {"href": STORE, "header": {"X": "\u2028ü"}}}}],
        [{**FINE, "actions": {"upload": {"href": STORE, "header": {"X": "a\r\nHost: evil"}}}}],
        [{**FINE, "actions": {"upload": {"href": STORE, "header": {"X y": "a"}}}}],
        [{**FINE, "actions": {"upload": {"href": "https://[no/"}}}],
        [{**FINE, "oid": "../x"}],
        [{**FINE, "size": "3"}],
        [FINE] * 1001,
        {"a": 1},
    ],
)
async def test_what_an_origin_answers_that_is_no_answer_is_told_and_goes_no_further(
    rift: Place, jail: Jail, objects: Any
) -> None:
    await at_github(rift)
    origin = Origin(rift)
    origin.answer = (200, {"content-type": MEDIA}, json.dumps({"objects": objects}).encode())
    said = await batch(jail)
    assert (said.status_code, said.json()["message"].partition(":")[0]) == (
        403, "The request for LFS files was not passed on",
    )  # fmt: skip
    origin.answer = (200, {"content-type": MEDIA}, b'{"objects": ' + b"[" * 200_000)
    assert "is no JSON" in (await batch(jail)).json()["message"]


async def test_what_an_origin_says_of_a_file_has_no_orders_for_a_terminal_and_its_type_is_one(
    rift: Place, jail: Jail
) -> None:
    await at_github(rift)
    origin = Origin(rift)
    rift.deps.carrier.origins["https://store.example/"] = origin  # type: ignore[attr-defined]  # the fake's
    told = {"objects": [{"oid": OID, "size": 3, "error": {"code": [], "message": "\x1b]0;evil\x07gone"}}]}
    origin.answer = (200, {}, json.dumps(told).encode())
    assert (await batch(jail)).json()["objects"][0]["error"] == {"code": 500, "message": "gone"}
    answers(origin, name="download")
    href = (await batch(jail, "download")).json()["objects"][0]["actions"]["download"]["href"]
    origin.answer = (200, {"content-type": "text/\u2028", "content-length": "three"}, b"abc")
    said = await jail.ask("GET", href.removeprefix(DOOR))
    assert (said.status_code, said.headers["content-type"], said.content) == (200, "application/octet-stream", b"abc")
