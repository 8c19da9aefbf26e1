"""What a repository argument means, what moved, and what stands between a person and a box."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keel.refusal import Ask, Call, Refusal, Retry
from rift.repos.decide import (
    close_to,
    decide_head,
    decide_repo,
    decide_warm,
    decide_watch,
    main_of,
    ref_of,
)
from rift.repos.model import Repo, RepoView, Watch, WatchedHead

NOW = datetime(2026, 1, 2, tzinfo=UTC)
HEAD = "a" * 40


def repo(full: str = "acme/app", *, org: str = "org_1", failure: str | None = None) -> Repo:
    owner, name = full.split("/")
    return Repo(f"repo_{org}_{full}", org, owner, name, "/srv/app.git", "proxy", NOW, failure, NOW)


def watch(
    ref: str = "main", *, head: str | None = HEAD, ready: int = 0, failure: str | None = None, warm: int = 1
) -> Watch:
    return Watch(repo().id, ref, warm, head, ready, failure, NOW if failure else None)


def view(*watches: Watch, of: Repo | None = None) -> RepoView:
    one = of or repo()
    return RepoView(one, "personal", one.url, watches)


def refused(decision: object, code: str) -> Refusal:
    assert isinstance(decision, Refusal)
    assert decision.code == code
    return decision


def test_a_full_ref_name_is_forgiven() -> None:
    assert ref_of(" refs/heads/feature/x ") == "feature/x"
    assert ref_of("main") == "main"


APP, LIB, OTHER = repo("acme/app"), repo("acme/lib"), repo("other/app")


@pytest.mark.parametrize(
    ("asked", "found", "meant"),
    [
        ("acme/app", [APP], APP),
        (" acme/app ", [APP, OTHER], APP),
        ("other/app", [APP, OTHER], OTHER),
        ("app", [APP], APP),
        ("ACME/App", [APP, OTHER], APP),
        ("APP", [APP], APP),
        ("acme/app", [APP, repo("Acme/App")], APP),
        ("acme/app", [APP, repo("acme/app", org="org_2")], APP),
    ],
)
def test_a_repository_is_meant_by_its_name(asked: str, found: list[Repo], meant: Repo) -> None:
    assert decide_repo(asked, found, []) == meant


def test_a_short_name_of_two_repositories_is_refused_naming_both() -> None:
    refusal = refused(decide_repo("app", [OTHER, APP], []), "which_repository")
    assert "acme/app, other/app" in refusal.sentence


@pytest.mark.parametrize("asked", ["acme/ap", "app", "acme/app.git"])
def test_an_unknown_repository_is_refused_with_what_is_close(asked: str) -> None:
    refusal = refused(decide_repo(asked, [], ["acme/app", "zeta/unrelated"]), "no_such_repository")
    assert "acme/app" in refusal.sentence
    assert "unrelated" not in refusal.sentence
    assert refusal.mends == (Call("rift_repos", {"org": "personal"}),)


def test_of_a_known_name_under_another_owner_the_right_one_is_suggested() -> None:
    refusal = refused(decide_repo("acne/app", [APP], ["acme/app"]), "no_such_repository")
    assert "Close to it: acme/app." in refusal.sentence


@given(st.text(), st.lists(st.text(), max_size=20))
def test_suggestions_are_few_and_among_the_names(asked: str, names: list[str]) -> None:
    close = close_to(asked, names)
    assert len(close) <= 5
    assert set(close) <= set(names)


def test_a_known_branch_is_watched_at_its_head() -> None:
    assert decide_watch(APP, "main", 0, {"main": HEAD}, "personal") == HEAD
    assert decide_watch(APP, "main", 100, {"main": HEAD}, "personal") == HEAD


@pytest.mark.parametrize(("warm", "nearest"), [(-1, 0), (101, 100)])
def test_a_warm_count_out_of_range_is_refused_with_the_nearest(warm: int, nearest: int) -> None:
    refusal = refused(decide_watch(APP, "main", warm, {"main": HEAD}, "personal"), "warm_out_of_range")
    assert refusal.mends == (Call("rift_watch", {"repo": "acme/app", "ref": "main", "warm": nearest}),)


def test_an_unknown_branch_is_refused_with_the_calls_for_close_ones() -> None:
    refusal = refused(decide_watch(APP, "mian", 2, {"main": HEAD, "zz": HEAD}, "personal"), "no_such_ref")
    assert "Close to it: main." in refusal.sentence
    assert refusal.mends[0] == Call("rift_watch", {"repo": "acme/app", "ref": "main", "warm": 2})


def test_an_unknown_branch_like_no_other_is_refused_with_those_there_are() -> None:
    heads = {f"b{n:02}": HEAD for n in range(30)}
    refusal = refused(decide_watch(APP, "completely-else", 1, heads, "personal"), "no_such_ref")
    assert "It has b00, b01," in refusal.sentence
    assert "b29" not in refusal.sentence
    assert len([mend for mend in refusal.mends if isinstance(mend, Call)]) == 3


def test_a_branch_of_an_unread_origin_is_refused_with_what_went_wrong() -> None:
    refusal = refused(decide_watch(repo(failure="host is down"), "main", 1, {}, "personal"), "no_such_ref")
    assert "host is down" in refusal.sentence


def test_a_box_starts_from_the_watched_head() -> None:
    assert decide_head(APP, "main", [watch(warm=3)], False, "personal", NOW) == WatchedHead(
        APP, "main", HEAD, 3, "personal"
    )


WATCH = {"repo": "acme/app", "ref": "dev", "warm": 1}


def test_an_unwatched_ref_names_the_watch_for_an_admin_to_call() -> None:
    refusal = refused(decide_head(APP, "dev", [watch("main")], True, "personal", NOW), "ref_not_watched")
    assert refusal.mends == (Call("rift_watch", WATCH),)
    assert "Watched: main." in refusal.sentence


def test_an_unwatched_ref_names_the_watch_for_a_member_to_ask_an_admin_for() -> None:
    refusal = refused(decide_head(APP, "dev", [], False, "acme", NOW), "ref_not_watched")
    assert refusal.mends == (Ask("an admin of acme", 'rift_watch {"repo": "acme/app", "ref": "dev", "warm": 1}'),)
    assert "No ref of it is watched." in refusal.sentence


def test_a_watched_ref_without_a_branch_says_that_the_branch_is_missing() -> None:
    refusal = refused(decide_head(APP, "main", [watch(head=None)], True, "personal", NOW), "watched_ref_gone")
    assert isinstance(refusal.mends[0], Ask)
    assert refusal.mends[1] == Call("rift_unwatch", {"repo": "acme/app", "ref": "main"})


def test_a_failure_at_the_head_is_told_whole_with_the_call_that_tries_again() -> None:
    text = "line 1\nline {2}\n" * 100
    refusal = refused(decide_head(APP, "main", [watch(failure=text, warm=2)], True, "personal", NOW), "head_failed")
    assert text in refusal.sentence
    assert refusal.note == "boxes of acme/app at main cannot be made: line 1", "whole once is enough"
    assert refusal.mends[0] == Call("rift_watch", {"repo": "acme/app", "ref": "main", "warm": 2})
    member = refused(decide_head(APP, "main", [watch(failure=text)], False, "acme", NOW), "head_failed")
    assert isinstance(member.mends[0], Ask)


def test_a_failure_answers_for_a_minute_and_then_a_box_is_tried_again() -> None:
    failed = [watch(failure="disk full")]
    refusal = refused(decide_head(APP, "main", failed, True, "personal", NOW + timedelta(seconds=20)), "head_failed")
    assert refusal.mends[-1] == Retry(40.0)
    later = decide_head(APP, "main", failed, True, "personal", NOW + timedelta(seconds=60))
    assert later == WatchedHead(APP, "main", HEAD, 1, "personal")


def test_warm_boxes_that_run_are_given_although_another_one_failed() -> None:
    failed = [watch(failure="disk full", ready=1)]
    assert decide_head(APP, "main", failed, True, "personal", NOW) == WatchedHead(APP, "main", HEAD, 1, "personal")


@pytest.mark.parametrize(("names", "main"), [(["a", "main"], "main"), (["master", "z"], "master"), (["x", "y"], "x")])
def test_the_main_branch_is_guessed(names: list[str], main: str) -> None:
    assert main_of(names) == main


@pytest.mark.parametrize(
    ("warm", "most", "allowed"),
    [
        (5, 10, True),  # 5 here and 4 at another ref: 9
        (6, 10, True),
        (7, 10, False),
        (3, 4, True),  # as many as before, and fewer, may always be had
        (2, 4, True),
        (4, 4, False),
    ],
)
def test_the_pools_of_an_organization_stay_within_what_it_may_have(warm: int, most: int, allowed: bool) -> None:
    kept = {(APP.id, "main"): 3, (APP.id, "dev"): 4}
    decision = decide_warm(APP, "main", warm, kept, most)
    assert (decision is None) == allowed
    if decision is not None:
        assert decision.mends[0] == Call("rift_watch", {"repo": APP.full, "ref": "main", "warm": max(0, most - 4)})
