"""What a merge patch makes of a registration, when an agent may go; and anything at all, thrown at the rules."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.onbe.directory.samples import BOUNDS, EC, NOW, OKP, members, problems, registered

from keel.refusal import Refusal
from onbe.directory.decide import MEMBERS, changes, decide_change, decide_delete, decide_new, document, merge
from onbe.directory.model import Registration

LATER = NOW + timedelta(minutes=1)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_patches_merge_as_the_examples_of_rfc_7396_do(target: Any, patch: Any, result: Any) -> None:
    assert merge(target, patch) == result


def change(old: Registration, **patch: Any) -> Registration | Refusal:
    return decide_change(old, patch, BOUNDS, LATER)


def test_what_a_patch_does_not_name_is_left_as_it_is() -> None:
    old = registered(max_task_ttl="PT10M", enabled=False)
    new = change(old, display_name="Post")
    assert new == replace(old, display_name="Post", updated_at=LATER)
    assert changes(old, replace(old, display_name="Post")) == {"display_name": {"old": "The mailer", "new": "Post"}}


def test_what_changes_nothing_is_the_registration_itself() -> None:
    old = registered(max_task_ttl="PT10M")
    assert change(old) is old
    assert change(old, max_task_ttl="PT600S", agent_id="mailer") is old


def test_bounds_that_moved_hold_only_what_a_patch_names() -> None:
    old = registered(max_task_ttl="P1D")
    tighter = replace(BOUNDS, max_task_ttl=timedelta(hours=1))
    assert problems(decide_change(old, {"display_name": "Post"}, tighter, LATER)) == {}
    assert list(problems(decide_change(old, {"max_task_ttl": "P1D"}, tighter, LATER))) == ["#/max_task_ttl"]


@pytest.mark.parametrize(
    ("patch", "where"),
    [
        ({"agent_id": "other"}, "#/agent_id"),
        ({"agent_id": None}, "#/agent_id"),
        ({"display_name": None}, "#/display_name"),
        ({"allowed_scopes": None}, "#/allowed_scopes"),
        ({"allowed_scopes": {"0": "x"}}, "#/allowed_scopes"),
        ({"enabled": None}, "#/enabled"),
        ({"created_at": None}, "#/created_at"),
        ({"unknown": None}, "#/unknown"),
        ({"jwks": None}, "#"),
        ({"jwks_uri": "https://a/jwks"}, "#/jwks_uri"),
        ({"jwks": {"keys": None}}, "#/jwks"),
        ({"jwks": {"d": "x"}}, "#/jwks/d"),
        ({"allowed_audiences": ["https://files.example.com/"]}, "#/high_risk_audiences/0"),
        ({"high_risk_audiences": ["https://other.example.com/"]}, "#/high_risk_audiences/0"),
    ],
)
def test_a_patch_that_leads_to_no_registration_is_refused(patch: dict[str, Any], where: str) -> None:
    old = registered(high_risk_audiences=["https://mail.example.com/"])
    assert list(problems(decide_change(old, patch, BOUNDS, LATER))) == [where]


@pytest.mark.parametrize("patch", [None, [], "x", 1])
def test_a_patch_that_is_no_object_is_refused(patch: object) -> None:
    assert problems(decide_change(registered(), patch, BOUNDS, LATER)) == {"#": "should be a JSON object"}


def test_an_agent_goes_only_while_no_task_of_it_is_stored() -> None:
    one = registered()
    assert decide_delete("mailer", one, 0, 10) is one
    for tasks, told in ((1, "1 task "), (2, "2 tasks "), (11, "over 10 tasks ")):
        kept = decide_delete("mailer", one, tasks, 10)
        assert isinstance(kept, Refusal)
        assert (kept.code, told in kept.sentence) == ("agent_in_use", True)
    for odd in ("mailer", "../x", "\ud800"):
        gone = decide_delete(odd, None, 0, 10)
        assert isinstance(gone, Refusal)
        assert gone.code == "agent_unknown"
        assert gone.sentence.encode()


@given(st.dictionaries(st.sampled_from(MEMBERS) | st.text(), JSON))
def test_anything_is_a_registration_or_told_what_it_should_be(patch: dict[str, Any]) -> None:
    for base in ({}, members()):
        decided = decide_new({**base, **patch}, BOUNDS, NOW)
        if isinstance(decided, Registration):
            assert decide_new(json.loads(json.dumps(document(decided))), BOUNDS, NOW) == decided
            continue
        for where, detail in problems(decided).items():
            assert where.isascii()
            assert where.startswith("#")
            assert detail.isprintable()
        assert decided.sentence.isprintable()


@given(st.sampled_from(MEMBERS), JSON)
def test_a_member_that_is_wrong_is_named_whatever_it_holds(name: str, value: Any) -> None:
    decided = decide_new({**members(), name: value}, BOUNDS, NOW)
    if isinstance(decided, Refusal):
        assert all(where == "#" or where.startswith((f"#/{name}", "#/jwks_uri")) for where in problems(decided))


@given(st.dictionaries(st.sampled_from(MEMBERS), JSON | st.sampled_from([["s"], {"keys": [OKP]}, "PT5M", 2, None])))
def test_a_patch_and_the_whole_it_leads_to_are_judged_alike(patch: dict[str, Any]) -> None:
    """But for `enabled` and the id, which a patch may not unset or change."""
    old = registered(jwks={"keys": [EC]})
    decided = decide_change(old, patch, BOUNDS, NOW)
    whole = decide_new(merge(document(old), patch), BOUNDS, NOW)
    if isinstance(decided, Registration):
        assert isinstance(whole, Registration)
        assert document(decided) == document(whole)
    elif isinstance(whole, Registration):
        assert patch.keys() & {"enabled", "agent_id"}
