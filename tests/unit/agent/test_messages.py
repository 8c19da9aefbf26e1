from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rift_agent import messages

FIELDS = st.lists(st.binary(max_size=200), max_size=20)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with one, other:
        yield one, other


@given(kind=st.integers(0, 255), n=st.integers(0, 2**64 - 1), fields=FIELDS)
def test_a_message_comes_out_as_it_went_in(kind: int, n: int, fields: list[bytes]) -> None:
    found = messages.unpack(messages.pack(kind, n, fields))
    assert (found.kind, found.n, found.fields) == (kind, n, fields)


@given(data=st.binary(max_size=300))
def test_any_bytes_are_a_message_or_malformed_and_never_another_error(data: bytes) -> None:
    try:
        found = messages.unpack(data)
    except messages.Malformed:
        return
    assert messages.pack(found.kind, found.n, found.fields) == data


@given(fields=FIELDS, data=st.data())
def test_a_message_cut_or_lengthened_is_malformed(fields: list[bytes], data: st.DataObject) -> None:
    whole = messages.pack(1, 2, fields)
    cut = data.draw(st.integers(0, len(whole) - 1))
    for wrong in (whole[:cut], whole + b"x"):
        with pytest.raises(messages.Malformed):
            messages.unpack(wrong)


@pytest.mark.parametrize("fields", [[b"x" * messages.LIMIT], [b""] * (messages.MOST_FIELDS + 1)])
def test_a_message_over_a_bound_is_not_sent(fields: list[bytes]) -> None:
    with pytest.raises(ValueError):
        messages.pack(1, 1, fields)


def test_descriptors_arrive_closed_on_exec(pair: tuple[socket.socket, socket.socket]) -> None:
    read, write = os.pipe()
    messages.send(pair[0], messages.BASH, 5, [b"text"], [write])
    os.close(write)
    found = messages.receive(pair[1])
    assert found is not None
    (got,) = found.fds
    assert not os.get_inheritable(got)
    os.write(got, b"hello")
    found.close()
    assert os.read(read, 10) == b"hello"
    assert os.read(read, 10) == b""
    os.close(read)


def test_the_end_of_the_other_side_is_none(pair: tuple[socket.socket, socket.socket]) -> None:
    pair[0].close()
    assert messages.receive(pair[1]) is None


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("what", ["rubbish", "too long", "too many descriptors"])
def test_what_is_no_message_leaves_no_descriptor_behind(pair: tuple[socket.socket, socket.socket], what: str) -> None:
    read, write = os.pipe()
    data = messages.pack(1, 1, [])
    body = {"rubbish": b"rubbish", "too long": data + b"x" * messages.LIMIT, "too many descriptors": data}[what]
    before = open_descriptors()
    socket.send_fds(pair[0], [body], [write] * (9 if what == "too many descriptors" else 2))
    with pytest.raises(messages.Malformed):
        messages.receive(pair[1])
    assert open_descriptors() == before
    os.close(read)
    os.close(write)


def test_a_side_that_does_not_read_never_blocks_the_other(pair: tuple[socket.socket, socket.socket]) -> None:
    pair[0].setblocking(False)

    def flood() -> None:
        while True:
            messages.send(pair[0], messages.BASH, 1, [b"x" * 60000])

    with pytest.raises(BlockingIOError):
        flood()
