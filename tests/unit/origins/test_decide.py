"""What an origin may be, and what moved between two looks at one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keel.refusal import Refusal
from rift.origins.decide import changes, name_of, storable, url_of
from rift.repos.model import Change

HEAD = "a" * 40


def refused(decision: object, code: str) -> Refusal:
    assert isinstance(decision, Refusal)
    assert decision.code == code
    return decision


@pytest.mark.parametrize("text", ["acme/app", " acme/app\n", "A-1/b_c.d", "a/.github", "x/" + "y" * 100])
def test_owner_and_name_are_taken_apart(text: str) -> None:
    owner, name = text.strip().split("/")
    assert name_of(text) == (owner, name)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "app",
        "/app",
        "acme/",
        "a/b/c",
        "a/..",
        "./b",
        "a/-b",
        "-a/b",
        "a b/c",
        "a/b c",
        "a/b\x00",
        "é/b",
        "x/" + "y" * 101,
    ],
)
def test_what_is_not_owner_and_name_is_refused(text: str) -> None:
    assert name_of(text) is None


@pytest.mark.parametrize(
    "origin",
    [
        "https://example.org/acme/app.git",
        "http://user:secret@example.org:8080/app",
        "ssh://git@example.org/acme/app",
        "git://example.org/app",
        "file:///srv/app.git",
        "git@example.org:acme/app.git",
        "example.org:app",
    ],
)
def test_a_git_url_is_taken_as_it_is(origin: str) -> None:
    assert url_of(origin) == origin


@pytest.mark.parametrize("origin", ["/srv/app.git", "app", "./a:b", "../app", "~/app", "/srv/a:b"])
def test_anything_else_is_a_path_to_look_for(origin: str) -> None:
    assert url_of(origin) is None


@pytest.mark.parametrize(
    "origin",
    [
        "",
        "-u/srv/app",
        "--upload-pack=touch /tmp/x",
        "ext::sh -c touch% /tmp/x",
        "ext://x/y",
        "javascript://x/y",
        "https://",
        "https:///app",
        "ssh://-oProxyCommand=x/app",
        "https://[::1/app",
        "/srv/app\x00",
        "https://example.org/\napp",
    ],
)
def test_an_origin_that_git_would_run_or_misread_is_refused(origin: str) -> None:
    refused(url_of(origin), "bad_repository_origin")


def test_a_refused_origin_does_not_repeat_its_password() -> None:
    refusal = refused(url_of("ftp://ada:hunter2@example.org/app"), "bad_repository_origin")
    assert "hunter2" not in refusal.sentence


@pytest.mark.parametrize(
    ("before", "after", "moved"),
    [
        ({}, {}, ()),
        ({"a": "1"}, {"a": "1"}, ()),
        ({}, {"a": "1"}, (Change("a", None, "1"),)),
        ({"a": "1"}, {}, (Change("a", "1", None),)),
        ({"b": "1", "a": "1"}, {"b": "2", "a": "1", "c": "3"}, (Change("b", "1", "2"), Change("c", None, "3"))),
    ],
)
def test_what_moved_is_told_by_ref(before: dict[str, str], after: dict[str, str], moved: tuple[Change, ...]) -> None:
    assert changes(before, after) == moved


HEADS = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("123"))


@given(HEADS, HEADS)
def test_the_changes_lead_from_one_state_to_the_other(before: dict[str, str], after: dict[str, str]) -> None:
    now = dict(before)
    for change in changes(before, after):
        assert change.before != change.after
        if change.after is None:
            del now[change.ref]
        else:
            now[change.ref] = change.after
    assert now == after


def test_branches_whose_names_are_no_text_are_left_out() -> None:
    assert storable({"main": HEAD, "b\udcff": HEAD, "ünïcode": HEAD}) == {"main": HEAD, "ünïcode": HEAD}
