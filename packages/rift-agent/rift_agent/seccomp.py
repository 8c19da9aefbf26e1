"""The system calls a jail may not make: one small BPF program for bwrap's --seccomp.

Without capabilities most of these fail anyway; the filter also closes what a user may do to a process of the same user
(the init), and keeps new user namespaces, where a stranger has all capabilities, and sockets that are not the network
namespace's, as those to the hypervisor, out of reach.
"""

from __future__ import annotations

import errno
import os
import struct

_LOAD, _JUMP_EQ, _JUMP_GE, _JUMP_SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBER, _ARCH, _FIRST, _SECOND = 0, 4, 16, 24  # offsets in struct seccomp_data, little endian
_NEW_USER = 0x10000000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_FAMILIES = (1, 2, 10, 16)  # UNIX, INET, INET6, NETLINK: another, as VSOCK, may know no network namespace

# machine → (AUDIT_ARCH, numbers that are another ABI begin here, {call: number})
_MACHINES = {
    "x86_64": (0xC000003E, 0x40000000, {
        "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "pidfd_getfd": 438, "kcmp": 312,
        "bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "keyctl": 250, "add_key": 248, "request_key": 249,
        "kexec_load": 246, "kexec_file_load": 320, "init_module": 175, "finit_module": 313, "delete_module": 176,
        "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "setns": 308, "open_by_handle_at": 304,
        "mount_setattr": 442, "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432,
        "fspick": 433, "swapon": 167, "swapoff": 168, "reboot": 169, "acct": 163, "quotactl": 179, "syslog": 103,
        "settimeofday": 164, "clock_settime": 227, "iopl": 172, "ioperm": 173, "vhangup": 153,
        "io_uring_setup": 425, "clone": 56, "unshare": 272, "clone3": 435, "ioctl": 16, "socket": 41,
    }),
    "aarch64": (0xC00000B7, 0, {
        "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "pidfd_getfd": 438, "kcmp": 272,
        "bpf": 280, "perf_event_open": 241, "userfaultfd": 282, "keyctl": 219, "add_key": 217, "request_key": 218,
        "kexec_load": 104, "kexec_file_load": 294, "init_module": 105, "finit_module": 273, "delete_module": 106,
        "mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51, "setns": 268, "open_by_handle_at": 265,
        "mount_setattr": 442, "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432,
        "fspick": 433, "swapon": 224, "swapoff": 225, "reboot": 142, "acct": 89, "quotactl": 60, "syslog": 116,
        "settimeofday": 170, "clock_settime": 112, "vhangup": 58,
        "io_uring_setup": 425, "clone": 220, "unshare": 97, "clone3": 435, "ioctl": 29, "socket": 198,
    }),
}  # fmt: skip
_ABSENT = ("clone3", "io_uring_setup")  # said not to exist: callers then use what came before


def program(machine: str) -> bytes | None:
    """The filter for a machine as `uname -m` names it, or None for one we have no table of."""
    if machine not in _MACHINES:
        return None
    arch, foreign, calls = _MACHINES[machine]
    calls = dict(calls)
    no, absent = _ERRNO | errno.EPERM, _ERRNO | errno.ENOSYS
    code = [
        _step(_LOAD, _ARCH), _step(_JUMP_EQ, arch, 1, 0), _step(_RETURN, absent),
        _step(_LOAD, _NUMBER),
    ]  # fmt: skip
    if foreign:
        code += [_step(_JUMP_GE, foreign, 0, 1), _step(_RETURN, absent)]
    for name in ("clone", "unshare"):
        code += _when(calls.pop(name), [_step(_LOAD, _FIRST), _step(_JUMP_SET, _NEW_USER, 0, 1), _step(_RETURN, no)])
    code += _when(calls.pop("ioctl"), [
        _step(_LOAD, _SECOND), _step(_JUMP_EQ, _TIOCSTI, 1, 0), _step(_JUMP_EQ, _TIOCLINUX, 0, 1), _step(_RETURN, no),
    ])  # fmt: skip
    families = [_step(_JUMP_EQ, family, len(_FAMILIES) - at, 0) for at, family in enumerate(_FAMILIES)]
    code += _when(calls.pop("socket"), [
        _step(_LOAD, _FIRST), *families, _step(_RETURN, _ERRNO | errno.EAFNOSUPPORT),
    ])  # fmt: skip
    for name, number in calls.items():
        code += [_step(_JUMP_EQ, number, 0, 1), _step(_RETURN, absent if name in _ABSENT else no)]
    code.append(_step(_RETURN, _ALLOW))
    return b"".join(code)


def descriptor() -> int | None:
    """An inheritable descriptor holding this machine's filter, or None."""
    code = program(os.uname().machine)
    if code is None:
        return None
    fd = os.memfd_create("seccomp", 0)
    os.write(fd, code)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _when(number: int, body: list[bytes]) -> list[bytes]:
    """`body` for that call alone; falling out of it allows the call."""
    body = [*body, _step(_RETURN, _ALLOW)]
    return [_step(_JUMP_EQ, number, 0, len(body)), *body]


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
