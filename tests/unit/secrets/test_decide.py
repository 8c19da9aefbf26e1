"""Which names and values a secret may have, and what of a text is one."""

from __future__ import annotations

import tracemalloc
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keel.refusal import Refusal
from rift.secrets.decide import decide_name, decide_set, decide_value, masked, reserved, typed
from rift.secrets.model import NAME_MOST, SECRETS_MOST, TOGETHER_MOST, VALUE_MOST
from rift_agent.masking import Secrets


@pytest.mark.parametrize(
    "name", ["API_KEY", "_x", "a", "GITHUB_TOKEN", "GITLAB", "NODE_AUTH_TOKEN", "X" * NAME_MOST, "A1"]
)
def test_a_name_is_that_of_an_environment_variable(name: str) -> None:
    assert decide_name(name, "again") is None


@pytest.mark.parametrize("name", ["", "1A", "A-B", "A B", "A=B", "Ä", "A\n", "X" * (NAME_MOST + 1), "A.B", "$A"])
def test_what_is_no_such_name_is_refused(name: str) -> None:
    refused = decide_name(name, "set it again")
    assert isinstance(refused, Refusal)
    assert refused.code == "secret_name"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("PATH", "every command"), ("home", "every command"), ("LC_ALL", "every command"),
        ("RIFT_COMMAND", "Rift's own"), ("GIT_SSH_COMMAND", "git takes orders"),
        ("https_proxy", "reaches the network"), ("NO_PROXY", "reaches the network"),
        ("LD_PRELOAD", "loaded"), ("GLIBC_TUNABLES", "loaded"), ("BASH_ENV", "the shell"), ("IFS", "the shell"),
        ("UID", "the shell"), ("_", "the shell"),
    ],
)  # fmt: skip
def test_names_that_something_else_goes_by_are_refused_with_the_reason(name: str, why: str) -> None:
    refused = decide_name(name, "set it again")
    assert isinstance(refused, Refusal)
    assert refused.code == "secret_name_taken"
    assert why in refused.sentence
    assert why in reserved(name)


@pytest.mark.parametrize(
    ("value", "why"),
    [("", "is empty"), ("a\0b", "a NUL"), ("\ud800", "half a character"), ("x" * (VALUE_MOST + 1), "65,537 bytes"),
     ("é" * (VALUE_MOST // 2) + "x", "65,537 bytes")],
)  # fmt: skip
def test_a_value_that_no_variable_can_hold_is_refused_and_not_repeated(value: str, why: str) -> None:
    refused = decide_value("API_KEY", value, "set it again")
    assert isinstance(refused, Refusal)
    assert why in refused.sentence
    assert not value or value not in refused.sentence


def test_values_of_any_text_up_to_the_most_are_taken() -> None:
    for value in ("x", " ", "\n", "a\nb\r\nc", "x" * VALUE_MOST, "é" * (VALUE_MOST // 2), "\x01\x1b[31m"):
        assert decide_value("API_KEY", value, "again") is None


def test_a_repository_has_so_many_secrets_of_so_many_bytes() -> None:
    have = {f"S{n}": 10 for n in range(SECRETS_MOST)}
    refused = decide_set("acme/app", "ONE_MORE", "x", have, "/app/secrets")
    assert isinstance(refused, Refusal)
    assert refused.code == "secret_limit"
    assert decide_set("acme/app", "S1", "changed", have, "/app/secrets") is None
    large = {"A": TOGETHER_MOST - 10, "B": 5}
    assert decide_set("acme/app", "B", "x" * 10, large, "/app/secrets") is None
    refused = decide_set("acme/app", "C", "x" * 6, large, "/app/secrets")
    assert isinstance(refused, Refusal)
    assert refused.code == "secrets_too_large"


@pytest.mark.parametrize(
    ("given", "kept"),
    [("key\n", "key"), ("key\r\n", "key"), ("key\n\n", "key\n"), ("a\r\nb\r\n", "a\nb"), (" key ", " key "), ("", "")],
)
def test_what_is_typed_has_line_breaks_as_in_files_and_none_at_its_end(given: str, kept: str) -> None:
    assert typed(given) == kept


@given(st.lists(st.text("abc\n", min_size=1, max_size=12), max_size=5).map(tuple), st.text("abc\n", max_size=60))
def test_a_record_hides_what_an_agent_hides(values: tuple[str, ...], text: str) -> None:
    assert masked(text, values) == Secrets([value.encode() for value in values]).text(text)


def test_many_values_of_one_length_are_hidden_as_an_agent_hides_them() -> None:
    alike = ["".join(one) for one in product("abc", repeat=6)][::3]
    text = "".join("".join(one) for one in product("abc", repeat=7))
    for values in (tuple(alike), (*alike, "abcabca", "cccccccccc"), ("\n".join(alike), "bbbbbb")):
        assert masked(text, values) == Secrets([value.encode() for value in values]).text(text)


@pytest.mark.parametrize("last", ["", "b"])
def test_what_overlaps_itself_in_every_place_takes_no_memory_for_each_of_them(last: str) -> None:
    values = ["\n".join("a" * size + last for size in range(6, 200))]
    text = "a" * 20_000 + last
    tracemalloc.start()
    try:
        hidden = masked(text, values)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert hidden == "a" * (20_000 - 199 if last else 0) + "***"
    assert most < 1 << 20
