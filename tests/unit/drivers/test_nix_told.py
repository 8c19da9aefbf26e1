"""What Nix says, made fit for whoever wrote the flake; and answers of a jail that are believed in nothing."""

from __future__ import annotations

import json

import pytest

from rift.drivers.nix.local import expression, told
from rift.drivers.nix.protocol import SETUP_BYTES, VARIABLES_BYTES, VARIABLES_MOST, BuildError

HASH = "0" * 32
SOURCE = f"/nix/store/{HASH}-source"


@pytest.mark.parametrize(
    ("said", "plain"),
    [
        (b"\x1b[31;1merror:\x1b[0m no", "error: no"),
        (b"\x1b]0;title\x07text\x1b(B", "text"),
        (b"10%\r50%\r100%\ndone", "100%\ndone"),
        (b"lines\r\nof DOS\r\n", "lines\nof DOS\n"),
        (b"a\tb \xff \x00 \xe2\x80\xa6", "a\tb \ufffd \ufffd …"),
        (b"right \xe2\x80\xae left", "right \ufffd left"),
    ],
)
def test_text_is_without_colours_and_controls(said: bytes, plain: str) -> None:
    assert told.plain(said) == plain


def test_the_flakes_own_folder_is_told_by_the_names_in_it() -> None:
    said = f"error: at {SOURCE}/nix/a.nix:3:4\n  path '{SOURCE}' or 'path:/src?lastModified=1&rev=2' or /src/b\n"
    assert told.reason(said.encode(), SOURCE) == "error: at nix/a.nix:3:4\n  path 'the flake' or 'the flake' or b"


def test_what_nix_says_of_the_jail_alone_is_left_out() -> None:
    said = (
        "warning: you don't have Internet access; disabling some network-dependent features\nerror: x\n"
        "(use '--show-trace' to show detailed location information)\n"
    )
    assert told.reason(said.encode(), "") == "error: x"


def test_of_a_very_long_text_the_end_is_told_and_where_the_rest_is() -> None:
    text = told.reason(b"x" * (told.REASON_MOST + 1234) + b"\nthe reason\n", "")
    assert text.startswith("[1,245 characters before this are in the build's log]\nxxx")
    assert text.endswith("\nthe reason")


PACKAGE = {"drv": f"/nix/store/{HASH}-a.drv", "output": "bin", "path": f"/nix/store/{HASH}-a-bin"}
GOOD: dict[str, object] = {
    "members": ["packages", "env", "setup"],
    "packages": [PACKAGE],
    "env": {"all": {"A": {"text": "1", "needs": []}}},
    "setup": {"text": "true", "needs": [{"drv": f"/nix/store/{HASH}-b.drv", "outputs": ["out"]}]},
}


def test_an_answer_is_what_is_to_be_built() -> None:
    wanted = expression.wanted(json.dumps(GOOD), "x86_64-linux")
    assert wanted.paths == (f"/nix/store/{HASH}-a-bin",)
    assert wanted.needs == (f"/nix/store/{HASH}-a.drv!bin", f"/nix/store/{HASH}-b.drv!out")
    assert (wanted.env, wanted.setup, wanted.also) == ((("A", "1"),), "true", ())


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "null",
        "[]",
        "{}",
        "[" * 100_000,
        '{"members": 1}',
        json.dumps(GOOD | {"packages": [{"drv": "/etc/passwd.drv", "output": "out", "path": "/etc/passwd"}]}),
        json.dumps(
            GOOD | {"packages": [{"drv": f"/nix/store/{HASH}-a.drv", "output": "out", "path": "/nix/store/.."}]}
        ),
        json.dumps(GOOD | {"packages": [{"drv": f"/nix/store/{HASH}-a.drv", "output": "--gc", "path": 1}]}),
        json.dumps(GOOD | {"packages": [{"drv": f"/nix/store/{HASH}-a.drv\n", "output": "out", "path": "x"}]}),
        json.dumps(GOOD | {"packages": [{"drv": f"/nix/store/{HASH}-a", "output": "out", "path": "x"}]}),
        json.dumps(GOOD | {"setup": {"text": ["x"], "needs": []}}),
        json.dumps(GOOD | {"setup": {"text": "x", "needs": [{"drv": "/root", "outputs": []}]}}),
        json.dumps(GOOD | {"env": {"all": {"A": "text"}}}),
        json.dumps(GOOD | {"env": {"all": {"A": {"text": "a\0LD_PRELOAD=b", "needs": []}}}}),
        json.dumps(GOOD | {"setup": {"text": "half \ud800 of one", "needs": []}}),
    ],
)
def test_an_answer_of_another_form_is_refused(answer: str) -> None:
    with pytest.raises(BuildError, match="Nix answered nothing of use"):
        expression.wanted(answer, "x86_64-linux")


def test_texts_and_lists_have_a_most() -> None:
    long = GOOD | {"env": {"all": {"A": {"text": "x" * 40_000, "needs": []}}}}
    with pytest.raises(BuildError, match=r"env\.A has 40,000 characters; 32,768 are the most\."):
        expression.wanted(json.dumps(long), "x86_64-linux")
    many = GOOD | {"packages": [PACKAGE] * 1001}
    with pytest.raises(BuildError, match=r"packages has 1,001 derivations; 1,000 are the most\."):
        expression.wanted(json.dumps(many), "x86_64-linux")


def one_of(text: str) -> dict[str, object]:
    """A text as Nix answers it."""
    return {"text": text, "needs": []}


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"env": {"all": {f"N{n}": one_of("") for n in range(VARIABLES_MOST)}}}, None),
        ({"env": {"all": {f"N{n}": one_of("") for n in range(VARIABLES_MOST + 1)}}}, "env has 257 variables"),
        (
            {"env": {"all": {f"N{n}": one_of("x" * (VARIABLES_BYTES // 2)) for n in "ab"}}},
            "Write variables into a file",
        ),
        (
            {"packages": [PACKAGE | {"path": f"/nix/store/{HASH}-{'p' * 190}{n}"} for n in range(300)]},
            "as `pkgs.buildEnv` does",
        ),
        ({"setup": one_of("\u20ac" * (SETUP_BYTES // 3 + 1))}, "setup has 65538 bytes"),
        ({"setup": one_of("x" * (SETUP_BYTES + 1))}, "setup has 65537 bytes; a box takes 64 KiB. Put it into a script"),
        ({"setup": one_of("x" * SETUP_BYTES)}, None),
    ],
)
def test_what_no_box_can_have_is_told_before_it_is_built_with_what_to_do_instead(
    changed: dict[str, object], problem: str | None
) -> None:
    answer = json.dumps(GOOD | changed)
    if problem is None:
        assert expression.wanted(answer, "x86_64-linux").paths
    else:
        with pytest.raises(BuildError, match=problem):
            expression.wanted(answer, "x86_64-linux")
