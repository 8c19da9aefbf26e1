"""What a repository's limits come to: texts read, bounds kept, its own before the defaults."""

from __future__ import annotations

import pytest

from keel.refusal import Refusal
from keel.sizes import GIB
from rift.limits.decide import decide_change, read_limit, settle
from rift.limits.model import Change, spelled
from rift.names import LIMITS
from rift.settings import BoxSettings

DEFAULTS = {name: getattr(BoxSettings(), name) for name in LIMITS}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("memory", "8GiB", 8 * GIB),
        ("memory", " 8 gib ", 8 * GIB),
        ("memory", "1.5GiB", 3 * GIB // 2),
        ("memory", "1073741824", GIB),
        ("disk", "1TiB", 1024 * GIB),
        ("processes", "4096", 4096),
        ("processes", "4k", None),
        ("processes", "1.5", None),
        ("memory", "8GB", None),
        ("memory", "1.5", None),
        ("memory", "-1GiB", None),
        ("memory", "", None),
        ("memory", "9" * 30, None),
        ("memory", "٣GiB", None),
    ],
)
def test_a_text_is_a_size_or_a_count_or_nothing(name: str, text: str, value: int | None) -> None:
    assert read_limit(name, text) == value


@pytest.mark.parametrize("name", LIMITS)
def test_each_limit_has_bounds_which_are_told(name: str) -> None:
    least, most = LIMITS[name]
    assert decide_change("acme/app", {}, Change({name: str(least)})) == {name: least}
    assert decide_change("acme/app", {}, Change({name: str(most)})) == {name: most}
    for wrong in (str(least - 1), str(most + 1), "much", ""):
        refused = decide_change("acme/app", {}, Change({name: wrong}))
        assert isinstance(refused, Refusal)
        bounds = f"from {spelled(name, least)} to {spelled(name, most)}, and {wrong or 'an empty text'} is not one."
        assert bounds in refused.sentence
    assert least <= DEFAULTS[name] <= most


def test_a_change_keeps_the_others_and_a_default_forgets_all() -> None:
    own = {"memory": 8 * GIB, "disk": GIB}
    assert decide_change("acme/app", own, Change({"disk": "2GiB"})) == {"memory": 8 * GIB, "disk": 2 * GIB}
    assert decide_change("acme/app", own, Change({})) == own
    assert decide_change("acme/app", own, Change({"processes": "64"}, default=True)) == {"processes": 64}


def test_a_repositorys_own_limits_come_before_the_defaults() -> None:
    found = settle("acme/app", {"memory": 8 * GIB}, DEFAULTS)
    assert found.values == {**DEFAULTS, "memory": 8 * GIB}
    assert found.own == {"memory"}


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("memory", 4 * GIB, "4 GiB"),
        ("memory", 3 * GIB // 2, "1.5 GiB"),
        ("disk", 64 * 2**20, "64 MiB"),
        ("disk", 12, "12 bytes"),
        ("open_files", 65_536, "65,536"),
    ],
)
def test_a_limit_is_spelled_for_a_person(name: str, value: int, text: str) -> None:
    assert spelled(name, value) == text
