"""The head of a request at the door: what the door does not know goes no further."""

from __future__ import annotations

import pytest

from rift_agent.asked import Chunks, parse
from rift_agent.served import Refusal

GIT = "/git/acme/app.git"


def head(start: str, *headers: str, host: str = "127.0.0.1:3127") -> bytes:
    return "\r\n".join([start, f"Host: {host}", *headers]).encode("latin-1")


@pytest.mark.parametrize(
    "start",
    [
        f"GET {GIT}/info/refs?service=git-upload-pack HTTP/1.1",
        f"GET {GIT}/info/refs?service=git-receive-pack HTTP/1.1",
        f"POST {GIT}/git-upload-pack HTTP/1.1",
        f"POST {GIT}/git-receive-pack HTTP/1.0",
        f"POST {GIT}/info/lfs/objects/batch HTTP/1.1",
        f"GET {GIT}/info/lfs/locks?path=a%2Fb HTTP/1.1",
        f"POST {GIT}/info/lfs/locks/17/unlock HTTP/1.1",
        "PUT /lfs/AbC-_9 HTTP/1.1",
        "POST /verbs/pr-open HTTP/1.1",
    ],
)
def test_what_git_and_the_verbs_ask_is_taken(start: str) -> None:
    method, path, _ = start.split(" ")
    asked = parse(head(start))
    assert (asked.method, asked.path, asked.length) == (method, path, 0)


@pytest.mark.parametrize(
    "start",
    [
        "GET / HTTP/1.1",
        f"GET {GIT}/HEAD HTTP/1.1",
        f"GET {GIT}/objects/info/packs HTTP/1.1",
        f"GET {GIT}/info/refs HTTP/1.1",
        f"GET {GIT}/info/refs?service=git-upload-archive HTTP/1.1",
        f"GET {GIT}/info/refs?service=git-upload-pack&service=git-receive-pack HTTP/1.1",
        f"GET {GIT}/git-upload-pack HTTP/1.1",
        "POST /git/../verbs/push/git-upload-pack HTTP/1.1",
        "POST /git/acme/..%2fother.git/git-upload-pack HTTP/1.1",
        "POST /git/acme%2Fother/app.git/git-upload-pack HTTP/1.1",
        "POST /git/acme//app.git/git-upload-pack HTTP/1.1",
        "POST /git/acme/app.git/../other.git/git-upload-pack HTTP/1.1",
        "POST /git/acme/app.git/git-upload-pack/../../../../work HTTP/1.1",
        "POST http://127.0.0.1:3127/verbs/pr-open HTTP/1.1",
        "POST /work HTTP/1.1",
        "POST /verbs/pr-open/../../../events HTTP/1.1",
        "POST /verbs/PR HTTP/1.1",
        "DELETE /lfs/x HTTP/1.1",
        "CONNECT github.com:443 HTTP/1.1",
        f"POST {GIT}/info/lfs/objects/../../git-receive-pack HTTP/1.1",
        f"POST {GIT}/info/lfs/locks/../x/unlock HTTP/1.1",
    ],
)
def test_no_other_path_or_method_goes_on(start: str) -> None:
    with pytest.raises(Refusal) as refused:
        parse(head(start))
    assert refused.value.status == "404 Not Found"


@pytest.mark.parametrize(
    "headers",
    [
        ["Content-Length: 3", "Content-Length: 4"],
        ["Content-Length: 3", "Content-Length: 3"],
        ["Content-Length: 3", "Transfer-Encoding: chunked"],
        ["Transfer-Encoding: gzip, chunked"],
        ["Transfer-Encoding: chunked", "Transfer-Encoding: identity"],
        ["Content-Length: +3"],
        ["Content-Length: 0x10"],
        ["Content-Length: 3\n\nPOST /verbs/push HTTP/1.1"],
        ["Content-Type: a\nX: b"],
        ["Content-Type : text/plain"],
        [" folded: header"],
        ["Content-Type: text/plain\r"],
        ["No colon"],
        ["Git-Protocol: version=2\x00"],
        ["Git-Protocol: version=2 evil"],
        ["Content-Encoding: br"],
        ["Host: 127.0.0.1:3127"],
    ],
)
def test_a_head_that_can_be_read_in_two_ways_is_refused(headers: list[str]) -> None:
    with pytest.raises(Refusal) as refused:
        parse(head(f"POST {GIT}/git-receive-pack HTTP/1.1", *headers))
    assert refused.value.status == "400 Bad Request"


def test_nothing_goes_on_but_the_few_headers_that_are_known() -> None:
    asked = parse(
        head(
            f"POST {GIT}/git-receive-pack HTTP/1.1",
            "Authorization: Bearer another",
            "Cookie: a=b",
            "X-Forwarded-For: 1",
            "Content-Type: application/x-git-receive-pack-request",
            "Git-Protocol: version=2",
            "Connection: upgrade",
            "Content-Encoding: gzip",
            "Transfer-Encoding: chunked",
            "Expect: 100-continue",
            "User-Agent: git",
        )
    )
    assert asked.lines == [
        "content-type: application/x-git-receive-pack-request", "content-encoding: gzip", "git-protocol: version=2",
    ]  # fmt: skip
    assert (asked.length, asked.expects) == (-1, True)


@pytest.mark.parametrize(
    ("host", "more"),
    [
        ("evil.example", []),
        ("127.0.0.1:3127.evil.example", []),
        ("127.0.0.1", []),
        ("127.0.0.1:3127", ["Origin: http://evil.example"]),
        ("127.0.0.1:3127", ["Sec-Fetch-Site: cross-site"]),
    ],
)
def test_a_page_in_a_browser_of_the_box_speaks_for_nobody(host: str, more: list[str]) -> None:
    with pytest.raises(Refusal) as refused:
        parse(head("POST /verbs/pr-open HTTP/1.1", *more, host=host))
    assert refused.value.status == "403 Forbidden"


@pytest.mark.parametrize("step", [1, 2, 3, 7, 100])
def test_chunks_are_taken_apart_and_put_together_anew_however_they_come(step: int) -> None:
    body = b"4\r\nPACK\r\n00a\r\n0123456789\r\n0\r\n\r\nPOST /work HTTP/1.1\r\n\r\n"
    chunks, out = Chunks(), b""
    for start in range(0, len(body), step):
        if not chunks.done:
            out += chunks.feed(body[start : start + step])
    assert chunks.done
    assert out.endswith(b"0\r\n\r\n")
    again, plain = Chunks(), out
    assert again.feed(plain).endswith(b"0\r\n\r\n")
    data = b"".join(part for number, part in enumerate(out.split(b"\r\n")) if number % 2)
    assert data == b"PACK0123456789"


@pytest.mark.parametrize(
    "body",
    [b"-1\r\n", b"+4\r\nPACK\r\n", b"4;name=value\r\nPACK\r\n",
     b"4\nPACK\n0\n\n", b" 4\r\nPACK\r\n", b"4\r\nPACKET\r\n0\r\n\r\n",
     b"0x4\r\nPACK\r\n", b"\r\n", b"fffffffff\r\n", b"0\r\nTrailer: x\r\n\r\n"],
)  # fmt: skip
@pytest.mark.parametrize("step", [1, 100])
def test_what_is_no_chunk_ends_the_request(body: bytes, step: int) -> None:
    chunks = Chunks()
    parts = [body[start : start + step] for start in range(0, len(body), step)]
    with pytest.raises(ValueError, match=r"chunk|trailers"):
        list(map(chunks.feed, parts))
