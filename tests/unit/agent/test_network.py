"""Whoever enters the namespace of a jail waits until its users are known there."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from rift_agent import libc
from rift_agent.jail import NoJail
from rift_agent.network import mapped

NEW_USERS = 0x10000000


@pytest.fixture
def newcomer() -> Iterator[int]:
    """A process in a user namespace of its own of which nothing is said yet, as bwrap's first child is for a moment."""
    there, here = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(here, b"%d" % libc.call("unshare", NEW_USERS))
            signal.pause()
        finally:
            os._exit(1)
    os.close(here)
    assert os.read(there, 1) == b"0"
    yield pid
    os.close(there)
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        pass


def write(pid: int, name: str, text: str) -> None:
    with open(f"/proc/{pid}/{name}", "w", encoding="ascii") as file:
        file.write(text)


def test_nobody_enters_before_users_and_groups_are_known(newcomer: int) -> None:
    for name, text in (
        ("uid_map", f"0 {os.geteuid()} 1"), ("setgroups", "deny"), ("gid_map", f"0 {os.getegid()} 1"),
    ):  # fmt: skip
        with pytest.raises(NoJail, match="who is who"):
            mapped(newcomer, patience=0)
        write(newcomer, name, text)
    mapped(newcomer, patience=0)


def test_a_jail_that_ended_is_not_waited_for(newcomer: int) -> None:
    os.kill(newcomer, signal.SIGKILL)
    os.waitpid(newcomer, 0)
    with pytest.raises(NoJail, match="ended"):
        mapped(newcomer)


def test_a_jail_that_ended_and_was_not_buried_is_not_waited_for(newcomer: int) -> None:
    os.kill(newcomer, signal.SIGKILL)
    os.waitid(os.P_PID, newcomer, os.WEXITED | os.WNOWAIT)
    with pytest.raises(NoJail, match="ended"):
        mapped(newcomer)
