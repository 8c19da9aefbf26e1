"""The system calls of a jail: what its filter refuses, tried from inside a real one."""

from __future__ import annotations

import errno
import os

import pytest
from tests.conformance.agent.boxes import Box
from tests.conformance.agent.test_walls import python

from rift_agent import seccomp


def calls(box: Box, *lines: str) -> list[list[str]]:
    """Make system calls in the jail: each line's words are a number and arguments; what each answered, and errno."""
    said = python(
        box,
        "import ctypes, signal\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        "signal.signal(signal.SIGSYS, signal.SIG_IGN)\n"
        "def call(number, *words):\n"
        "    ctypes.set_errno(0)\n"
        "    answer = libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, words))\n"
        "    print(answer, ctypes.get_errno(), flush=True)\n" + "\n".join(f"call({line})" for line in lines),
    )
    return [line.split() for line in said.splitlines()]


known_machine = pytest.mark.skipif(
    seccomp.program(os.uname().machine) is None, reason="no table of this machine's system calls"
)


@known_machine
def test_every_call_of_the_list_is_refused_whatever_its_arguments(box: Box) -> None:
    """No mounts, no other's memory, keys, bpf, page faults, modules, clock, io_uring, raw descriptors or handles."""
    machine = os.uname().machine
    wanted = seccomp.refused(machine)
    assert {
        *("mount", "move_mount", "open_tree", "pivot_root", "ptrace", "process_vm_writev", "keyctl", "add_key", "bpf"),
        *("userfaultfd", "setns", "io_uring_setup", "io_uring_enter", "io_uring_register", "init_module"),
        *("finit_module", "clock_settime", "clock_adjtime", "settimeofday", "adjtimex", "open_by_handle_at"),
        *("name_to_handle_at", "perf_event_open", "kexec_load", "fanotify_init", "quotactl_fd", "reboot", "syslog"),
    } <= set(wanted)
    said = calls(box, *(f"{seccomp.number(machine, name)}, 0, 0, 0, 0, 0, 0" for name in wanted))
    assert dict(zip(wanted, said, strict=True)) == {name: ["-1", str(error)] for name, error in wanted.items()}


@known_machine
def test_no_namespace_of_any_kind_can_be_made(box: Box) -> None:
    machine = os.uname().machine
    clone, unshare, clone3 = (seccomp.number(machine, name) for name in ("clone", "unshare", "clone3"))
    flags = (0x10000000, 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x20000000, 0x40000000)
    made = calls(
        box, *(f"{call}, {flag | 17 * (call == clone)}, 0, 0, 0, 0" for call in (clone, unshare) for flag in flags)
    )
    assert made == [["-1", str(errno.EPERM)]] * 14
    assert calls(box, f"{unshare}, 0x80", f"{clone3}, 0, 0") == [
        ["-1", str(errno.EPERM)],
        ["-1", str(errno.ENOSYS)],
    ]
    assert calls(box, f"{unshare}, 0x400") == [["0", "0"]]  # its own table of files: no namespace


def test_sockets_are_not_raw_but_for_asking_the_kernel(box: Box) -> None:
    said = python(
        box,
        """
import socket
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, socket.AF_UNIX):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, 10):
        for flags in (0, socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK):
            try:
                socket.socket(family, kind | flags, 1 if kind == 3 and family in (2, 10) else 0).close()
                print(int(family), kind & 0xf)
            except OSError as error:
                print(int(family), kind & 0xf, error.errno)
""",
    )
    lines = said.split("\n")
    for family in (2, 10):
        for kind in (3, 10):
            assert f"{family} {kind} {errno.EPERM}" in lines
            assert f"{family} {kind}" not in lines
        assert lines.count(f"{family} 1") == lines.count(f"{family} 2") == 2
    assert "16 3" in lines


@known_machine
def test_a_personality_that_opens_memory_is_refused_and_those_that_builds_need_are_not(box: Box) -> None:
    number = seccomp.number(os.uname().machine, "personality")
    said = calls(box, f"{number}, 0xffffffff", f"{number}, 0x40000", f"{number}, 0x400000", f"{number}, 0x100000")
    assert [line[1] for line in said] == ["0", "0", str(errno.EPERM), str(errno.EPERM)]


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="only there a process can call by another table")
def test_the_other_tables_of_calls_of_this_machine_are_closed(box: Box) -> None:
    said = calls(box, f"{0x40000000 + 39}", f"{0x40000000 + 101}, 0, 0, 0, 0", f"{0x40000000 + 521}, 0")
    assert said == [["-1", str(errno.ENOSYS)]] * 3


def test_what_a_process_does_to_itself_alone_is_left_to_it(box: Box) -> None:
    """Browsers, databases and runtimes seal, confine and signal themselves; a box is to build and test those."""
    said = python(
        box,
        """
import ctypes, os, signal, threading
libc = ctypes.CDLL(None, use_errno=True)
print(libc.prctl(38, 1, 0, 0, 0))
os.close(os.memfd_create("x")); os.close(os.pidfd_open(os.getpid()))
thread = threading.Thread(target=lambda: print("thread")); thread.start(); thread.join()
child = os.fork()
if child == 0: os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
signal.pidfd_send_signal(os.pidfd_open(os.getpid()), 0)
print("fine")
""",
    )
    assert said.split() == ["0", "thread", "7", "fine"]
