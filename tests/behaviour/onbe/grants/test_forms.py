"""The token endpoint as strangers find it: whatever is sent is answered by an error of OAuth, and grants nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote, urlencode

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.behaviour.onbe.world import TOOL, World

from keel.refusal import Refusal
from onbe import names
from onbe.wire.oauth.forms import parse_form
from onbe.wire.oauth.token import asked_for

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture
async def ready(world: World) -> World:
    await world.register("scribe")
    return world


def form_of(world: World, **changes: Any) -> dict[str, str]:
    made: dict[str, Any] = {
        "grant_type": names.EXCHANGE,
        "subject_token": world.subject("ada"),
        "subject_token_type": names.SUBJECT_TYPES[0],
        "actor_token": world.assertion("scribe"),
        "actor_token_type": names.ACTOR_TYPES[0],
        "resource": TOOL,
    }
    return {name: value for name, value in (made | changes).items() if value is not None}


async def send(world: World, body: bytes, **headers: str) -> httpx2.Response:
    return await world.http.post(names.ENDPOINT, content=body, headers=FORM | headers)


async def test_an_empty_parameter_is_as_if_it_were_left_out(ready: World) -> None:
    answer = await ready.http.post(names.ENDPOINT, data=form_of(ready, scope="", requested_token_type="", client_id=""))
    assert answer.status_code == 200, answer.text
    assert answer.json()["scope"] == "docs:read docs:write"
    answer = await ready.http.post(names.ENDPOINT, data=form_of(ready, resource=""))
    assert answer.json()["error_description"] == "resource is missing."


async def test_a_parameter_that_nobody_knows_is_ignored(ready: World) -> None:
    form = form_of(ready, audience="x", nonsense="\u2603", **{"a b": "1"})
    assert (await ready.http.post(names.ENDPOINT, data=form)).status_code == 200


@pytest.mark.parametrize("twice", ["resource", "scope", "grant_type", "actor_token", "unknown"])
async def test_a_parameter_that_is_sent_twice_is_refused_also_where_both_are_equal_or_one_is_empty(
    ready: World, twice: str
) -> None:
    form = form_of(ready, scope="docs:read", unknown="1")
    for value in (form[twice], ""):
        answer = await send(ready, (urlencode(form) + "&" + urlencode({twice: value})).encode())
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")


@pytest.mark.parametrize(
    "body",
    [
        b"", b"&&&&", b"=", b"grant_type", b"grant_type=%", b"grant_type=%zz", b"grant_type=%ff", b"grant_type=%00",
        b"grant_type=\xff", b"\x00", b"grant_type=%ED%A0%80", b'{"grant_type": "refresh_token"}', b"a=1&" * 100,
        b"grant_type=%e2%98", b"grant_type=a\r\nb", b"%00=1",
    ],
)  # fmt: skip
async def test_a_body_that_is_no_form_is_refused(ready: World, body: bytes) -> None:
    answer = await send(ready, body)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
    assert answer.headers["cache-control"] == "no-store"


async def test_a_body_over_64_kib_is_refused_before_it_is_read_to_its_end(ready: World) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(100):
            sent += 1
            yield b"a" * 16384

    answer = await ready.http.post(names.ENDPOINT, content=endless(), headers=FORM)
    assert (answer.status_code, answer.json()["error"]) == (413, "invalid_request")
    form = urlencode(form_of(ready)).encode()
    padded = form + b"&pad=" + b"x" * (names.BODY_BYTES - len(form) - 5)
    assert len(padded) == names.BODY_BYTES
    assert (await send(ready, padded)).status_code == 200
    assert (await send(ready, padded + b"x")).status_code == 413


@pytest.mark.parametrize(
    "kind", ["application/json", "text/plain", "multipart/form-data; boundary=x", "", "application/x-www-form", None]
)
async def test_a_body_of_another_type_is_refused(ready: World, kind: str | None) -> None:
    body = urlencode(form_of(ready)).encode()
    headers = {} if kind is None else {"Content-Type": kind}
    answer = await ready.http.post(names.ENDPOINT, content=body, headers=headers)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")


async def test_the_types_charset_and_case_do_not_matter(ready: World) -> None:
    for kind in ("Application/X-WWW-Form-Urlencoded", "application/x-www-form-urlencoded; charset=UTF-8"):
        body = urlencode(form_of(ready)).encode()
        assert (await send(ready, body, **{"Content-Type": kind})).status_code == 200


@pytest.mark.parametrize(
    "other",
    [{"client_secret": "s"}, {"client_assertion": "x"}, {"client_assertion_type": names.ASSERTION_TYPE}],
)
async def test_other_credentials_beside_the_assertion_are_refused(ready: World, other: dict[str, str]) -> None:
    answer = await ready.http.post(names.ENDPOINT, data=form_of(ready, **other))
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")


async def test_an_authorization_header_is_refused_and_parameters_in_the_address_too(ready: World) -> None:
    for value in ("Basic c2NyaWJlOnM=", "Bearer x", ""):
        answer = await send(ready, urlencode(form_of(ready)).encode(), Authorization=value)
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
    answer = await ready.http.post(f"{names.ENDPOINT}?resource={quote(TOOL)}", data=form_of(ready, resource=None))
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")


async def test_a_client_id_is_the_agents_own_or_refused(ready: World) -> None:
    assert (await ready.http.post(names.ENDPOINT, data=form_of(ready, client_id="scribe"))).status_code == 200
    answer = await ready.http.post(names.ENDPOINT, data=form_of(ready, client_id="other"))
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")


async def test_only_posts_are_answered(ready: World) -> None:
    for method in ("GET", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert (await ready.http.request(method, names.ENDPOINT)).status_code == 405


async def test_what_a_refused_request_held_is_not_in_its_answer(ready: World) -> None:
    secret = "s3cr3t-value-of-the-caller"
    for form in (
        form_of(ready, subject_token=secret), form_of(ready, actor_token=secret), form_of(ready, resource=secret),
        form_of(ready, scope=secret + '"'), form_of(ready, grant_type=secret),
        form_of(ready, client_secret=secret), form_of(ready, subject_token_type=secret),
        {"grant_type": names.REFRESH, "refresh_token": secret, "client_assertion_type": names.ASSERTION_TYPE,
         "client_assertion": ready.assertion("scribe")},
    ):  # fmt: skip
        answer = await ready.http.post(names.ENDPOINT, data=form)
        assert answer.status_code in (400, 401)
        assert secret not in answer.text
        assert secret not in str(answer.headers)
    assert secret not in str(await ready.ledger())


async def test_texts_that_a_database_cannot_hold_or_hold_traps_are_texts_like_others(ready: World) -> None:
    """Wherever a stranger's text meets SQL or a log."""
    for text in ("'; DROP TABLE tasks; --", "%(agent)s", "\u202e", "x" * 10_000, "\U0010ffff", "{0}", "$1", "null"):
        forms = (
            form_of(ready, actor_token=ready.assertion("scribe", iss=text, sub=text)),
            form_of(ready, actor_token=ready.assertion("scribe", header={"kid": text[:256]})),
            form_of(ready, subject_token=ready.subject(text)),
            form_of(ready, subject_token=ready.subject("ada", client_id=text)),
            form_of(ready, actor_token=ready.assertion("scribe", jti=text)),
        )
        for form in forms:
            answer = await ready.http.post(names.ENDPOINT, data=form)
            assert answer.status_code in (200, 400, 401), (text, answer.text)
        grant = {
            "grant_type": names.REFRESH, "refresh_token": text[:19], "client_assertion_type": names.ASSERTION_TYPE,
            "client_assertion": ready.assertion("scribe"),
        }  # fmt: skip
        assert (await ready.http.post(names.ENDPOINT, data=grant)).json()["error"] == "invalid_grant"


@given(st.binary(max_size=200))
def test_any_bytes_are_a_form_or_refused(body: bytes) -> None:
    said = parse_form(body)
    if not isinstance(said, Refusal):
        assert all(key and value and "\0" not in key + value for key, value in said.items() if key)


@given(st.dictionaries(st.sampled_from(["a", "b", "grant_type", "ä"]), st.text(st.characters(codec="utf-8"))))
def test_a_form_is_read_as_it_was_written(form: dict[str, str]) -> None:
    said = parse_form(urlencode(form).encode())
    if any("\0" in value for value in form.values()):
        assert isinstance(said, Refusal)
    else:
        assert said == {name: value for name, value in form.items() if value}


@given(
    st.dictionaries(
        st.sampled_from([
            "grant_type", "subject_token", "subject_token_type", "actor_token", "actor_token_type", "resource", "scope",
            "refresh_token", "client_assertion", "client_assertion_type", "client_id", "client_secret",
        ]),
        st.sampled_from([*names.SUBJECT_TYPES, names.ASSERTION_TYPE, names.EXCHANGE, names.REFRESH, TOOL])
        | st.text(min_size=1),
    )
)  # fmt: skip
def test_any_parameters_are_a_request_or_refused(form: dict[str, str]) -> None:
    asked_for(form)


@pytest.mark.parametrize("place", ["scope", "resource", "client_id", "requested_token_type", "unknown"])
@pytest.mark.parametrize("kind", ["exchange", "refresh"])
async def test_a_credential_that_is_sent_as_something_else_is_kept_nowhere(ready: World, place: str, kind: str) -> None:
    given = await ready.begin("scribe")
    misplaced = [given["access_token"], given["refresh_token"], ready.subject("ada"), ready.assertion("scribe")]
    for secret in misplaced:
        values = [secret]
        if place == "resource":
            values = [
                f"https://tool.example/?access_token={secret}",
                f"urn:{secret}",
                f"https://{secret}@tool.example/",
            ]
        for value in values:
            if kind == "exchange":
                await ready.exchange("scribe", **{place: value, "subject_token": secret})
            else:
                await ready.refresh("scribe", given["refresh_token"], **{place: value, "token": secret})
    recorded = await ready.ledger("token.exchange", "token.refresh")
    assert len(recorded) > 1, "and the watch of the world looks into each"


async def test_what_was_asked_for_stands_on_the_record_as_it_was_asked(ready: World) -> None:
    given = await ready.begin("scribe")
    await ready.refresh("scribe", given["refresh_token"], scope="basic profile:read")
    await ready.refresh("scribe", given["refresh_token"], resource="https://tool.example/eyes?password=none")
    asked = [one["arguments"] for one in await ready.ledger("token.refresh")]
    assert asked[-2]["scope"] == "basic profile:read"
    assert asked[-1]["resource"] == "https://tool.example/eyes?password=none"
