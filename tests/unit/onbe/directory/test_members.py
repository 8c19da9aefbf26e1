"""The rule of each member of a registration, as a table; and that all that is wrong is told at once, by name."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.unit.onbe.directory.samples import BOUNDS, EC, NOW, judged, members, problems, registered

from onbe.directory.decide import MEMBERS, decide_new, document, pointer, shown
from onbe.directory.model import Registration

TAKEN: dict[str, tuple[Any, ...]] = {
    "agent_id": ("a", "0", "mail-er_2.x", "a" * 64, "a..b"),
    "display_name": ("x", "Ü" * 100, "The mailer of Ann", "日本", "🙂"),
    "allowed_scopes": (
        *([one] for one in ("a", "!", "https://x/y#z", "a" * 100, "[]", "~")), [f"s{number}" for number in range(100)],
    ),
    "allowed_audiences": (
        ["https://a"], ["https://a/"], ["HTTPS://A:443/x?y=%20"], ["urn:example:files"], ["http://10.0.0.1"],
        ["spiffe://x/y"], ["https://[::1]:8443/"], ["https://a/" + "b" * 490], ["custom:x"],
    ),
    "max_task_ttl": ("PT1M", "P1D", "PT60S", "PT1440M", "PT1M0.0S", "PT23H59M60S"),
    "max_token_ttl": ("PT30S", "PT1H", "PT3600S"),
    "max_delegation_depth": (1, 5, 2.0),
    "high_risk_audiences": ([], ["https://mail.example.com/"]),
    "enabled": (True, False),
}  # fmt: skip
NO_TEXTS: tuple[Any, ...] = (1, True, [], {}, ["x"])
REFUSED: dict[str, tuple[Any, ...]] = {
    "agent_id": (
        "", "A", "Mailer", "-a", ".a", "_a", "a" * 65, "a b", "a/b", "../a", "a%2f", "a\n", "a\0", "é", "\u0430",
        "admin", "cli", "sweeper", *NO_TEXTS,
    ),
    "display_name": (
        "", " ", " x", "x ", "x\n", "x\ty", "\0", "x" * 101, "a\u202eb", "a\u200bb", "\ud800", *NO_TEXTS,
    ),
    "allowed_scopes": ([], "mail.read", {}, 1, ["x"] * 101),
    "allowed_audiences": ([], "https://a", {}, ["https://a"] * 101),
    "max_task_ttl": (
        "", "30", 1800, "PT", "P", "PT59S", "P1DT1S", "P1Y", "P1M", "-PT5M", "PT5M ", "pt5m", "PT1M0.5S", "PT0S",
        "P999999999W", "P99999999999999999999D", "PT\u0663M", "PT1,5M", True, [], {},
    ),
    "max_token_ttl": ("PT29S", "PT1H1S", "P1D", "x"),
    "max_delegation_depth": (
        0, 6, -1, 1.5, "1", True, False, [], {}, 10**400, float("inf"), float("nan"),
    ),
    "high_risk_audiences": ("https://mail.example.com/", {}, True),
    "enabled": (0, 1, "true", [], {}),
    "jwks": ([], "x", {}, {"keys": {}}, {"keys": None}, 1, True),
}  # fmt: skip
REFUSED_INSIDE: dict[str, tuple[Any, ...]] = {
    "allowed_scopes": ("", "a b", 'a"', "a\\b", "é", "a\n", "a" * 101, None, 1, ["x"], "mail.read"),
    "allowed_audiences": (
        "", "a", "/x", "//a/x", "https://", "https:///x", "https://a#f", "https://a#", "https://u:p@a/", "https://u@a",
        "https://a b", "https://a\n", "https://ü/", "https://a/%zz", "https://a:x/", "https://[::1/",
        "https://a:99999/", "https://a/" + "b" * 491, "1a:b", "https://mail.example.com/", None, 1, {},
    ),
    "high_risk_audiences": ("https://other.example.com/", "https://mail.example.com", "x", 1),
}  # fmt: skip


def each(table: dict[str, tuple[Any, ...]]) -> list[tuple[str, Any]]:
    return [(name, value) for name, values in table.items() for value in values]


@pytest.mark.parametrize(("name", "value"), each(TAKEN))
def test_what_a_member_may_be_is_taken(name: str, value: Any) -> None:
    assert judged(**{name: value}) == {}


@pytest.mark.parametrize(("name", "value"), each(REFUSED))
def test_what_a_member_may_not_be_is_refused_by_name(name: str, value: Any) -> None:
    found = problems(decide_new({**members(), name: value}, BOUNDS, NOW))
    assert list(found) == [f"#/{name}"]
    assert found[f"#/{name}"].startswith("should ")


@pytest.mark.parametrize(("name", "value"), each(REFUSED_INSIDE))
def test_what_a_list_may_not_hold_is_refused_where_it_stands(name: str, value: Any) -> None:
    before = members(high_risk_audiences=["https://mail.example.com/"])[name]
    found = problems(decide_new({**members(), name: [*before, value]}, BOUNDS, NOW))
    assert list(found) == [f"#/{name}/{len(before)}"]


@pytest.mark.parametrize(("keys"), [[], [EC] * 21])
def test_a_set_holds_one_key_to_twenty(keys: list[Any]) -> None:
    assert list(judged(jwks={"keys": keys})) == ["#/jwks/keys"]


@pytest.mark.parametrize("name", ["agent_id", "display_name", "allowed_scopes", "allowed_audiences"])
def test_a_required_member_is_missed_by_name(name: str) -> None:
    assert judged(**{name: None}) == {f"#/{name}": "is required"}
    assert problems(decide_new({**members(), name: None}, BOUNDS, NOW)) == {f"#/{name}": "should not be null"}


def test_what_is_left_out_or_null_is_the_default() -> None:
    plain = registered()
    assert (plain.max_delegation_depth, plain.enabled, plain.high_risk_audiences) == (1, True, ())
    nulls = dict.fromkeys(("max_task_ttl", "max_token_ttl", "max_delegation_depth", "high_risk_audiences", "jwks_uri"))
    assert decide_new({**members(), **nulls}, BOUNDS, NOW) == plain


def test_all_that_is_wrong_is_told_at_once() -> None:
    given = {name: {"secret": 1} for name in MEMBERS} | {"max_task_tll": "PT5M", "created_at": "x", "allowed-scope": []}
    found = problems(decide_new(given, BOUNDS, NOW))
    assert {where.split("/")[1] for where in found} == set(given)
    assert found["#/max_task_tll"] == "is not a member of a registration; the nearest is max_task_ttl"
    assert found["#/allowed-scope"] == "is not a member of a registration; the nearest is allowed_scopes"
    assert found["#/created_at"] == "is set by the server"


@pytest.mark.parametrize("given", [None, [], "x", 1, True])
def test_what_is_no_object_is_no_registration(given: object) -> None:
    assert problems(decide_new(given, BOUNDS, NOW)) == {"#": "should be a JSON object"}


def test_bounds_are_named_where_a_duration_leaves_them() -> None:
    found = judged(max_task_ttl="P2D", max_token_ttl="PT1S")
    assert found == {"#/max_task_ttl": "should be from PT1M to P1D", "#/max_token_ttl": "should be from PT30S to PT1H"}


def test_a_token_may_be_allowed_longer_than_a_task() -> None:
    """The token is cut to what is left of its task; there is nothing to refuse."""
    assert judged(max_task_ttl="PT1M", max_token_ttl="PT1H") == {}


def test_of_the_ways_to_name_keys_there_is_exactly_one() -> None:
    assert list(judged(jwks=None)) == ["#"]
    assert list(judged(jwks_uri="https://a/jwks")) == ["#/jwks_uri"]
    assert judged(jwks=None, jwks_uri="https://a/jwks") == {}


@pytest.mark.parametrize(
    ("url", "no", "loopback", "any_"),
    [
        ("https://a.example.com/jwks.json", True, True, True),
        ("https://a.example.com:8443/jwks?x=y", True, True, True),
        ("http://127.0.0.1:8080/jwks", False, True, True),
        ("http://localhost/jwks", False, True, True),
        ("http://x.localhost/jwks", False, True, True),
        ("http://[::1]:1/jwks", False, True, True),
        ("http://a.example.com/jwks", False, False, True),
        ("http://127.0.0.1.example.com/", False, False, True),
        ("http://127.1/", False, False, True),
        ("http://localhost.example.com/", False, False, True),
        ("ftp://a/jwks", False, False, False),
        ("file:///etc/passwd", False, False, False),
        ("urn:x:y", False, False, False),
        ("https://u:p@a/jwks", False, False, False),
        ("https://a/jwks#x", False, False, False),
        ("https:///jwks", False, False, False),
        ("/jwks", False, False, False),
        ("", False, False, False),
        ("https://a/" + "b" * 500, False, False, False),
    ],
)
def test_keys_are_fetched_over_tls_unless_it_is_said_otherwise(url: str, no: bool, loopback: bool, any_: bool) -> None:
    for http, taken in (("no", no), ("loopback", loopback), ("any", any_)):
        found = problems(decide_new(members(jwks=None, jwks_uri=url), replace(BOUNDS, http=http), NOW))  # type: ignore[arg-type]  # one of the three
        assert (list(found) == []) is taken, http
        assert taken or list(found) == ["#/jwks_uri"]


def test_no_value_is_repeated_by_what_is_told() -> None:
    given = {name: f"secret-{name}" for name in MEMBERS} | {"jwks": {"keys": [{"d": "secret-d", "kty": "secret-kty"}]}}
    decided = decide_new(given, BOUNDS, NOW)
    assert not isinstance(decided, Registration)
    assert "secret" not in json.dumps(decided.facts["errors"]) + decided.sentence


def test_many_problems_are_counted_behind_the_first_hundred() -> None:
    found = problems(decide_new({f"x{number}": 1 for number in range(5000)}, BOUNDS, NOW))
    assert len(found) == 101
    assert found["#"] == "has 4905 more problems of this kind"


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ((), "#"),
        (("jwks", "keys", 0, "d"), "#/jwks/keys/0/d"),
        (("a/b~c",), "#/a~1b~0c"),
        (("é x",), "#/%C3%A9%20x"),
        (("\ud800\n",), "#/%EF%BF%BD%EF%BF%BD"),
        (("x" * 100,), f"#/{'x' * 64}%E2%80%A6"),
    ],
)
def test_a_pointer_is_one_of_rfc_6901_in_a_fragment(path: tuple[str | int, ...], said: str) -> None:
    assert pointer(*path) == said


def test_a_name_is_repeated_only_as_it_can_be_shown() -> None:
    assert shown("a\x1b[31m\u202eb") == "a\ufffd[31m\ufffdb"


def test_a_document_is_what_registers_the_same_again() -> None:
    one = registered(max_task_ttl="PT90M", max_delegation_depth=3, enabled=False)
    assert document(one)["max_task_ttl"] == "PT1H30M"
    assert decide_new(document(one), BOUNDS, NOW) == one
    assert one.max_task_ttl == timedelta(minutes=90)
