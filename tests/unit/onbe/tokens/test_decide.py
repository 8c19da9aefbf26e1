"""Whether a token is taken, claim by claim. Each case changes one thing of a token that is taken."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keel.refusal import Refusal
from keel.testing import FakeClock
from onbe.tokens.decide import decide_assertion, decide_presented, decide_subject, names_of, scope_of
from onbe.tokens.model import Assertion, Person, Presented, SubjectRules

NOW = FakeClock().now()
AT = int(NOW.timestamp())
AUDIENCES = ("https://onbe.example", "https://onbe.example/oauth2/token")
RULES = SubjectRules("https://id.example", ("onbe", "other"), (), "sub")
ABSENT = object()
NO_DATES: list[Any] = [True, "1767323045", [AT], {}, None, -1, 10**400, 1e300, float("inf"), float("nan"), 253402300800]
"""What is no NumericDate."""

ASSERTION = {"iss": "scribe", "sub": "scribe", "aud": AUDIENCES[1], "iat": AT, "exp": AT + 60, "jti": "one"}
SUBJECT = {"iss": "https://id.example", "sub": "ada", "aud": "onbe", "iat": AT, "exp": AT + 60, "scope": "a b"}
TASK = {"exp": AT + 60, "iat": AT, "jti": "tok_1", "client_id": "boss", "scope": "a b", "task": {"id": "task_1"}}


def changed(claims: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {name: value for name, value in {**claims, **changes}.items() if value is not ABSENT}


def assertion(**changes: Any) -> Assertion | str:
    said = decide_assertion(changed(ASSERTION, **changes), "scribe", AUDIENCES, NOW)
    return said.code if isinstance(said, Refusal) else said


def subject(header: dict[str, Any] | None = None, rules: SubjectRules = RULES, agents: Any = (), **changes: Any) -> Any:
    said = decide_subject(header or {}, changed(SUBJECT, **changes), rules, agents, NOW)
    return said.code if isinstance(said, Refusal) else said


def test_an_assertion_as_it_should_be_is_taken() -> None:
    assert assertion(instance="copy 7") == Assertion(
        "scribe", "one", NOW + timedelta(seconds=60), "copy 7", AUDIENCES[1]
    )


@pytest.mark.parametrize(
    ("claim", "values", "reason"),
    [
        ("iss", ["Scribe", "scribe ", "", None, ["scribe"], 7, ABSENT], "assertion_issuer"),
        ("sub", ["other", None, ABSENT, ["scribe"]], "assertion_issuer"),
        (
            "aud",
            [
                "https://onbe.example/", "https://onbe.example/oauth2/token/", "HTTPS://onbe.example", "", None, ABSENT,
                [], [AUDIENCES[0], AUDIENCES[1]], [AUDIENCES[0], AUDIENCES[0]], [[AUDIENCES[0]]], {AUDIENCES[0]: 1}, 7,
                "https://onbe.example.evil", "https://onbe.example/oauth2/tok",
            ],
            "assertion_audience",
        ),
        ("exp", [AT - 60, AT - 61, 0, AT - 60.5], "assertion_expired"),
        ("exp", [AT + 301, AT + 300.001, 253402300799], "assertion_too_long"),
        ("iat", [AT + 61, AT + 60.001], "assertion_not_yet"),
        ("nbf", [AT + 61, 253402300799], "assertion_not_yet"),
        ("jti", ["", None, ABSENT, 7, ["one"], "x" * 257], "assertion_no_jti"),
        ("instance", ["", "x" * 129, "a\nb", "a\x7f", 7, ["a"], "a\u202eb", True], "assertion_instance"),
        ("exp", [*NO_DATES, ABSENT], "assertion_malformed"),
        ("iat", NO_DATES, "assertion_malformed"),
        ("nbf", NO_DATES, "assertion_malformed"),
    ],
)  # fmt: skip
def test_an_assertion_with_one_wrong_claim_is_refused_for_it(claim: str, values: list[Any], reason: str) -> None:
    assert {repr(value)[:40]: assertion(**{claim: value}) for value in values} == {
        repr(value)[:40]: reason for value in values
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": [AUDIENCES[0]]},
        {"aud": AUDIENCES[0]},
        {"exp": AT + 300},
        {"exp": AT - 59.5},
        {"iat": AT + 60, "nbf": AT + 60},
        {"iat": ABSENT},
        {"iat": 0, "nbf": 0.5},
        {"jti": "x" * 256},
        {"instance": "x" * 128},
        {"instance": "Größe 1"},
        {"unknown": {"deep": [1]}},
    ],
)
def test_what_is_just_allowed_of_an_assertion_is_taken(changes: dict[str, Any]) -> None:
    assert isinstance(assertion(**changes), Assertion)


def test_a_persons_token_as_it_should_be_is_taken() -> None:
    assert subject() == Person("ada", ("a", "b"))


@pytest.mark.parametrize(
    ("claim", "values", "reason"),
    [
        ("iss", ["https://id.example/", "https://id.example.x", "", None, ABSENT, [RULES.issuer]], "subject_issuer"),
        ("aud", ["Onbe", "", None, ABSENT, [], ["x"], {"onbe": 1}, [["onbe"]], 7], "subject_audience"),
        ("exp", [AT - 60, 0], "subject_expired"),
        ("iat", [AT + 61], "subject_not_yet"),
        ("nbf", [AT + 61], "subject_not_yet"),
        ("sub", ["", None, ABSENT, 7, ["ada"], "x" * 257, "a\nb", True], "subject_nameless"),
        ("act", [{"sub": "x"}, None, {}, 7], "subject_is_agent"),
        ("client_id", ["ada"], "subject_is_agent"),
        ("scope", [7, {"a": 1}, None, [1], ["a", None]], "subject_malformed"),
        ("exp", [*NO_DATES, ABSENT], "subject_malformed"),
        ("iat", NO_DATES, "subject_malformed"),
        ("nbf", NO_DATES, "subject_malformed"),
    ],
)  # fmt: skip
def test_a_persons_token_with_one_wrong_claim_is_refused_for_it(claim: str, values: list[Any], reason: str) -> None:
    assert {repr(value)[:40]: subject(**{claim: value}) for value in values} == {
        repr(value)[:40]: reason for value in values
    }


def test_a_subject_that_is_a_registered_agent_is_refused() -> None:
    assert names_of({"sub": "a", "client_id": "b", "azp": "c"}, RULES) == ("a", "b")
    assert names_of({"sub": 7, "mail": "m"}, SubjectRules(None, (), (), "mail")) == ("m",)
    assert subject(agents=("ada",)) == "subject_is_agent"


def test_whoever_may_act_is_a_person_still_and_it_widens_nothing() -> None:
    assert subject(may_act={"sub": "scribe", "scope": "all"}) == Person("ada", ("a", "b"))


@pytest.mark.parametrize(
    ("changes", "scope"),
    [
        ({"scope": ABSENT}, None),
        ({"scope": ""}, ()),
        ({"scope": " a  a b "}, ("a", "b")),
        ({"scope": ABSENT, "scp": ["b", "a", "b"]}, ("b", "a")),
        ({"scope": ABSENT, "scp": "b a"}, ("b", "a")),
        ({"scope": "a", "scp": "a b"}, ("a",)),
        ({"scope": ABSENT, "scp": []}, ()),
    ],
)
def test_the_scope_of_a_person_is_what_the_token_says(changes: dict[str, Any], scope: tuple[str, ...] | None) -> None:
    assert subject(**changes) == Person("ada", scope)


def test_another_claim_can_name_the_person() -> None:
    assert subject(rules=SubjectRules("https://id.example", ("onbe",), (), "mail"), mail="ada@x") == Person(
        "ada@x", ("a", "b")
    )
    assert subject(rules=SubjectRules("https://id.example", ("onbe",), (), "mail")) == "subject_nameless"


def test_only_the_types_named_are_taken_where_any_are_named() -> None:
    rules = SubjectRules("https://id.example", ("onbe",), ("at+jwt", "application/JWT"), "sub")
    taken = [{"typ": "at+jwt"}, {"typ": "AT+JWT"}, {"typ": "application/at+jwt"}, {"typ": "jwt"}]
    assert all(isinstance(subject(header, rules), Person) for header in taken)
    for header in ({}, {"typ": "logout+jwt"}, {"typ": ""}, {"typ": 7}):
        assert subject(header, rules) == "subject_type", header


def test_nobody_is_believed_where_no_provider_or_audience_is_set() -> None:
    assert subject(rules=SubjectRules(None, ("onbe",), (), "sub"), iss=ABSENT) == "subject_issuer"
    assert subject(rules=SubjectRules("https://id.example", (), (), "sub")) == "subject_audience"


def test_a_task_token_says_whose_task_it_is_for() -> None:
    assert decide_presented(TASK, NOW) == Presented("tok_1", "task_1", "boss", ("a", "b"), NOW + timedelta(seconds=60))
    wrong: list[dict[str, Any]] = [
        {"jti": 7}, {"task": None}, {"task": {}}, {"client_id": ABSENT}, {"scope": ""}, {"exp": ABSENT},
    ]  # fmt: skip
    for changes in wrong:
        said = decide_presented(changed(TASK, **changes), NOW)
        assert isinstance(said, Refusal), changes
        assert said.code == "parent_malformed", changes
    said = decide_presented({**TASK, "exp": AT}, NOW)
    assert isinstance(said, Refusal)
    assert said.code == "parent_expired"


@pytest.mark.parametrize(
    ("text", "members"),
    [
        ("a", ("a",)),
        ("b a b", ("b", "a")),
        ("mail:read https://x/y ~!#[]", ("mail:read", "https://x/y", "~!#[]")),
        ("", None), (" ", None), ("a  b", None), (" a", None), ("a ", None), ("a\tb", None), ('a"b', None),
        ("a\\b", None), ("ä", None), ("a\x00", None), ("a\x7f", None), ("a\n", None),
    ],
)  # fmt: skip
def test_a_scope_is_read_as_its_grammar_says(text: str, members: tuple[str, ...] | None) -> None:
    assert scope_of(text) == members


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from([*ASSERTION, "nbf", "instance"]), json_values))
def test_no_claims_of_an_assertion_make_it_fail_instead_of_refusing(claims: dict[str, Any]) -> None:
    said = decide_assertion({**ASSERTION, **claims}, "scribe", AUDIENCES, NOW)
    if isinstance(said, Assertion):
        assert NOW - timedelta(seconds=60) < said.expires_at <= NOW + timedelta(minutes=5)
        assert said.agent == "scribe"


@given(st.dictionaries(st.sampled_from([*SUBJECT, "nbf", "act", "client_id", "scp"]), json_values))
def test_no_claims_of_a_person_make_it_fail_instead_of_refusing(claims: dict[str, Any]) -> None:
    said = decide_subject({}, {**SUBJECT, **claims}, RULES, (), NOW)
    assert isinstance(said, Refusal | Person)
    decide_presented({**TASK, **claims}, NOW)


@pytest.mark.parametrize(
    "events",
    [
        {"http://schemas.openid.net/event/backchannel-logout": {}},
        {"https://schemas.openid.net/secevent/caep/event-type/session-revoked": {"subject": {}}},
        {}, None, "x",
    ],
)  # fmt: skip
def test_a_token_that_tells_of_an_event_is_not_for_acting_with(events: Any) -> None:
    assert subject(events=events) == "subject_type"
    assert subject({"typ": "logout+jwt"}, SubjectRules(RULES.issuer, RULES.audiences, ("logout+jwt",), "sub"),
                   events=events) == "subject_type"  # fmt: skip


@pytest.mark.parametrize("verified", [False, "false", "False", "", None, 0, 7, [True], "TRUE"])
def test_an_address_that_nobody_verified_names_no_person(verified: Any) -> None:
    by_mail = SubjectRules(RULES.issuer, RULES.audiences, (), "email")
    said = {"email": "ada@example.test", "email_verified": verified}
    assert subject(None, by_mail, **said) == "subject_nameless"
    assert isinstance(subject(**said), Person), "where it is not the name, it does not matter"
    for fine in (True, "true", ABSENT):
        assert subject(None, by_mail, **{**said, "email_verified": fine}) == Person("ada@example.test", ("a", "b"))
