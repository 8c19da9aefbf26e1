"""Secrets taken out of output: whatever the pieces in which it comes, each run of a value's bytes is `***`."""

from __future__ import annotations

import tracemalloc
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rift_agent.kept import ONCE_MOST, Kept
from rift_agent.masking import FEW, LEAST, MASK, Mask, Secrets

TOKEN = b"tok_5e4d3c2b1a"


def pieces(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def streamed(secrets: Secrets, parts: list[bytes]) -> bytes:
    mask = Mask(secrets)
    return b"".join([*map(mask.feed, parts), mask.flush()])


def slowly(values: list[bytes], data: bytes) -> bytes:
    """The same, as it is defined: every byte of every place where a value stands is hidden, an unbroken run of
    overlapping places is one mask.
    """
    parts = {part for value in values for part in (value, *(line.strip(b"\r") for line in value.split(b"\n")))}
    parts = {part for part in parts if len(part) >= LEAST}
    places = sorted((at, at + len(part)) for part in parts for at in range(len(data)) if data.startswith(part, at))
    told, upto = b"", 0
    for start, end in places:
        if start >= upto:
            told += data[upto:start] + MASK
        upto = max(upto, end)
    return told + data[upto:]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 16, 1000])
def test_a_value_is_masked_however_it_comes(size: int) -> None:
    secrets = Secrets([TOKEN])
    data = b"before " + TOKEN + b" between " + TOKEN + TOKEN + b" after tok_5e4d"
    assert streamed(secrets, pieces(data, size)) == b"before *** between ****** after tok_5e4d"
    assert secrets.whole(data) == b"before *** between ****** after tok_5e4d"


def test_only_what_may_be_the_beginning_of_a_value_is_held_back() -> None:
    mask = Mask(Secrets([TOKEN]))
    assert mask.feed(b"waiting for tok") == b"waiting for "
    assert mask.feed(b"yo") == b"tokyo"
    assert mask.feed(b" and t") == b" and "
    assert mask.feed(b"ok_") == b""
    assert mask.flush() == b"tok_"
    assert mask.flush() == b""


def test_a_value_in_another_and_values_that_overlap_hide_all_that_belongs_to_either() -> None:
    secrets = Secrets([b"abcdef", b"abcdefghij", b"defghi-and-more"])
    assert secrets.whole(b"abcdef abcdefghij abcdefghi abcdefghi-and-more.") == b"*** *** ***ghi ***."
    for size in (1, 2, 5):
        assert streamed(secrets, pieces(b"abcdefghi-and-more.abcdefg", size)) == b"***.***g"


def test_each_line_of_a_value_counts_and_the_whole_of_it() -> None:
    value = b"-----BEGIN KEY-----\r\nMIIEvQIBADANBg\nab\nkqhkiG9w0B==\n-----END KEY-----\n"
    secrets = Secrets([value])
    assert secrets.whole(b"<" + value + b">") == b"<***>"
    assert secrets.whole(b"> MIIEvQIBADANBg <\n> ab <\n> kqhkiG9w0B== <\n") == b"> *** <\n> ab <\n> *** <\n"
    assert Secrets([b"a\nb\nc\nd\n"]).whole(b"x a\nb\nc\nd\n y a") == b"x *** y a"


def test_values_of_fewer_than_six_bytes_are_not_masked() -> None:
    secrets = Secrets([b"12345", b"", "é€é".encode()])
    assert secrets.whole("12345 é€é".encode()) == b"12345 ***"


def test_a_value_of_one_letter_again_and_again_is_one_mask() -> None:
    secrets = Secrets([b"aaaaaa"])
    assert secrets.whole(b"a" * 100_000) == MASK
    assert secrets.whole(b"a" * 5 + b"b" + b"a" * 7) == b"aaaaab***"
    assert streamed(secrets, [b"a"] * 50) == MASK


def test_secrets_that_come_meanwhile_are_masked_from_then_on() -> None:
    mask = Mask(Secrets([TOKEN]))
    assert mask.feed(b"new-secret tok_5e") == b"new-secret "
    mask.secrets = Secrets([TOKEN, b"new-secret"])
    assert mask.feed(b"4d3c2b1a new-sec") == b"*** "
    assert mask.feed(b"ret.") == b"***."


def test_a_value_as_long_as_may_be_is_masked_across_pieces_of_any_size() -> None:
    value = bytes(range(1, 128)) * 516
    secrets = Secrets([value.replace(b"\n", b"-")])
    data = b"x" * 70_000 + value.replace(b"\n", b"-") + b"y" * 70_000
    for size in (4096, 65_536, 99_991):
        assert streamed(secrets, pieces(data, size)) == b"x" * 70_000 + MASK + b"y" * 70_000


def test_many_values_are_masked_as_few_are() -> None:
    values = [b"%03d-%s" % (n, b"z" * (n % 40)) for n in range(10 * FEW)] + [b"s%05d" % n for n in range(3 * FEW)]
    secrets = Secrets(values)
    data = b" ".join([*values, b"s99999 000-z", *reversed(values)])
    assert secrets.whole(data) == slowly(values, data)
    for size in (1, 3, 64):
        assert streamed(secrets, pieces(data, size)) == slowly(values, data)


few = st.lists(st.text("ab\n", min_size=1, max_size=14).map(str.encode), min_size=1, max_size=4)
many = st.lists(st.text("abc", min_size=6, max_size=24).map(str.encode), min_size=30, max_size=60)
texts = st.lists(st.text("abc\n", max_size=30).map(str.encode), max_size=8)


@settings(max_examples=300, deadline=None)
@given(few, texts)
def test_what_is_told_does_not_depend_on_the_pieces(values: list[bytes], parts: list[bytes]) -> None:
    data = b"".join(parts)
    secrets = Secrets(values)
    assert streamed(secrets, parts) == streamed(secrets, [data]) == slowly(values, data)
    assert streamed(secrets, pieces(data, 1)) == slowly(values, data)


@settings(max_examples=60, deadline=None)
@given(many, texts, st.data())
def test_many_values_hide_what_each_of_them_would(
    values: list[bytes], parts: list[bytes], drawn: st.DataObject
) -> None:
    said = [*parts, *drawn.draw(st.lists(st.sampled_from(values), max_size=6))]
    assert streamed(Secrets(values), said) == slowly(values, b"".join(said))


def test_what_is_held_back_is_never_more_than_a_value() -> None:
    secrets = Secrets([TOKEN, b"x" * 600])
    mask = Mask(secrets)
    for size in range(1, 700):
        mask.feed(b"x" * (size % 599))
        assert len(mask._held) < secrets.longest


def test_a_hosts_name_that_holds_a_value_is_known_in_any_case() -> None:
    secrets = Secrets([b"ToK-5e4D3c"])
    assert secrets.names("tok-5e4d3c.example.com")
    assert not secrets.names("example.com")


def test_values_of_before_stay_masked_and_are_given_no_more() -> None:
    kept = Kept()
    assert kept.mask() is None
    assert kept.descriptors() == []
    kept.keep({"KEY": "first-value"})
    mask = kept.mask()
    assert mask is not None
    kept.keep({"KEY": "other-value"})
    kept.keep({})
    assert kept.text("first-value other-value") == "*** ***"
    assert kept.descriptors() == []
    again = kept.mask(mask)
    assert again is mask
    assert mask.feed(b"other-value!") == b"***!"


def test_only_so_much_of_values_of_before_is_remembered() -> None:
    kept = Kept()
    for n in range(20):
        kept.keep({"KEY": f"{n:04}" + "v" * (ONCE_MOST // 10)})
    assert kept.text("0001" + "v" * (ONCE_MOST // 10)) != "***"
    assert kept.text("0018" + "v" * (ONCE_MOST // 10)) == "***"


@settings(max_examples=150, deadline=None)
@given(
    lengths=st.lists(st.integers(LEAST, 90), min_size=FEW + 1, max_size=40),
    at=st.lists(st.integers(0, 400), min_size=1, max_size=6),
    seed=st.randoms(use_true_random=False),
)
def test_many_values_of_any_lengths_are_found_at_any_place(lengths: list[int], at: list[int], seed: Random) -> None:
    values = [bytes(seed.choices(b"abcdefgh", k=length)) for length in lengths]
    data = bytearray(seed.choices(b"abcdefgh ", k=500))
    for start in at:
        value = seed.choice(values)
        data[start : start + len(value)] = value
    assert Secrets(values).whole(bytes(data)) == slowly(values, bytes(data))


def test_what_is_looked_for_stays_small_whatever_the_values() -> None:
    lines = b"\n".join(b"%07d" % number for number in range(9_000))
    for values in ([lines], [b"x" * 40 + b"%05d" % number for number in range(100)], [b"y" * 65_536] * 4):
        assert Secrets(values).sought <= 4 * 9_000


def test_many_values_that_overlap_in_every_place_take_no_memory_for_each_of_them() -> None:
    secrets = Secrets([b"a" * size for size in range(LEAST, 200)])
    data = b"a" * 20_000
    tracemalloc.start()
    try:
        assert secrets.whole(data) == MASK
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 6 << 20
