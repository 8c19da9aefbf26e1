"""GitHub over HTTP, when what answers is not what its documents say. No token goes elsewhere."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from tests.conformance.signon.provider import Body

from keel.testing import FakeClock
from rift.drivers.github import asking
from rift.drivers.github.fake import APP
from rift.drivers.github.http import HttpGitHub
from rift.drivers.github.protocol import (
    Check,
    GitHubBusy,
    GitHubDenied,
    GitHubError,
    GitHubMissing,
    GitHubRefused,
    NoDeviceFlow,
    Repository,
    RepositoryPage,
)

URL, API = "https://github.com", "https://api.github.com"
TOKEN = "ghu_secret"
ADA = {"id": 7, "login": "ada", "type": "User"}
REPO = {
    "id": 9, "owner": ADA, "name": "app", "private": True, "archived": False, "default_branch": "main",
    "clone_url": "https://evil.example/acme/app.git",
}  # fmt: skip
Answer = Callable[[httpx2.Request], httpx2.Response]


class Hub:
    """Answers with what a test says, and keeps what was asked."""

    def __init__(self, clock: FakeClock, answer: Answer) -> None:
        self.asked: list[httpx2.Request] = []
        self._answer = answer
        self.github = HttpGitHub(URL, API, clock, lambda: httpx2.AsyncClient(transport=httpx2.MockTransport(self._say)))

    def _say(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        said = self._answer(request)
        if "content-encoding" in said.headers:
            return said
        return httpx2.Response(said.status_code, headers=said.headers, stream=Body(said.content))


def says(status: int = 200, body: object = None, **headers: str) -> Answer:
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda request: httpx2.Response(status, headers=told, content=content)


@pytest.fixture
async def hub(clock: FakeClock) -> AsyncIterator[Callable[[Answer], Hub]]:
    made: list[Hub] = []

    def make(answer: Answer) -> Hub:
        made.append(Hub(clock, answer))
        return made[-1]

    yield make
    for one in made:
        await one.github.close()


Make = Callable[[Answer], Hub]


@pytest.mark.parametrize(
    "body",
    [
        b"", b"not json", b"[" * 100_000, b"\xff\xfe", b"NaN", b"[]", b"7", b"null", b'"text"', b"{}",
        json.dumps({**ADA, "id": "7"}).encode(), json.dumps({**ADA, "id": True}).encode(),
        json.dumps({**ADA, "id": -1}).encode(), json.dumps({**ADA, "id": 2**63}).encode(),
        json.dumps({**ADA, "login": None}).encode(), json.dumps({**ADA, "login": "a\u202eb"}).encode(),
        json.dumps({**ADA, "login": "a\x1b[2Jb"}).encode(), json.dumps({**ADA, "login": "../x"}).encode(),
        json.dumps({**ADA, "login": "a b"}).encode(), json.dumps({**ADA, "login": ""}).encode(),
        json.dumps({**ADA, "login": "ａｄａ"}).encode(), json.dumps({**ADA, "login": "ada\n"}).encode(),
        json.dumps({**ADA, "type": "Robot"}).encode(), json.dumps([ADA]).encode(),
    ],
    ids=lambda body: repr(body[:60]),
)  # fmt: skip
async def test_what_is_not_an_account_is_no_answer(hub: Make, body: bytes) -> None:
    with pytest.raises(GitHubError) as told:
        await hub(says(200, body)).github.user(TOKEN)
    assert told.value.reason.isprintable()
    assert "\x1b" not in told.value.reason


async def test_an_answer_of_ten_megabytes_is_not_taken_and_neither_is_a_compressed_one(hub: Make) -> None:
    with pytest.raises(GitHubError, match="more than"):
        await hub(says(200, b" " * 10_000_000)).github.user(TOKEN)
    packed = httpx2.Response(200, headers={"content-encoding": "gzip"}, stream=Body(b"{}"))
    with pytest.raises(GitHubError, match="compressed"):
        await hub(lambda request: packed).github.user(TOKEN)
    with pytest.raises(GitHubError, match="more than"):
        await hub(says(403, b"x" * 10_000_000)).github.user(TOKEN)


@pytest.mark.parametrize(
    "where",
    [
        "https://evil.example/user", "http://api.github.com/user", "https://api.github.com.evil.example/user",
        "https://api.github.com:444/user", "//evil.example/user", "https://user@api.github.com/user",
        "https://github.com/user", "https://[x", "\\\\evil.example", "",
    ],
)  # fmt: skip
async def test_no_redirect_leads_to_another_host(hub: Make, where: str) -> None:
    made = hub(says(301, None, location=where))
    with pytest.raises(GitHubError):
        await made.github.user(TOKEN)
    assert {request.url.host for request in made.asked} == {"api.github.com"}
    assert {request.url.scheme for request in made.asked} == {"https"}


async def test_a_repository_that_was_renamed_is_followed_and_a_circle_is_not(hub: Make) -> None:
    def renamed(request: httpx2.Request) -> httpx2.Response:
        if request.url.path.startswith("/repos/old/"):
            return httpx2.Response(301, headers={"location": f"{API}/repositories/9/issues/1"})
        assert request.headers["authorization"] == f"Bearer {TOKEN}"
        return httpx2.Response(404, content=b"{}")

    with pytest.raises(GitHubMissing):
        await hub(renamed).github.issue(TOKEN, "old/app", 1)
    circle = hub(says(301, None, location=f"{API}/user"))
    with pytest.raises(GitHubError, match="without end"):
        await circle.github.user(TOKEN)
    assert len(circle.asked) == 4
    with pytest.raises(GitHubError):
        await hub(says(301, None, location=f"{API}/repositories/9/issues/1/comments")).github.comment(
            TOKEN, "a/b", 1, "x"
        )


@pytest.mark.parametrize(
    ("status", "headers", "seconds"),
    [
        (403, {"retry_after": "30"}, 30),
        (429, {"retry_after": "30"}, 30),
        (429, {}, 60),
        (403, {"x_ratelimit_remaining": "0", "x_ratelimit_reset": "{now+90}"}, 91),
        (403, {"x_ratelimit_remaining": "0", "x_ratelimit_reset": "{now-90}"}, 1),
        (403, {"retry_after": "999999999"}, 7200),
        (403, {"x_ratelimit_remaining": "0", "x_ratelimit_reset": "99999999999"}, 7200),
        (429, {"retry_after": "soon"}, 60),
        (403, {"retry_after": "-5"}, None),
        (403, {"x_ratelimit_remaining": "7"}, None),
    ],
)
async def test_a_rate_limit_says_until_when_and_never_beyond_two_hours(
    hub: Make, clock: FakeClock, status: int, headers: dict[str, str], seconds: int | None
) -> None:
    now = int(clock.now().timestamp())
    told = {
        name: value.replace("{now+90}", str(now + 90)).replace("{now-90}", str(now - 90))
        for name, value in headers.items()
    }
    made = hub(says(status, {"message": "no"}, **told))
    with pytest.raises(GitHubBusy if seconds else GitHubDenied) as busy:
        await made.github.user(TOKEN)
    if isinstance(busy.value, GitHubBusy):
        assert abs((busy.value.until - clock.now()).total_seconds() - (seconds or 0)) <= 1


async def test_a_secondary_limit_without_a_header_is_known_by_its_words(hub: Make) -> None:
    with pytest.raises(GitHubBusy):
        await hub(says(403, {"message": "You have exceeded a secondary rate limit."})).github.user(TOKEN)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, GitHubError), (401, GitHubDenied), (403, GitHubDenied), (404, GitHubMissing), (410, GitHubMissing),
        (409, GitHubRefused), (422, GitHubRefused), (451, GitHubDenied), (500, GitHubError), (503, GitHubError),
    ],
)  # fmt: skip
async def test_what_github_says_is_told_on_one_line_without_what_moves_a_terminal(
    hub: Make, status: int, kind: type[GitHubError]
) -> None:
    said = {
        "message": "Validation\x1b[2J\nFailed\u202e",
        "errors": [
            {"resource": "PullRequest", "field": "head", "code": "invalid"},
            "as\ttext",
            {"message": "x" * 900},
            7,
        ],
    }
    with pytest.raises(kind) as told:
        await hub(says(status, said)).github.user(TOKEN)
    assert type(told.value) is kind
    assert told.value.reason.isprintable()
    assert "Validation[2J Failed; PullRequest head invalid; as text" in told.value.reason
    assert len(told.value.reason) < 1000
    for odd in (b"<html>", b"[1]", b'{"message": 7, "errors": {}}', b"\xff"):
        with pytest.raises(kind):
            await hub(says(status, odd)).github.user(TOKEN)


async def test_no_address_of_a_repository_is_taken_from_an_answer(hub: Make) -> None:
    found = await hub(says(200, {"total_count": 1, "repositories": [REPO]})).github.repositories(TOKEN, 1)
    assert found == RepositoryPage(found.repositories, 1, None)
    assert found.repositories[0] == Repository(9, "ada", "app", False, "main")
    for name in ("..", ".", "a/b", "a b", "x\n", "-" * 101, "", None, "ä"):
        with pytest.raises(GitHubError):
            await hub(says(200, {"total_count": 1, "repositories": [{**REPO, "name": name}]})).github.repositories(
                TOKEN, 1
            )


@pytest.mark.parametrize("branch", [None, "", 7, "ma\u200bin", "main\n", "m" * 256])
async def test_a_default_branch_that_cannot_be_shown_is_none_that_is_known(hub: Make, branch: object) -> None:
    found = await hub(says(200, {**REPO, "default_branch": branch})).github.repository(TOKEN, "ada/app")
    assert found.default_branch is None


@pytest.mark.parametrize("full", ["a/..", "../b", "a", "a/b/c", "a/b?x", "a/b#", "a b/c", "", "a/b\n", "ä/b"])
async def test_a_name_that_would_lead_elsewhere_is_not_asked_about(hub: Make, full: str) -> None:
    made = hub(says(200, {}))
    with pytest.raises(GitHubError):
        await made.github.issue(TOKEN, full, 1)
    assert made.asked == []


async def test_a_list_ends_where_its_pages_do_not_go_on(hub: Make) -> None:
    def same(request: httpx2.Request) -> httpx2.Response:
        following = f'<{API}/user/installations?per_page=100&page=1>; rel="next"'
        return httpx2.Response(200, headers={"link": following}, content=b'{"installations": []}')

    made = hub(same)
    assert await made.github.user_installations(TOKEN) == ()
    assert len(made.asked) == 1

    def endless(request: httpx2.Request) -> httpx2.Response:
        page = int(request.url.params["page"]) + 1
        return httpx2.Response(
            200, headers={"link": f'<{API}/x?page={page}>; rel="next"'}, content=b'{"installations": []}'
        )

    with pytest.raises(GitHubError, match="more than"):
        await hub(endless).github.user_installations(TOKEN)


async def test_what_is_slow_is_given_up(hub: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "SECONDS", 0.05)

    class Dripping(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            while True:
                yield b" "
                await asyncio.sleep(0.01)

    made = hub(says())
    made._say = lambda request: httpx2.Response(200, stream=Dripping())  # type: ignore[method-assign] # drips for ever
    made.github = HttpGitHub(
        URL, API, FakeClock(), lambda: httpx2.AsyncClient(transport=httpx2.MockTransport(made._say))
    )
    with pytest.raises(GitHubError, match="did not answer within"):
        await made.github.user(TOKEN)


async def test_a_jobs_log_is_fetched_without_the_token_and_only_its_end_is_kept(hub: Make) -> None:
    def log(request: httpx2.Request) -> httpx2.Response:
        if request.url.host == "api.github.com":
            return httpx2.Response(302, headers={"location": "https://blobs.example/log?sig=1"})
        assert "authorization" not in request.headers
        return httpx2.Response(200, content=b"x" * 200_000 + "the end é\n".encode())

    check = Check("test", "failed", "failure", "https://github.com/a/b/actions/runs/1/job/22")
    found = await hub(log).github.job_log(TOKEN, "a/b", check)
    assert found is not None
    assert (len(found.encode()), found[-10:]) == (65536, "the end é\n")
    for where in ("http://blobs.example/log", "https://u:p@blobs.example/log", "file:///etc/passwd", "https://[x", ""):
        made = hub(says(302, None, location=where))
        assert await made.github.job_log(TOKEN, "a/b", check) is None, where
        assert len(made.asked) == 1
    foreign = Check("test", "failed", "failure", "https://evil.example/x")
    nothing = hub(says(200, {}))
    assert await nothing.github.job_log(TOKEN, "a/b", foreign) is None
    assert nothing.asked == []


@pytest.mark.parametrize(
    "said",
    [
        {}, {"access_token": 7}, {"access_token": "a b"}, {"access_token": "x\r\nHost: evil"}, {"access_token": ""},
        {"access_token": "x" * 5000}, {"access_token": "ok", "expires_in": "soon"},
        {"access_token": "ok", "expires_in": -1}, {"access_token": "ok", "refresh_token": {}}, {"error": {}},
        {"error": "something_new", "error_description": "\x1b"},
    ],
    ids=str,
)  # fmt: skip
async def test_tokens_that_are_none_are_not_taken(hub: Make, said: dict[str, Any]) -> None:
    with pytest.raises(GitHubError) as told:
        await hub(says(200, said)).github.exchange(APP, "code")
    assert told.value.reason.isprintable()


async def test_a_token_lasts_no_longer_than_a_year_or_so_whatever_is_said(hub: Make, clock: FakeClock) -> None:
    tokens = await hub(says(200, {"access_token": "ok", "expires_in": 10**9})).github.exchange(APP, "code")
    assert tokens.expires_at is not None
    assert tokens.expires_at - clock.now() <= timedelta(days=400)
    for_ever = await hub(says(200, {"access_token": "ok"})).github.exchange(APP, "code")
    assert (for_ever.expires_at, for_ever.refresh) == (None, None)


async def test_a_device_flow_that_is_off_says_what_turns_it_on(hub: Make) -> None:
    with pytest.raises(NoDeviceFlow, match="settings page at GitHub"):
        await hub(says(400, {"error": "device_flow_disabled"})).github.device_code(APP)
    for url in ("javascript:alert(1)", "//x", "https://", "https://a b", None):
        code = {"device_code": "d", "user_code": "WDJB-MJHT", "verification_uri": url, "expires_in": 9, "interval": 5}
        with pytest.raises(GitHubError):
            await hub(says(200, code)).github.device_code(APP)


async def test_a_key_that_is_none_signs_nothing_and_is_not_told(hub: Make) -> None:
    made = hub(says(200, []))
    with pytest.raises(GitHubError, match="no key in PEM") as told:
        await made.github.installations(APP)
    assert APP.private_key not in told.value.reason
    assert made.asked == []


async def test_every_question_says_who_asks_in_which_version_and_asks_for_nothing_compressed(hub: Make) -> None:
    made = hub(says(200, ADA))
    await made.github.user(TOKEN)
    (request,) = made.asked
    assert request.headers["x-github-api-version"] == "2022-11-28"
    assert request.headers["accept"] == "application/vnd.github+json"
    assert str(request.url) == f"{API}/user"
