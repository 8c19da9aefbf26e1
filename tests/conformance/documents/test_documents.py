"""Documents of clients: what every reader of them does, and what the one over https cannot be made to do."""

from __future__ import annotations

import asyncio
import gzip
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.conformance.onbe_keys.tls import Certificate, certificate

from keel.db import Database
from keel.testing.plugin import FreshDatabase
from rift.drivers.documents import http
from rift.drivers.documents.fake import FakeDocuments
from rift.drivers.documents.http import HttpDocuments
from rift.drivers.documents.protocol import Documents, DocumentUnavailable

NAME = "client.example"
HERE = ("127.0.0.1/32",)
DOCUMENT = {"client_id": f"https://{NAME}/mcp.json", "client_name": "Claude"}

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


class Server:
    """A server over TLS that says what a test wants; `heads` is what it was asked."""

    def __init__(self) -> None:
        self.heads: list[str] = []
        self.port = 0
        self.answer: Answer = said(json.dumps(DOCUMENT).encode())

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
            await self.answer(writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    @property
    def url(self) -> str:
        return f"https://{NAME}:{self.port}/mcp.json"


def said(body: bytes, *, status: str = "200 OK", headers: str = "") -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body)

    return answer


async def endless(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"400\r\n" + b"x" * 1024 + b"\r\n")
        await writer.drain()


async def silent(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    await writer.drain()
    await asyncio.Event().wait()


async def dripping(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n")
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.01)


@asynccontextmanager
async def serving(files: Certificate) -> AsyncIterator[Server]:
    made = Server()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.ca, files.key)
    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(made.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=context)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
async def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    """One whose certificate is believed."""
    files = certificate(tmp_path, NAME)
    monkeypatch.setenv("SSL_CERT_FILE", str(files.ca))
    async with serving(files) as made:
        yield made


def named(*addresses: str) -> tuple[list[str], Callable[[str, int], Awaitable[Sequence[str]]]]:
    """A resolver for which every name has these addresses, and the names that it was asked for."""
    asked: list[str] = []

    async def resolve(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return addresses

    return asked, resolve


def reader(*addresses: str, reach: Sequence[str] = HERE) -> HttpDocuments:
    return HttpDocuments(reach, named(*(addresses or ("127.0.0.1",)))[1])


@pytest.fixture(params=["fake", "http"])
def readers(request: pytest.FixtureRequest, server: Server) -> tuple[Documents, str]:
    """Every reader, and where it finds the document."""
    if request.param == "http":
        return reader(), server.url
    fake = FakeDocuments()
    fake.there[server.url] = DOCUMENT
    return fake, server.url


async def test_a_reader_gives_the_object_that_is_there(readers: tuple[Documents, str]) -> None:
    documents, url = readers
    assert (await documents.read(url)).value == DOCUMENT


async def test_a_reader_says_when_there_is_none(readers: tuple[Documents, str], server: Server) -> None:
    documents, url = readers
    server.answer = said(b"", status="404 Not Found")
    with pytest.raises(DocumentUnavailable, match="status 404"):
        await documents.read(url.replace("mcp.json", "other.json"))


async def test_a_reader_reads_in_no_transaction(readers: tuple[Documents, str], database: FreshDatabase) -> None:
    documents, url = readers
    async with Database(database.runtime) as db, db.tx():
        with pytest.raises(RuntimeError, match="inside a database transaction"):
            await documents.read(url)


async def test_the_name_is_asked_for_and_nothing_of_ours_is_told(server: Server) -> None:
    await reader().read(server.url)
    (head,) = server.heads
    assert head.startswith("GET /mcp.json HTTP/1.1\r\n")
    assert f"host: {NAME}:{server.port}\r\n" in head.lower()
    for told in ("cookie", "authorization", "referer"):
        assert told not in head.lower()


@pytest.mark.parametrize(
    ("headers", "fresh"),
    [("", None), ("Cache-Control: public, max-age=3600\r\n", 3600.0), ("Cache-Control: no-store\r\n", 0),
     ("Cache-Control: no-cache, max-age=60\r\n", 0), ("Cache-Control: max-age=x\r\n", None)],
)  # fmt: skip
async def test_how_long_it_is_fresh_is_what_its_server_says(server: Server, headers: str, fresh: float | None) -> None:
    server.answer = said(b"{}", headers=headers)
    assert (await reader().read(server.url)).max_age == fresh


@pytest.mark.parametrize(
    "addresses",
    [("127.0.0.1",), ("127.0.0.53",), ("0.0.0.0",), ("10.0.0.1",), ("172.16.0.1",), ("192.168.1.1",), ("100.64.0.1",),
     ("169.254.169.254",), ("168.63.129.16",), ("224.0.0.1",), ("255.255.255.255",), ("::1",), ("::",), ("fe80::1",),
     ("fd00::1",), ("::ffff:127.0.0.1",), ("64:ff9b::7f00:1",), ("2002:7f00:1::",), ("fe80::1%eth0",), ("nonsense",),
     ("198.51.100.7", "127.0.0.1"), ("93.184.216.34", "10.0.0.1"), ()],
)  # fmt: skip
async def test_an_address_that_is_not_public_is_not_connected_to(server: Server, addresses: tuple[str, ...]) -> None:
    asked, resolve = named(*addresses)
    with pytest.raises(DocumentUnavailable, match="its name has"):
        await HttpDocuments((), resolve).read(server.url)
    assert (asked, server.heads) == ([NAME], [])


async def test_what_was_looked_at_is_what_is_connected_to(server: Server) -> None:
    asked: list[str] = []

    async def rebound(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["127.0.0.2"]

    assert (await HttpDocuments(HERE, rebound).read(server.url)).value == DOCUMENT
    assert asked == [NAME]


async def test_an_address_that_does_not_answer_leaves_the_next_one(server: Server) -> None:
    found = await reader("127.0.0.2", "127.0.0.1", reach=("127.0.0.0/8",)).read(server.url)
    assert found.value == DOCUMENT


BAD: dict[str, tuple[Answer, str]] = {
    "redirect": (said(b"", status="302 Found", headers="Location: https://client.example/other\r\n"), "status 302"),
    "permanent": (said(b"", status="308 Permanent Redirect", headers="Location: /other\r\n"), "status 308"),
    "unchanged": (said(b"", status="304 Not Modified"), "status 304"),
    "failing": (said(b"{}", status="500 Oh"), "status 500"),
    "large": (said(b'{"x":"' + b"x" * 70_000 + b'"}'), "more than 64 KiB"),
    "endless": (endless, "more than 64 KiB"),
    "compressed": (said(gzip.compress(b"{}"), headers="Content-Encoding: gzip\r\n"), "compressed"),
    "text": (said(b"hello"), "no JSON object"),
    "list": (said(b"[]"), "no JSON object"),
    "empty": (said(b""), "no JSON object"),
    "twice": (said(b'{"client_id":"a","client_id":"b"}'), "no JSON object"),
    "deep": (said(b'{"x":' + b"[" * 30_000), "no JSON object"),
    "bytes": (said(b"\xff{}"), "no JSON object"),
}


@pytest.mark.parametrize(("answer", "why"), BAD.values(), ids=BAD)
async def test_what_is_answered_otherwise_is_not_taken_and_not_followed(
    server: Server, answer: Answer, why: str
) -> None:
    server.answer = answer
    with pytest.raises(DocumentUnavailable, match=why) as trouble:
        await reader().read(server.url)
    assert len(server.heads) == 1
    assert "hello" not in str(trouble.value)


@pytest.mark.parametrize("answer", [silent, dripping])
async def test_a_server_that_is_slow_is_waited_for_so_long_and_no_longer(
    server: Server, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "SECONDS", 0.3)
    server.answer = answer
    with pytest.raises(DocumentUnavailable, match=r"did not answer within 0\.3 s"):
        await reader().read(server.url)


async def test_a_server_that_is_somebody_elses_by_its_certificate_is_not_asked(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DocumentUnavailable, match="connection failed"):
        await reader().read(server.url.replace(NAME, "other.example"))
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(DocumentUnavailable, match="connection failed"):
        await reader().read(server.url)
    assert server.heads == []


@pytest.mark.parametrize(
    "url", ["http://client.example/x", "ftp://client.example/x", "https://u@client.example/x", "", "x"]
)
async def test_what_is_no_address_of_https_is_not_asked(url: str) -> None:
    asked, resolve = named("127.0.0.1")
    with pytest.raises(DocumentUnavailable):
        await HttpDocuments(HERE, resolve).read(url)
    assert asked == []


async def test_a_proxy_of_the_environment_is_not_asked_in_its_place(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert (await reader().read(server.url)).value == DOCUMENT
