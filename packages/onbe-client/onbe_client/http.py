"""The two drivers of a flow: one awaits, one blocks. Redirects are never followed, bodies are bounded and plain."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Self, TypeVar

import httpx2

from onbe_client.clock import World
from onbe_client.errors import BadAnswer, OnbeError, Unreachable
from onbe_client.steps import BODY_BYTES, Answer, Ask, Flow, Step

T = TypeVar("T")

_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity"}


def _headers(ask: Ask) -> dict[str, str]:
    return _HEADERS if ask.bearer is None else {**_HEADERS, "Authorization": f"Bearer {ask.bearer}"}


def _fit(response: httpx2.Response) -> None:
    """A body that came packed is not unpacked: what it would grow to is not known before."""
    if response.headers.get("content-encoding", "identity").strip().lower() not in ("identity", ""):
        raise BadAnswer("bad_answer", "The answer is compressed, which was not asked for.", status=response.status_code)


def _answer(response: httpx2.Response, body: bytes) -> Answer:
    headers: Mapping[str, str] = {name.lower(): value for name, value in response.headers.items()}
    return Answer(response.status_code, headers, body)


def _too_large(status: int) -> BadAnswer:
    return BadAnswer("bad_answer", f"The answer is over {BODY_BYTES} bytes.", status=status)


def _unreachable(error: Exception) -> OnbeError:
    """Nothing of the request is repeated: it holds credentials."""
    if isinstance(error, httpx2.TimeoutException | TimeoutError):
        return Unreachable("timeout", "The server did not answer in time.")
    if isinstance(error, httpx2.RemoteProtocolError | httpx2.DecodingError):
        return BadAnswer("bad_answer", "The server does not speak HTTP as it should.")
    return Unreachable("unreachable", f"The server cannot be reached ({type(error).__name__}).")


async def run(flow: Flow[T], http: httpx2.AsyncClient, world: World) -> T:
    """Play a flow to its end; returns its result, or raises the OnbeError that it ends with."""
    said: Answer | OnbeError | None = None
    try:
        while True:
            try:
                step: Step = flow.throw(said) if isinstance(said, OnbeError) else flow.send(said)
            except StopIteration as done:
                result: T = done.value
                return result
            if not isinstance(step, Ask):
                await world.sleep(step.seconds)
                said = None
                continue
            try:
                said = await _ask(step, http)
            except OnbeError as error:
                said = error
            except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError) as error:
                said = _unreachable(error)
    finally:
        flow.close()


async def _ask(ask: Ask, http: httpx2.AsyncClient) -> Answer:
    async with asyncio.timeout(ask.within):
        request = http.build_request(
            "GET" if ask.form is None else "POST", ask.url, data=ask.form, headers=_headers(ask), timeout=ask.within
        )
        response = await http.send(request, stream=True, follow_redirects=False, auth=None)
        try:
            _fit(response)
            body = bytearray()
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > BODY_BYTES:
                    raise _too_large(response.status_code)
            return _answer(response, bytes(body))
        finally:
            await response.aclose()


def play(flow: Flow[T], http: httpx2.Client, world: World) -> T:
    """The same, blocking this thread."""
    said: Answer | OnbeError | None = None
    try:
        while True:
            try:
                step: Step = flow.throw(said) if isinstance(said, OnbeError) else flow.send(said)
            except StopIteration as done:
                result: T = done.value
                return result
            if not isinstance(step, Ask):
                world.pause(step.seconds)
                said = None
                continue
            try:
                said = _ask_blocking(step, http)
            except OnbeError as error:
                said = error
            except (httpx2.HTTPError, httpx2.InvalidURL) as error:
                said = _unreachable(error)
    finally:
        flow.close()


class _Watch:
    """Cuts the connection of a blocking request when its time is over.

    A timeout of httpx2's is for one read: a server that sends a letter now and then would hold a thread for ever.
    """

    def __init__(self, within: float) -> None:
        self._guarding = threading.Lock()
        self._socket: socket.socket | None = None
        self.over = False
        self._timer = threading.Timer(within, self._cut)
        self._timer.daemon = True

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """httpx2 tells of each connection it makes (the extension `trace`)."""
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            with self._guarding:
                self._socket = info["return_value"].get_extra_info("socket")
            if self.over:
                self._cut()

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._timer.cancel()
        with self._guarding:
            self._socket = None  # whatever it is used for next is not ours to cut

    def _cut(self) -> None:
        with self._guarding:
            self.over = True
            if self._socket is not None:
                with suppress(OSError):  # closed already; a TLS socket's own method would forget its state
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


def blocking_client() -> httpx2.Client:
    """A client that makes a connection for each request, so that `_Watch` knows it; one in some minutes is needed."""
    return httpx2.Client(limits=httpx2.Limits(max_keepalive_connections=0))


def _ask_blocking(ask: Ask, http: httpx2.Client) -> Answer:
    with _Watch(ask.within) as watch:
        try:
            answer = _told(ask, http, watch)
        except (httpx2.HTTPError, BadAnswer):
            if not watch.over:
                raise
        else:
            return answer
    raise Unreachable("timeout", "The server did not answer in time.")


def _told(ask: Ask, http: httpx2.Client, watch: _Watch) -> Answer:
    request = http.build_request(
        "GET" if ask.form is None else "POST", ask.url, data=ask.form, headers=_headers(ask), timeout=ask.within,
        extensions={"trace": watch.trace},
    )  # fmt: skip
    response = http.send(request, stream=True, follow_redirects=False, auth=None)
    try:
        _fit(response)
        body = bytearray()
        for piece in response.iter_bytes():
            body += piece
            if len(body) > BODY_BYTES:
                raise _too_large(response.status_code)
        return _answer(response, bytes(body))
    finally:
        response.close()
