"""Bytes to text in pieces: whatever the bytes and wherever they are cut, the pieces make the whole."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rift.commands.decide import cut, decide_piece, unfinished
from rift.commands.model import Piece

CHARACTERS = "a\n é€𝄞\u0000\ud7ff\ue000\U0010ffff"
STRANGE = [b"\xff", b"\x80", b"\xc0\xaf", b"\xe0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xf0\x9d", b"\xc3"]

outputs = st.lists(
    st.sampled_from([c.encode() for c in CHARACTERS] + STRANGE) | st.binary(max_size=4), max_size=12
).map(b"".join)


def whole(data: bytes) -> str:
    """Text of bytes by the letter of the rule: a valid character is itself, any other byte is one U+FFFD."""
    text, at = "", 0
    while at < len(data):
        for width in (1, 2, 3, 4):
            try:
                text += data[at : at + width].decode()
            except UnicodeDecodeError:
                continue
            if at + width <= len(data):
                at += width
                break
        else:
            text += "\ufffd"
            at += 1
    return text


@given(outputs)
def test_bytes_that_ended_are_all_told_each_invalid_one_as_one_mark(data: bytes) -> None:
    assert cut(data, ended=True) == (whole(data), len(data))


@given(outputs)
def test_while_a_command_runs_at_most_three_bytes_wait_and_only_for_the_rest_of_a_character(data: bytes) -> None:
    text, used = cut(data, ended=False)
    waiting = data[used:]
    assert len(waiting) == unfinished(data) <= 3
    assert text == whole(data[:used])
    if waiting:
        ends = itertools.product((0x80, 0x8F, 0x90, 0xBF), repeat=4 - len(waiting))
        rests = [bytes(end)[:length] for end in ends for length in range(1, 5 - len(waiting))]
        assert any("\ufffd" not in whole(waiting + rest) for rest in rests)


@pytest.mark.parametrize("character", ["é", "€", "𝄞", "\ud7ff", "\ue000", "\U0010ffff"])
def test_a_character_cut_anywhere_waits_for_its_rest(character: str) -> None:
    data = character.encode()
    for at in range(1, len(data)):
        assert cut(b"x" + data[:at], ended=False) == ("x", 1)
        assert cut(b"x" + data[:at], ended=True) == ("x" + "\ufffd" * at, 1 + at)
    assert cut(data, ended=False) == (character, len(data))


@pytest.mark.parametrize(
    "data", [b"\xc0", b"\xc1", b"\xf5", b"\xff", b"\x80", b"\xe0\x80", b"\xed\xa0", b"\xf4\x90", b"\xf0\x80\x80"]
)
def test_what_can_never_become_a_character_does_not_wait(data: bytes) -> None:
    assert cut(data, ended=False) == ("\ufffd" * len(data), len(data))


def read_on(data: bytes, sizes: list[int], ends: list[int]) -> str:
    """Read an output as a client does, next offset by next offset, while it grows and then ends."""
    text, offset, grown = "", 0, 0
    steps = itertools.cycle(sizes)
    for end in [*ends, None]:
        ended = end is None
        grown = len(data) if end is None else min(max(end, grown), len(data))
        while True:
            at_most = next(steps)
            piece = decide_piece(offset, offset, grown, data[offset:grown][:at_most], at_most, ended)
            assert piece.size == grown
            assert piece.lacking is None
            assert offset <= piece.next_offset <= min(grown, offset + at_most)
            text += piece.output
            stuck = piece.next_offset == offset
            offset = piece.next_offset
            if stuck:
                assert grown - offset <= (0 if ended else 3)
                break
    assert offset == len(data)
    return text


@given(
    outputs,
    st.lists(st.integers(4, 9), min_size=1, max_size=4),
    st.lists(st.integers(0, 40), max_size=4),
)
@example("a𝄞€".encode(), [4], [1, 2, 3, 4, 5, 6, 7])
def test_the_pieces_of_any_output_in_any_sizes_make_the_whole(data: bytes, sizes: list[int], ends: list[int]) -> None:
    assert read_on(data, sizes, ends) == whole(data)


@given(outputs, st.lists(st.integers(1, 3), min_size=1, max_size=4))
def test_a_piece_too_small_for_a_character_still_reads_on(data: bytes, sizes: list[int]) -> None:
    text = read_on(data, sizes, [])
    assert len(text) >= len(whole(data))


@given(outputs, st.integers(0, 40))
def test_an_offset_inside_a_character_is_allowed(data: bytes, offset: int) -> None:
    offset = min(offset, len(data))
    piece = decide_piece(offset, offset, len(data), data[offset:], 65_536, ended=True)
    assert piece == Piece(whole(data[offset:]), len(data), len(data))


@given(outputs, st.integers(1, 40))
def test_bytes_that_were_dropped_are_named_and_reading_goes_on_behind_them(data: bytes, dropped: int) -> None:
    dropped = min(dropped, len(data))
    piece = decide_piece(0, dropped, len(data), data[dropped:], 65_536, ended=True)
    lacking = (0, dropped) if dropped else None
    assert piece == Piece(whole(data[dropped:]), len(data), len(data), lacking, "gone" if lacking else None)


def test_a_piece_is_cut_before_a_character_that_does_not_fit() -> None:
    data = b"abc" + "é".encode() + b"d"
    assert decide_piece(0, 0, 6, data, 4, ended=True) == Piece("abc", 3, 6)
    assert decide_piece(3, 3, 6, data[3:], 4, ended=True) == Piece("éd", 6, 6)
