"""Where grants are kept: in memory and in a file, by one suite; and what is of the file alone."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onbe_client import FileGrants, Grant, GrantStore, MemoryGrants, Misconfigured

ONE = Grant(
    "task_grant_one", "https://onbe.test", "reports", "task_1", "https://files.test", ("a", "b"),
    datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
)  # fmt: skip
BARE = Grant("task_grant_two", "https://onbe.test", "reports")


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> GrantStore:
    return MemoryGrants() if request.param == "memory" else FileGrants(tmp_path / "grants.json")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "grants.json"


def test_what_is_saved_is_loaded_and_what_is_forgotten_is_not(store: GrantStore) -> None:
    assert store.load("one") is None
    assert store.keys() == ()
    store.forget("one")
    store.save("one", ONE)
    store.save("two", BARE)
    assert (store.load("one"), store.load("two")) == (ONE, BARE)
    assert store.keys() == ("one", "two")
    store.save("one", BARE)
    store.forget("two")
    assert (store.load("one"), store.load("two")) == (BARE, None)


def test_a_grant_shows_no_secret() -> None:
    assert "task_grant" not in repr(ONE) + str(ONE)
    assert "task_grant" not in repr(MemoryGrants()) + repr(FileGrants("x"))


@given(key=st.text(), word=st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1))
def test_any_key_and_any_grant_come_back_as_they_were(
    key: str, word: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    store = FileGrants(tmp_path_factory.mktemp("grants") / "grants.json")
    grant = Grant(word, word, word, word, word, (word,))
    store.save(key, grant)
    assert store.load(key) == grant


def test_the_file_is_its_owners_alone_whatever_the_mask(path: Path) -> None:
    before = os.umask(0)
    try:
        FileGrants(path).save("one", ONE)
    finally:
        os.umask(before)
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_file_that_others_may_read_is_not_used(path: Path, mode: int) -> None:
    store = FileGrants(path)
    store.save("one", ONE)
    path.chmod(mode)
    uses: list[Callable[[], object]] = [
        lambda: store.load("one"), lambda: store.save("two", BARE), lambda: store.forget("one")
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(Misconfigured):
            use()


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", '{"grants": []}', '{"grants": {"a": 1}}', '{"grants": {"a": {}}}', "\0", "[" * 99999]
)
def test_a_file_that_is_none_of_ours_is_left_as_it_is(path: Path, content: str) -> None:
    path.write_text(content)
    path.chmod(0o600)
    store = FileGrants(path)
    uses: list[Callable[[], object]] = [lambda: store.load("one"), lambda: store.save("one", ONE)]
    for use in uses:
        with pytest.raises(Misconfigured) as wrong:
            use()
        assert wrong.value.__cause__ is None
    assert path.read_text() == content


def test_a_link_is_not_followed(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.write_text('{"grants": {}}')
    target.chmod(0o600)
    path.symlink_to(target)
    with pytest.raises(Misconfigured):
        FileGrants(path).load("one")
    with pytest.raises(Misconfigured):
        FileGrants(path).save("one", ONE)
    assert json.loads(target.read_text()) == {"grants": {}}


WRITER = """
import sys
from onbe_client import FileGrants, Grant
store = FileGrants(sys.argv[1])
print("up", flush=True)
for number in range(int(sys.argv[3])):
    store.save(f"{sys.argv[2]}-{number}", Grant(f"task_grant_{number}", "https://onbe.test", "reports"))
"""


def writer(path: Path, name: str, count: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", WRITER, path, name, str(count)], stdout=subprocess.PIPE)


def test_processes_that_share_a_file_lose_nothing_of_one_another(path: Path) -> None:
    processes = [writer(path, name, 40) for name in "abcd"]
    for process in processes:
        process.communicate()
    assert [process.returncode for process in processes] == [0] * 4
    assert len(FileGrants(path).keys()) == 160


def test_a_process_that_is_killed_leaves_a_file_that_is_whole(path: Path) -> None:
    store = FileGrants(path)
    store.save("old", ONE)
    for round_ in range(8):
        process = writer(path, f"r{round_}", 100_000)
        assert process.stdout is not None
        process.stdout.readline()
        while store.load(f"r{round_}-{round_}") is None:
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert store.load("old") == ONE
        store.save("new", BARE)
    assert {file.name for file in path.parent.iterdir()} == {"grants.json", "grants.json.lock"}
