"""The page where a person lets an MCP client act for them, or not: `/oauth2/authorize` (RFC 6749, 4.1; RFC 9207).

What a client asks wrongly is told to the client where its answer goes to the person's own computer. Elsewhere it is
told to the person, with a link: who merely opens an address of ours is not sent on to one of somebody else's (RFC
9700, 4.11). About a client or a redirect address that nobody knows, nothing is ever sent anywhere.

The answer to the person's own computer is a redirect. Elsewhere it is a page that goes on by itself: a browser holds
the page's `form-action` against every redirect that follows a form, also against those that the client's host makes
from then on, as to its application, and nobody here knows these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import parse_qs, urlencode

from starlette.responses import RedirectResponse, Response

from keel.buckets import Rate
from keel.refusal import Refusal
from rift.connections import actions, decide, refusals
from rift.connections.model import Asked, Request, Wrong
from rift.wire.oauth.answers import description, error_code
from rift.wire.web.pages.sign_in import sign_in_path
from rift.wire.web.visit import Page, Visit, headers

PATH = "/oauth2/authorize"
REQUESTS = Rate(60, 60.0)
"""So many requests may one source make in a minute."""
QUERY_MOST = 16_000


async def show(visit: Visit) -> Response | Refusal:
    """What the client wants, and who would let it."""
    read = await _read(visit)
    if not isinstance(read, Asked):
        return read
    if visit.session is None:
        return _sign_in(visit)
    return visit.render(
        "consent.html", form_action=decide.form_action(read.redirect_uri), asked=read,
        place=decide.place_of(read.redirect_uri), here=decide.is_here(read.redirect_uri),
    )  # fmt: skip


async def answer(visit: Visit) -> Response | Refusal:
    """The person's word."""
    read = await _read(visit)
    if not isinstance(read, Asked):
        return read
    if visit.session is None:
        return _sign_in(visit)
    facts = {"client": read.client.id, "name": read.client.name, "redirect": read.redirect_uri}
    if visit.said("answer") == "allow":
        told = {"code": await actions.allow(visit.deps, visit.act("allow client", **facts), read)}
    else:
        told = _error(await actions.deny(visit.deps, visit.act("allow client", **facts), read))
    if decide.is_here(read.redirect_uri):
        return _on(visit, read.redirect_uri, read.state, told)
    return visit.render(
        "consent_done.html", client=read.client, allowed="code" in told, place=decide.place_of(read.redirect_uri),
        on=_with(visit, read.redirect_uri, read.state, told),
    )  # fmt: skip


async def _read(visit: Visit) -> Asked | Refusal | Response:
    """What is asked for, if it is asked well; else what to answer."""
    query = _query(visit.request.url.query)
    if isinstance(query, Refusal):
        return query
    read = await actions.ask(visit.deps, _request(query), signed_in=visit.session is not None)
    if read is None:
        return _sign_in(visit)
    if isinstance(read, Wrong):
        told = _error(read.refusal)
        if decide.is_here(read.redirect_uri):
            return _on(visit, read.redirect_uri, read.state, told)
        back = _with(visit, read.redirect_uri, read.state, told)
        return visit.render(
            "consent_wrong.html", 400, refusal=read.refusal, client=read.client, back=back,
            place=decide.place_of(read.redirect_uri),
        )  # fmt: skip
    return read


def _query(text: str) -> Mapping[str, str] | Refusal:
    """The parameters, each of which is there once (RFC 6749, 3.1)."""
    try:
        if len(text) > QUERY_MOST:
            raise ValueError
        fields: Mapping[str, Sequence[str]] = parse_qs(text, keep_blank_values=True, errors="strict", max_num_fields=50)
    except ValueError:
        return refusals.invalid_request("its address cannot be read")
    twice = [name for name, values in fields.items() if len(values) > 1]
    if twice:
        return refusals.invalid_request(f"{twice[0][:40]} is there more than once")
    return {name: values[0] for name, values in fields.items()}


def _request(query: Mapping[str, str]) -> Request:
    return Request(
        client_id=query.get("client_id", ""),
        redirect_uri=query.get("redirect_uri", ""),
        response_type=query.get("response_type", ""),
        code_challenge=query.get("code_challenge", ""),
        code_challenge_method=query.get("code_challenge_method", ""),
        resource=query.get("resource", ""),
        scope=query.get("scope", ""),
        state=query.get("state"),
    )


def _error(refusal: Refusal) -> dict[str, str]:
    return {"error": error_code(refusal)[0], "error_description": description(refusal)}


def _sign_in(visit: Visit) -> Response:
    url = visit.request.url
    return RedirectResponse(sign_in_path(f"{url.path}?{url.query}"), 303, headers=headers(visit.site))


def _on(visit: Visit, uri: str, state: str | None, told: Mapping[str, str]) -> Response:
    """On to the client, by GET whatever this was (RFC 9700, 4.12)."""
    # Not a RedirectResponse, which would write some characters of the address in another way.
    return Response(status_code=303, headers={**headers(visit.site), "Location": _with(visit, uri, state, told)})


def _with(visit: Visit, uri: str, state: str | None, told: Mapping[str, str]) -> str:
    """The redirect address with an answer, with the client's own word, and with who answers (RFC 9207)."""
    more = {**told, **({"state": state} if state is not None else {}), "iss": visit.site.public}
    return f"{uri}{'&' if '?' in uri else '?'}{urlencode(more)}"


PAGES = (Page(PATH, show, answer, open=True, rate=REQUESTS),)
