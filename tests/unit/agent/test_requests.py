"""How the head of a proxy request is read: in one way or not at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rift_agent.requests import parse
from rift_agent.served import Refusal

BAD = [
    "GET / HTTP/1.1",
    "GET /path HTTP/1.1\r\nHost: a.example",
    "GET https://a.example/ HTTP/1.1",
    "GET http://a.example/ HTTP/2",
    "GET  http://a.example/ HTTP/1.1",
    "GET http://a.example/ HTTP/1.1 ",
    "G\tT http://a.example/ HTTP/1.1",
    "GET http://user@a.example/ HTTP/1.1",
    "GET http://a.example:80:80/ HTTP/1.1",
    "GET http://a.example:x/ HTTP/1.1",
    "GET http:///x HTTP/1.1",
    "GET http://a.example/\x80 HTTP/1.1",
    "GET http://a.example/ HTTP/1.1\r\n folded: x",
    "GET http://a.example/ HTTP/1.1\r\nA : x",
    "GET http://a.example/ HTTP/1.1\r\nno colon",
    "GET http://a.example/ HTTP/1.1\r\nA: x\ny",
    "GET http://a.example/ HTTP/1.1\r\nA: x\0",
    "POST http://a.example/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2",
    "POST http://a.example/ HTTP/1.1\r\nContent-Length: +1",
    "POST http://a.example/ HTTP/1.1\r\nContent-Length: 1, 1",
    "POST http://a.example/ HTTP/1.1\r\nTransfer-Encoding: chunked",
    "POST http://a.example/ HTTP/1.1\r\nTransfer-Encoding: identity\r\nContent-Length: 3",
    "CONNECT a.example HTTP/1.1",
    "CONNECT a.example: HTTP/1.1",
    "CONNECT a.example:+443 HTTP/1.1",
    "CONNECT ::1:443 HTTP/1.1",
    "CONNECT [::1 HTTP/1.1",
    "CONNECT http://a.example:443 HTTP/1.1",
    "CONNECT a..example:443 HTTP/1.1",
    "CONNECT .example:443 HTTP/1.1",
    "CONNECT a.example..:443 HTTP/1.1",
    "CONNECT .:443 HTTP/1.1",
    "CONNECT b\xfccher.example:443 HTTP/1.1",
    "CONNECT a\0.example:443 HTTP/1.1",
    "CONNECT a.example%00.evil.example:443 HTTP/1.1",
    "CONNECT a.example/:443 HTTP/1.1",
    "CONNECT a.example:443:443 HTTP/1.1",
    "CONNECT user@a.example:443 HTTP/1.1",
    "CONNECT [fe80::1%eth0]:443 HTTP/1.1",
    "CONNECT [a.example]:443 HTTP/1.1",
    "CONNECT a.example:443 HTTP/1.1\r\nA: x\r\n folded",
    "CONNECT a.example:443 HTTP/1.1\nHost: a.example",
    "GET http://a.example\\@evil.example/ HTTP/1.1",
    "GET http://a.example/ HTTP/1.1\r\nTransfer-Encoding : chunked",
    "POST http://a.example/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 3",
    "POST http://a.example/ HTTP/1.1\r\ntransfer-encoding:\tchunked",
    "",
]


@pytest.mark.parametrize("raw", BAD)
def test_what_could_be_read_in_two_ways_is_refused(raw: str) -> None:
    with pytest.raises(Refusal) as refused:
        parse(raw.encode("latin-1"))
    assert refused.value.status[:3] in ("400", "411")
    assert refused.value.why == "malformed"


@given(st.binary(max_size=200))
def test_any_head_is_a_request_or_refused(raw: bytes) -> None:
    try:
        request = parse(raw)
    except Refusal:
        return
    assert request.host == request.host.lower()


def test_a_request_goes_on_in_origin_form_with_its_own_host_and_one_request_a_connection() -> None:
    request = parse(
        b"GET http://A.example.:8080?q=1#part HTTP/1.0\r\nHost: other.example\r\nConnection: keep-alive, X-Gone\r\n"
        b"X-Gone: 1\r\nProxy-Connection: keep-alive\r\nUpgrade: h2c\r\nTE: trailers\r\nAccept:  */* "
    )
    assert (request.host, request.port, request.length, request.tunnel) == ("a.example", 8080, 0, False)
    assert request.head == b"GET /?q=1 HTTP/1.1\r\nHost: A.example.:8080\r\nAccept: */*\r\nConnection: close\r\n\r\n"
