"""How our source is written, where a machine can tell: lengths, names of tests, reasons given."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator

from tests.arch.source import ROOT, Source, files_of_tests, modules

LINES_MOST = 400
WORDS_LEAST = 4
SLEEPS = ("time.sleep", "asyncio.sleep", "sleep", "anyio.sleep")
EXCEPTION = re.compile(
    r"#\s*(type:\s*ignore|noqa)\b(?P<code>(\[[\w,\s-]+\]|:\s*[A-Z]+\d+(,\s*[A-Z]+\d+)*))?(?P<reason>.*)"
)


def comments(source: Source) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def functions(source: Source) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_no_file_grows_to_take_everything() -> None:
    long = {
        source.place: lines
        for source in (*modules(), *files_of_tests())
        if (lines := source.text.count("\n")) > LINES_MOST
    }
    assert long == {}


def test_each_decision_has_a_number_of_its_own() -> None:
    pages = sorted(path for path in (ROOT / "docs/adr").glob("*.md"))
    assert [int(path.name[:4]) for path in pages] == list(range(len(pages)))
    for path in pages[1:]:
        assert path.read_text("utf-8").startswith(f"# {path.name[:4]}. "), path.name


def test_the_name_of_a_test_is_a_sentence() -> None:
    short = [
        f"{source.place}:{function.lineno} {function.name}"
        for source in files_of_tests()
        for function in functions(source)
        if function.name.startswith("test_") and len(function.name.split("_")) - 1 < WORDS_LEAST
    ]
    assert not short, "\n".join(short)


def test_an_exception_to_a_rule_names_the_rule_and_its_reason() -> None:
    bare = []
    for source in (*modules(), *files_of_tests()):
        for line, comment in comments(source):
            found = EXCEPTION.search(comment)
            if (
                found
                and found["code"] != "[import-untyped]"
                and not (found["code"] and re.search(r"\w{2,}", found["reason"]))
            ):
                bare.append(f"{source.place}:{line} {comment}")
    assert not bare, "\n".join(bare)


def test_a_test_that_is_skipped_says_why() -> None:
    silent = []
    for source in files_of_tests():
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.Call):
                continue
            name = ast.unparse(node.func)
            if name in ("pytest.mark.skip", "pytest.mark.skipif", "pytest.mark.xfail"):
                if not any(keyword.arg == "reason" for keyword in node.keywords):
                    silent.append(f"{source.place}:{node.lineno} {name}")
            elif name in ("pytest.skip", "pytest.xfail") and not (node.args or node.keywords):
                silent.append(f"{source.place}:{node.lineno} {name}")
    assert not silent, "\n".join(silent)


def test_our_own_code_is_never_mocked() -> None:
    wrong = [
        f"{source.place} imports {name}"
        for source in files_of_tests()
        for name in source.imports
        if name.startswith(("unittest.mock", "pytest_mock", "mock."))
    ]
    assert not wrong, "\n".join(wrong)


def test_no_test_waits_for_a_time_instead_of_a_condition() -> None:
    wrong = []
    for source in files_of_tests():
        if source.place.startswith("bench/"):
            continue
        looping = {id(node) for loop in ast.walk(source.tree) if isinstance(loop, ast.While) for node in ast.walk(loop)}
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.Call) or ast.unparse(node.func) not in SLEEPS or id(node) in looping:
                continue  # in a loop it is the pause between two looks at a condition
            if [ast.unparse(argument) for argument in node.args] != ["0"]:
                wrong.append(f"{source.place}:{node.lineno} {ast.unparse(node)}; use keel.testing.eventually")
    assert not wrong, "\n".join(wrong)


def test_nothing_of_this_machine_is_written_down() -> None:
    """Pins and pages name packages, never where one machine fetched them."""
    wrong = [
        f"{path.relative_to(ROOT)}: {line}"
        for path in sorted((ROOT / "requirements").glob("*"))
        for line in path.read_text().splitlines()
        if re.search(r"://|file:|--(extra-)?index-url|--find-links|-f ", line)
    ]
    assert not wrong, "\n".join(wrong)
