"""What a server may ask of its keeper."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rift.drivers.boxes.local import places
from rift.drivers.boxes.protocol import BoxSpec, Equipment, Limits
from rift.drivers.orders import ORDERS, BadArguments
from rift.keeper.checks import BOX_ID, CHECKS, ITEMS_LIMIT, TEXT_LIMIT, Bounds, refuse, too_large

DATA = Path("/var/lib/rift")
BOUNDS = Bounds(DATA, "unix:/var/lib/rift/agents.sock")
SPEC = BoxSpec(
    box="b-0123456789abcdef01234567",
    incarnation=1,
    name="app-main-1",
    repository="acme/app",
    ref="main",
    commit="a" * 40,
    mirror=DATA / "mirrors" / "r-1",
    origin="https://example.org/app.git",
    token="secret-of-the-agent",
    network="proxy",
    allow=("pypi.org",),
    epoch=0,
    server=BOUNDS.agents,
)


def test_what_an_honest_server_asks_is_followed() -> None:
    assert refuse(BOUNDS, {"spec": SPEC}) is None
    assert refuse(BOUNDS, {"spec": dataclasses.replace(SPEC, box="app-main-1", commit="0" * 64, allow=())}) is None
    assert refuse(BOUNDS, {"box": SPEC.box, "epoch": 7}) is None
    assert refuse(BOUNDS, {"mirror": SPEC.mirror, "box": SPEC.box, "commit": SPEC.commit}) is None


def equipment(**changes: Any) -> Equipment:
    """What an honest server asks for, but for this."""
    honest = Equipment(
        DATA / "nix" / SPEC.mirror.name / "store",
        (f"/nix/store/{'0' * 32}-python3-3.12.1",),
        (("HELLO", "two\nlines"),),
        "make\n",
        1800,
    )
    return dataclasses.replace(honest, **changes)


def test_a_box_has_the_store_of_its_repository_and_a_setup_of_many_lines() -> None:
    assert refuse(BOUNDS, {"spec": dataclasses.replace(SPEC, equipment=equipment())}) is None
    start = ORDERS["boxes.start"]
    assert not too_large(start.pack(dataclasses.replace(SPEC, equipment=equipment(setup="make\n" * 13_000))))
    assert too_large(start.pack(dataclasses.replace(SPEC, equipment=equipment(setup="make\n" * 14_000))))
    assert too_large(start.pack(dataclasses.replace(SPEC, equipment=equipment(setup="make\0"))))
    assert too_large(start.pack(dataclasses.replace(SPEC, equipment=equipment(paths=("a\nb",)))))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("box", ""),
        ("box", "../lib"),
        ("box", "/etc"),
        ("box", ".lock-uids"),
        ("box", "b" * 201),
        ("incarnation", -1),
        ("epoch", 2**60),
        ("commit", "main"),
        ("commit", "--upload-pack=x"),
        ("commit", "a" * 39),
        ("commit", "A" * 40),
        ("mirror", Path("/etc")),
        ("mirror", DATA / "mirrors"),
        ("mirror", DATA / "mirrors" / ".."),
        ("mirror", DATA / "mirrors" / ".." / "boxes"),
        ("mirror", DATA / "mirrors" / "x" / "y"),
        ("mirror", DATA / "mirrors" / "x" / ".." / ".." / "boxes"),
        ("mirror", DATA / "boxes" / "x"),
        ("mirror", DATA / "mirrors" / ".x.lock"),
        ("mirror", Path("mirrors/x")),
        ("server", "http://attacker.example"),
        ("server", "unix:/tmp/agents.sock"),
        ("server", ""),
        ("network", "host net"),
        ("network", ""),
        ("repository", "acme/.."),
        ("repository", ""),
        ("limits", Limits(memory=0)),
        ("limits", Limits(processes=-1)),
        ("limits", Limits(disk=2**60)),
        ("limits", Limits(own=("../memory",))),
        ("equipment", equipment(store=Path("/"))),
        ("equipment", equipment(store=Path("/nix/store"))),
        ("equipment", equipment(store=DATA / "nix")),
        ("equipment", equipment(store=DATA / "nix" / SPEC.mirror.name)),
        ("equipment", equipment(store=DATA / "nix" / SPEC.mirror.name / "builds")),
        ("equipment", equipment(store=DATA / "nix" / "other" / "store")),
        ("equipment", equipment(store=DATA / "nix" / SPEC.mirror.name / ".." / "other" / "store")),
        ("equipment", equipment(paths=("/usr/bin",))),
        ("equipment", equipment(paths=(f"/nix/store/{'0' * 32}-a/../../../usr",))),
        ("equipment", equipment(paths=(f"/nix/store/{'0' * 32}-a:/usr",))),
        ("equipment", equipment(env=(("A B", ""),))),
        ("equipment", equipment(env=(("", ""),))),
        ("equipment", equipment(setup_seconds=-1)),
    ],
)
def test_a_start_of_a_box_that_leads_elsewhere_is_refused(field: str, value: Any) -> None:
    spec = dataclasses.replace(SPEC, **{field: value})
    assert refuse(BOUNDS, {"spec": spec}) == "The keeper refuses this spec."
    if field in CHECKS:
        assert refuse(BOUNDS, {field: value}) == f"The keeper refuses this {field}."


@pytest.mark.parametrize(
    ("url", "followed"),
    [
        ("https://example.org/app.git", True),
        ("git@example.org:acme/app.git", True),
        ("ssh://git@example.org/app", True),
        ("/root/src/app", True),
        ("file:///srv/app.git", True),
        ("/var/lib/rift/sample", True),
        ("file:///var/lib/rift/sample", True),
        ("", False),
        ("--upload-pack=touch /tmp/x", False),
        ("https://example.org/\x1b[2J", False),
        ("/var/lib/rift", False),
        ("/var/lib/rift/boxes/b-1/home/app", False),
        ("file:///var/lib/rift/boxes/b-1/home/app", False),
        ("file:///var/lib/rift/bo%78es/b-1/home/app", False),
        ("FILE:///var/lib/rift/mirrors/r-1", False),
        ("file://var/lib/rift/boxes/b-1/home/app", False),
        ("file://%2Fvar/lib/rift/boxes/b-1/home/app", False),
        ("file://localhost/../var/lib/rift/boxes/b-1", False),
        ("file:///srv/a?b/../../var/lib/rift/boxes/b-1", False),
        ("file:///srv/a#b/../../var/lib/rift/boxes/b-1", False),
        ("file:///srv/a?b", True),
        ("/var/lib/rift/sample/../boxes/b-1/home/app", False),
        ("/srv/../var/lib/rift/postgres", False),
        ("/var/lib/rift/sample/x", False),
    ],
)
def test_a_repository_may_be_anywhere_but_where_boxes_write(url: str, followed: bool) -> None:
    assert (refuse(BOUNDS, {"url": url}) is None) is followed


def test_a_link_to_where_boxes_write_is_where_boxes_write(tmp_path: Path) -> None:
    bounds = Bounds(tmp_path / "data", "")
    (tmp_path / "data" / "boxes").mkdir(parents=True)
    (tmp_path / "link").symlink_to(bounds.data / "boxes")
    assert refuse(bounds, {"url": str(tmp_path / "link" / "b-1")}) is not None
    assert refuse(bounds, {"url": str(tmp_path / "other")}) is None


@pytest.mark.parametrize(
    ("value", "is_too_large"),
    [
        ("a" * TEXT_LIMIT, False),
        ("a" * (TEXT_LIMIT + 1), True),
        ({"spec": {"allow": ["a"] * ITEMS_LIMIT}}, False),
        ({"spec": {"allow": ["a"] * (ITEMS_LIMIT + 1)}}, True),
        ({"spec": {"allow": [["x\0"]]}}, True),
        ({"spec": {"origin": "https://x\n[core]"}}, True),
        ({"a\nb": 1}, True),
        (7, False),
        (None, False),
    ],
)
def test_texts_and_lists_have_a_most(value: Any, is_too_large: bool) -> None:
    assert too_large(value) is is_too_large


def test_every_parameter_of_every_order_has_its_check() -> None:
    carried = {name for order in ORDERS.values() for name in order.parameters}
    assert carried == set(CHECKS)
    assert refuse(BOUNDS, {"novelty": 1}) == "The keeper knows no rule for novelty."


def test_the_keeper_and_the_driver_agree_on_what_a_box_is_called() -> None:
    assert BOX_ID.pattern == places.BOX_ID.pattern


def test_a_box_that_travels_over_the_line_is_the_same_afterwards() -> None:
    order = ORDERS["boxes.start"]
    assert order.unpack(order.pack(SPEC)) == {"spec": SPEC}


def wrong_arguments() -> Iterator[Any]:
    packed = ORDERS["boxes.start"].pack(SPEC)["spec"]
    yield from (None, 7, [], {}, {"spec": None}, {"spec": packed, "more": 1}, {"other": packed})
    for name in packed:
        yield {"spec": {**packed, name: {"odd": 1}}}
        if all(one.default is dataclasses.MISSING for one in dataclasses.fields(BoxSpec) if one.name == name):
            yield {"spec": {key: value for key, value in packed.items() if key != name}}


@pytest.mark.parametrize("arguments", list(wrong_arguments()))
def test_arguments_of_another_shape_are_named_and_not_repeated(arguments: Any) -> None:
    with pytest.raises(BadArguments) as caught:
        ORDERS["boxes.start"].unpack(arguments)
    assert SPEC.token not in str(caught.value)
    assert "odd" not in str(caught.value)
