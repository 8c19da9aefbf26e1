"""What one source may ask, and how much is done at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Message, Receive, Scope, Send

from keel.testing import FakeClock, eventually
from onbe.settings import LimitSettings, OnbeSettings, ServerSettings, SponsorCheckSettings
from onbe.wire.limits import Desk, Full, Limits, kind_of

FAR = ("192.0.2.1", 4711)
FORM = b"grant_type=refresh_token&refresh_token=x"


class Inside:
    """The application behind: answers 200, or holds on until it is let go."""

    def __init__(self, *, holds: bool = False) -> None:
        self.free = asyncio.Event()
        self.at_work: Counter[str] = Counter()
        self.bodies: list[bytes] = []
        if not holds:
            self.free.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.at_work[scope["path"]] += 1
        self.bodies.append(await Request(scope, receive).body())
        await self.free.wait()
        await JSONResponse({"path": scope["path"]})(scope, receive, send)


class Answer:
    def __init__(self, messages: list[Message]) -> None:
        self.status = messages[0]["status"]
        self.headers = {name.decode(): value.decode() for name, value in messages[0]["headers"]}
        self.json: Any = __import__("json").loads(messages[1]["body"])


async def ask(
    app: Limits, path: str, client: tuple[str, int] | None = FAR, parts: Iterable[bytes] = (FORM,), **headers: str
) -> Answer:
    names = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "POST", "path": path, "client": client, "headers": names, "query_string": b""}
    sent: list[Message] = []
    left = list(parts)

    async def receive() -> Message:
        if not left:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return Answer(sent)


def limits(inside: Inside, clock: FakeClock, trusted: tuple[str, ...] = (), **settings: Any) -> Limits:
    made = OnbeSettings(limits=LimitSettings(**settings), server=ServerSettings(trusted_proxies=trusted))
    return Limits(inside, made, clock)


async def test_one_source_gets_a_minutes_worth_at_once_and_then_its_share(clock: FakeClock) -> None:
    app = limits(Inside(), clock, per_source=6)
    assert [(await ask(app, "/oauth2/token")).status for _ in range(6)] == [200] * 6
    refused = await ask(app, "/oauth2/token")
    assert (refused.status, refused.json["error"], refused.headers["retry-after"]) == (429, "slow_down", "10")
    assert "again in 10 s" in refused.json["error_description"]
    assert (await ask(app, "/oauth2/token", ("192.0.2.2", 1))).status == 200, "another source has its own"
    clock.advance(timedelta(seconds=10))
    assert (await ask(app, "/.well-known/jwks.json")).status == 200
    assert (await ask(app, "/oauth2/token")).status == 429, "of all endpoints together"


async def test_who_asks_directly_from_this_machine_and_who_watches_it_is_not_counted(clock: FakeClock) -> None:
    app = limits(Inside(), clock, per_source=1)
    for path in ("/healthz", "/readyz", "/metrics"):
        assert [(await ask(app, path)).status for _ in range(3)] == [200] * 3
    assert [(await ask(app, "/oauth2/token", ("127.0.0.1", 5))).status for _ in range(50)] == [200] * 50


async def test_a_header_that_nobody_trusts_makes_no_new_source(clock: FakeClock) -> None:
    app = limits(Inside(), clock, per_source=2)
    told = [(await ask(app, "/oauth2/token", x_forwarded_for=f"198.51.100.{n}")).status for n in range(4)]
    assert told == [200, 200, 429, 429]
    behind = limits(Inside(), clock, per_source=2, trusted=("192.0.2.0/24",))
    told = [(await ask(behind, "/oauth2/token", x_forwarded_for=f"198.51.100.{n}")).status for n in range(4)]
    assert told == [200] * 4


async def test_the_admin_api_hears_it_as_a_problem_document(clock: FakeClock) -> None:
    app = limits(Inside(), clock, per_source=1)
    for path in ("/admin/agents", "/audit"):
        clock.advance(timedelta(minutes=1))
        await ask(app, path)
        refused = await ask(app, path)
        assert (refused.status, refused.json["type"]) == (429, "urn:onbe:refusal:rate_limited")
        assert refused.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("path", "other", "at_once"),
    [("/oauth2/token", "/oauth2/introspect", 4), ("/oauth2/introspect", "/oauth2/revoke", 2),
     ("/oauth2/revoke", "/oauth2/token", 1), ("/admin/agents", "/.well-known/jwks.json", 1),
     ("/.well-known/jwks.json", "/audit", 2)],
)  # fmt: skip
async def test_a_crowd_at_one_kind_of_work_is_sent_away_and_leaves_the_others_alone(
    path: str, other: str, at_once: int, clock: FakeClock
) -> None:
    inside = Inside(holds=True)
    app = limits(inside, clock, at_once=4, waiting=3, patience=timedelta(seconds=60))
    crowd = [asyncio.create_task(ask(app, path)) for _ in range(at_once + 3)]
    await eventually(lambda: inside.at_work[path] == at_once)
    refused = await ask(app, path)  # at once: nobody may wait behind those that do
    assert (refused.status, refused.headers["retry-after"]) == (503, "1")
    said = refused.json.get("error") or refused.json["title"]
    assert said in ("temporarily_unavailable", "overloaded")
    free = asyncio.create_task(ask(app, other))
    await eventually(lambda: inside.at_work[other] == 1)
    inside.free.set()
    assert [(await one).status for one in [*crowd, free]] == [200] * (at_once + 4)
    assert (await ask(app, path)).status == 200, "and all are served again"


async def test_who_waits_too_long_is_sent_away(clock: FakeClock) -> None:
    inside = Inside(holds=True)
    app = limits(inside, clock, at_once=4, waiting=3, patience=timedelta(milliseconds=1))
    held = [asyncio.create_task(ask(app, "/oauth2/token")) for _ in range(4)]
    await eventually(lambda: inside.at_work["/oauth2/token"] == 4)
    assert (await ask(app, "/oauth2/token")).status == 503
    inside.free.set()
    assert [(await one).status for one in held] == [200] * 4


async def test_what_never_comes_to_an_end_is_answered_and_gives_its_place_back(clock: FakeClock) -> None:
    inside = Inside(holds=True)
    check = SponsorCheckSettings(timeout=timedelta(milliseconds=1))
    app = Limits(inside, OnbeSettings(limits=LimitSettings(at_once=4), sponsor_check=check), clock, deadline=0.001)
    for _ in range(6):
        refused = await ask(app, "/oauth2/token")
        assert (refused.status, refused.json["error"]) == (503, "temporarily_unavailable")
    inside.free.set()
    assert (await ask(app, "/oauth2/token")).status == 200


async def test_a_body_that_comes_slowly_holds_nobodys_place(clock: FakeClock) -> None:
    inside = Inside()
    app = limits(inside, clock, at_once=4, waiting=1, patience=timedelta(milliseconds=1))
    never = asyncio.Event()

    async def slow() -> Message:
        await never.wait()
        return {"type": "http.disconnect"}

    async def drop(message: Message) -> None:
        pass

    scope = {"type": "http", "method": "POST", "path": "/oauth2/token", "client": FAR, "headers": []}
    drips = [asyncio.create_task(app(dict(scope), slow, drop)) for _ in range(50)]
    await asyncio.sleep(0)
    assert (await ask(app, "/oauth2/token")).status == 200
    never.set()
    await asyncio.gather(*drips, return_exceptions=True)


@pytest.mark.parametrize("before", [0, 1, 3])
@pytest.mark.parametrize("path", ["/oauth2/token", "/oauth2/introspect", "/oauth2/revoke"])
async def test_who_hangs_up_in_the_midst_of_a_body_is_nobodys_fault(clock: FakeClock, path: str, before: int) -> None:
    inside, sent = Inside(), []
    messages: list[Message] = [{"type": "http.request", "body": b"a", "more_body": True}] * before

    async def receive() -> Message:
        return messages.pop() if messages else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": path, "client": FAR, "headers": []}
    await limits(inside, clock)(scope, receive, send)
    assert (inside.bodies, sent) == ([], []), "nothing is done, and nothing said to nobody"


@pytest.mark.parametrize("parts", [[b""], [FORM], [b"a" * 10, b"b" * 10], [b"x" * 65536, b"y" * 65536, b"z" * 5]])
async def test_a_body_reaches_who_is_behind_whole_and_once(parts: list[bytes], clock: FakeClock) -> None:
    inside = Inside()
    assert (await ask(limits(inside, clock), "/oauth2/token", parts=parts)).status == 200
    assert inside.bodies == [b"".join(parts)]


async def test_a_place_is_given_back_whatever_happens_to_who_had_it() -> None:
    desk = Desk(1, 1, 60)
    with pytest.raises(ZeroDivisionError):
        async with desk.place():
            _ = 1 / 0

    async def take() -> None:
        async with desk.place():
            await asyncio.Event().wait()

    first, second = asyncio.create_task(take()), asyncio.create_task(take())
    await asyncio.sleep(0)
    with pytest.raises(Full):
        async with desk.place():
            pass
    for one in (second, first):  # one that waits, one that works: both hang up
        one.cancel()
        await asyncio.gather(one, return_exceptions=True)
    async with desk.place():
        pass


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/oauth2/token", "token"), ("/oauth2/token/", "discovery"), ("/oauth2/introspect", "introspect"),
     ("/oauth2/revoke", "revoke"), ("/admin/agents/x", "admin"), ("/audit", "admin"), ("/x", "discovery")],
)  # fmt: skip
def test_which_work_a_path_asks_for(path: str, kind: str) -> None:
    assert kind_of(path) == kind
