"""Where a box may push, how a push is read, and what is said of one that is refused."""

from __future__ import annotations

import gzip

import pytest

from rift.drivers.forge.packets import FLUSH, BadRequest, Packets, Push, Update, band, packet
from rift.verbs.decide import (
    Inflated,
    decide_push,
    head_of,
    outcome_of,
    plain,
    read_push,
    refused_push,
)
from rift.verbs.model import Rules

A, B, NONE = "a" * 40, "b" * 40, "0" * 40
ABLE = b"report-status side-band-64k agent=git/2"
RULES = Rules("acme/app", "main", frozenset({"main", "release"}), False, False)


def update(ref: str, old: str = NONE, new: str = A) -> Update:
    return Update(ref, old, new)


def line(ref: str, able: bytes = b"", old: str = NONE, new: str = A) -> bytes:
    return f"{old} {new} {ref}".encode() + (b"\0" + able if able else b"")


@pytest.mark.parametrize(
    "ref",
    ["refs/heads/fix", "refs/heads/a/b", "refs/heads/main-2", "refs/heads/mainline", "refs/heads/x/main",
     "refs/tags/v1", "refs/tags/main-1", "refs/tags/a/main", "refs/tags/HEAD", "refs/heads/ünïcode"],
)  # fmt: skip
def test_a_branch_or_tag_of_another_name_may_be_pushed(ref: str) -> None:
    assert decide_push([update(ref)], RULES) == {}


@pytest.mark.parametrize(
    "ref",
    ["refs/heads/main", "refs/heads/MAIN", "refs/heads/Main", "refs/heads/release", "refs/heads/RELEASE",
     "refs/pull/1/head", "refs/pull/1/merge", "HEAD", "refs/heads/HEAD", "refs/rift/boxes/b-1", "refs/notes/commits",
     "refs/heads/refs/heads/main", "refs/heads/../heads/main", "refs/heads/./main", "refs/heads//main",
     "refs/heads/main.lock", "refs/heads/main/", "refs/heads/x/../main", "refs/heads/main~1", "refs/heads/ma*n",
     "refs/heads/a@{0}", "refs/heads/-", "refs/heads", "refs/remotes/origin/main", "refs/stash",
     "refs/tags/../heads/main", "refs/tags/main", "refs/tags/Main", "refs/tags/release"],
)  # fmt: skip
def test_no_spelling_of_a_guarded_ref_gets_through(ref: str) -> None:
    if ref == "refs/heads/-":
        assert decide_push([update(ref)], RULES) == {}
    else:
        assert set(decide_push([update(ref)], RULES)) == {ref}


def test_removing_a_guarded_branch_is_a_change_of_it() -> None:
    assert set(decide_push([update("refs/heads/main", A, NONE), update("refs/heads/x", A, NONE)], RULES)) == {
        "refs/heads/main"
    }


def test_what_an_admin_allows_is_allowed_and_nothing_beside_it() -> None:
    both = [update("refs/heads/main"), update("refs/heads/release")]
    default = Rules("acme/app", "main", frozenset({"release"}), True, False)
    assert set(decide_push(both, default)) == {"refs/heads/release"}
    watched = Rules("acme/app", "main", frozenset({"release"}), False, True)
    assert set(decide_push(both, watched)) == {"refs/heads/main"}
    # The default branch that is watched too is behind both.
    assert set(decide_push(both, Rules("acme/app", "main", RULES.watched, True, False))) == {
        "refs/heads/main", "refs/heads/release",
    }  # fmt: skip
    assert decide_push(both, Rules("acme/app", "main", RULES.watched, True, True)) == {}


def test_a_tag_that_would_be_taken_for_a_guarded_branch_is_none_and_what_is_allowed_is_allowed() -> None:
    (why,) = decide_push([update("refs/tags/main")], RULES).values()
    assert why == "main is the default branch, and a tag of that name would be taken for it"
    assert decide_push([update("refs/tags/main")], Rules("acme/app", "main", frozenset(), True, False)) == {}


def test_while_the_default_branch_is_not_known_nothing_may_be_it() -> None:
    rules = Rules("acme/app", None, frozenset({"release"}), False, False)
    assert "the default one is not known" in decide_push([update("refs/heads/any")], rules)["refs/heads/any"]
    open_ = Rules("acme/app", None, frozenset({"release"}), True, False)
    assert set(decide_push([update("refs/heads/any"), update("refs/heads/release")], open_)) == {"refs/heads/release"}


def test_a_push_is_read_and_written_anew_as_it_was_judged() -> None:
    lines = [line("refs/heads/x", ABLE), line("refs/tags/v1") + b"\n"]
    push, words, shallow = read_push(lines)
    assert [one.ref for one in push.updates] == ["refs/heads/x", "refs/tags/v1"]
    assert "side-band-64k" in push.able
    found, ended = Packets().take(head_of(push, words, shallow, []))
    assert ended
    assert read_push(found) == (push, words, shallow)


def test_shallow_lines_and_options_go_on_with_the_push() -> None:
    push, words, shallow = read_push([f"shallow {B}".encode(), line("refs/heads/x", ABLE + b" push-options")])
    head = head_of(push, words, shallow, [b"ci.skip"])
    assert head.startswith(packet(f"shallow {B}".encode()))
    assert head.endswith(FLUSH + packet(b"ci.skip") + FLUSH)


@pytest.mark.parametrize(
    "lines",
    [
        [b"push-cert\0" + ABLE],
        [b"shallow HEAD", line("refs/heads/x", ABLE)],
        [f"{A} {A}".encode()],
        [f"{A} {'b' * 64} refs/heads/x".encode()],
        [f"{A.upper()} {B} refs/heads/x".encode()],
        [line("refs/heads/x", ABLE), line("refs/heads/x")],
        [line("refs/heads/x y", ABLE)],
        [line("refs/heads/x", b"report-status\nhost=evil")],
        [NONE.encode() + b" " + A.encode() + b" refs/heads/\xff\xfe"],
        [line("refs/heads/x\x1b[31m", ABLE)],
        [line(f"refs/heads/{number}") for number in range(1001)],
    ],
)
def test_what_is_no_push_is_refused_before_any_of_it_goes_on(lines: list[bytes]) -> None:
    with pytest.raises(BadRequest):
        read_push(lines)


def test_a_refused_push_names_each_ref_in_gits_own_words() -> None:
    push = Push((update("refs/heads/main"), update("refs/heads/x")), frozenset({"report-status", "side-band-64k"}))
    found, ended = Packets().take(refused_push(push, {"refs/heads/main": "guarded"}, "two\nlines"))
    assert ended
    assert found[0] == b"\x02two\nlines\n"
    told, _ = Packets().take(found[1][1:])
    assert told == [
        b"unpack ok\n", b"ng refs/heads/main guarded\n", b"ng refs/heads/x another ref of this push is refused\n",
    ]  # fmt: skip


def test_a_client_that_wants_no_report_gets_none() -> None:
    assert refused_push(Push((update("refs/heads/main"),), frozenset()), {"refs/heads/main": "no"}, "words") == b""


@pytest.mark.parametrize(
    ("report", "outcome"),
    [
        ([b"unpack ok\n", b"ok refs/heads/x\n"], ("ok", {})),
        ([b"unpack ok\n", b"ng refs/heads/x protected branch hook declined\n"],
         ("refused_by_origin", {"refs/heads/x": "protected branch hook declined"})),
        ([b"unpack index-pack abnormal exit\n"], ("refused_by_origin", {"refs/heads/x": "index-pack abnormal exit"})),
        ([], ("unknown", {})),
    ],
)  # fmt: skip
@pytest.mark.parametrize("banded", [True, False])
def test_what_became_of_a_push_is_read_from_the_answer(
    report: list[bytes], outcome: tuple[str, dict[str, str]], banded: bool
) -> None:
    push = Push((update("refs/heads/x"),), frozenset({"report-status", *(["side-band-64k"] if banded else [])}))
    told = b"".join(map(packet, report)) + FLUSH
    answer = band(2, b"remote words") + band(1, told) + FLUSH if banded else told
    assert outcome_of(answer, push) == outcome


def test_an_answer_that_is_none_says_nothing_of_the_push() -> None:
    assert outcome_of(b"<html>", Push((update("refs/heads/x"),), frozenset())) == ("unknown", {})


def test_a_body_is_unpacked_in_pieces_and_no_further_than_it_may() -> None:
    whole = b"want " * 100_000
    inflated, data = Inflated(len(whole)), gzip.compress(whole)
    parts = [part for start in range(0, len(data), 100) for part in inflated.feed(data[start : start + 100])]
    inflated.end()
    assert b"".join(parts) == whole
    assert max(map(len, parts)) <= 1 << 16
    with pytest.raises(BadRequest):
        list(Inflated(len(whole) - 1).feed(data))
    with pytest.raises(BadRequest):
        list(Inflated(100).feed(b"no gzip"))
    cut = Inflated(len(whole))
    list(cut.feed(data[:-20]))
    with pytest.raises(BadRequest):
        cut.end()


def test_somebodys_text_is_shown_without_what_a_terminal_obeys_or_an_eye_misses() -> None:
    assert plain("a\x1b[31mred\x1b[0m\r\nb\x00\u202ec\u200b", 100) == "ared\nbc"
    assert plain("\x1b]0;title\x07x", 100) == "x"
    assert plain("x" * 12, 10) == "x" * 10 + "\n… 2 more characters"
