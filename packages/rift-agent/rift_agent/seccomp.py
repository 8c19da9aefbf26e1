"""The system calls a jail may not make: one small BPF program for bwrap's --seccomp.

Without capabilities most of these fail anyway; the filter also closes what a user may do to a process of the same user
(the init), and keeps new namespaces, in which a stranger has all capabilities, and sockets that are not the network
namespace's, as those to the hypervisor, out of reach. Left open on purpose: what a process does to itself alone, as
landlock, mseal, its own seccomp, memfd_secret; pidfds, which signal whom one may signal anyway; and uretprobe, which
the host's own tracing calls for a process.
"""

from __future__ import annotations

import errno
import os
import struct

_LOAD, _JUMP_EQ, _JUMP_GE, _JUMP_SET, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBER, _ARCH, _FIRST, _SECOND = 0, 4, 16, 24  # offsets in struct seccomp_data, little endian
STEP = 8  # bytes of one step of a program
# Namespaces of users, mounts, cgroups, host names, IPC, processes, networks; of time too, where no signal stands there.
_NEW = 0x10000000 | 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x20000000 | 0x40000000
_NEW_TIME = 0x00000080
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16  # another family, as VSOCK, may know no network namespace
_KINDS, _RAW, _PACKET = 0xF, 3, 10
# Linux, 32-bit, old version numbers, both, no randomized addresses, and the question which it is.
_PERSONALITIES = (0, 8, 0x20000, 0x20008, 0x40000, 0xFFFFFFFF)

# machine → (AUDIT_ARCH, numbers that are another ABI begin here, {call: number})
_MACHINES = {
    "x86_64": (0xC000003E, 0x40000000, {
        "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "process_madvise": 440,
        "process_mrelease": 448, "pidfd_getfd": 438, "kcmp": 312,
        "bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "keyctl": 250, "add_key": 248, "request_key": 249,
        "kexec_load": 246, "kexec_file_load": 320, "init_module": 175, "finit_module": 313, "delete_module": 176,
        "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "setns": 308, "open_by_handle_at": 304,
        "name_to_handle_at": 303, "mount_setattr": 442, "open_tree": 428, "open_tree_attr": 467, "move_mount": 429,
        "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "statmount": 457, "listmount": 458,
        "swapon": 167, "swapoff": 168, "reboot": 169, "acct": 163, "quotactl": 179, "quotactl_fd": 443, "syslog": 103,
        "settimeofday": 164, "clock_settime": 227, "clock_adjtime": 305, "adjtimex": 159, "iopl": 172, "ioperm": 173,
        "vhangup": 153, "sethostname": 170, "setdomainname": 171, "fanotify_init": 300, "lookup_dcookie": 212,
        "uselib": 134, "nfsservctl": 180, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
        "clone": 56, "unshare": 272, "clone3": 435, "ioctl": 16, "socket": 41, "personality": 135,
    }),
    "aarch64": (0xC00000B7, 0, {
        "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "process_madvise": 440,
        "process_mrelease": 448, "pidfd_getfd": 438, "kcmp": 272,
        "bpf": 280, "perf_event_open": 241, "userfaultfd": 282, "keyctl": 219, "add_key": 217, "request_key": 218,
        "kexec_load": 104, "kexec_file_load": 294, "init_module": 105, "finit_module": 273, "delete_module": 106,
        "mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51, "setns": 268, "open_by_handle_at": 265,
        "name_to_handle_at": 264, "mount_setattr": 442, "open_tree": 428, "open_tree_attr": 467, "move_mount": 429,
        "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "statmount": 457, "listmount": 458,
        "swapon": 224, "swapoff": 225, "reboot": 142, "acct": 89, "quotactl": 60, "quotactl_fd": 443, "syslog": 116,
        "settimeofday": 170, "clock_settime": 112, "clock_adjtime": 266, "adjtimex": 171,
        "vhangup": 58, "sethostname": 161, "setdomainname": 162, "fanotify_init": 262, "lookup_dcookie": 18,
        "nfsservctl": 42, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
        "clone": 220, "unshare": 97, "clone3": 435, "ioctl": 29, "socket": 198, "personality": 92,
    }),
}  # fmt: skip
# Said not to exist: callers then use what came before, as the list of mounts in /proc.
_ABSENT = ("clone3", "io_uring_setup", "io_uring_enter", "io_uring_register", "statmount", "listmount")


def refused(machine: str) -> dict[str, int]:
    """The calls that are refused whatever their arguments are, by name, with the error that they get."""
    _, _, calls = _MACHINES[machine]
    looked_at = ("clone", "unshare", "ioctl", "socket", "personality")
    return {name: errno.ENOSYS if name in _ABSENT else errno.EPERM for name in calls if name not in looked_at}


def number(machine: str, name: str) -> int:
    """A call's number."""
    return _MACHINES[machine][2][name]


def program(machine: str) -> bytes | None:
    """The filter for a machine as `uname -m` names it, or None for one we have no table of."""
    if machine not in _MACHINES:
        return None
    arch, foreign, calls = _MACHINES[machine]
    no, absent, family = _ERRNO | errno.EPERM, _ERRNO | errno.ENOSYS, _ERRNO | errno.EAFNOSUPPORT
    code = [
        _step(_LOAD, _ARCH), _step(_JUMP_EQ, arch, 1, 0), _step(_RETURN, absent),
        _step(_LOAD, _NUMBER),
    ]  # fmt: skip
    if foreign:
        code += [_step(_JUMP_GE, foreign, 0, 1), _step(_RETURN, absent)]
    for name, flags in (("clone", _NEW), ("unshare", _NEW | _NEW_TIME)):
        code += _when(calls[name], [_step(_LOAD, _FIRST), _step(_JUMP_SET, flags, 0, 1), _step(_RETURN, no)])
    code += _when(calls["ioctl"], [
        _step(_LOAD, _SECOND), _step(_JUMP_EQ, _TIOCSTI, 1, 0), _step(_JUMP_EQ, _TIOCLINUX, 0, 1), _step(_RETURN, no),
    ])  # fmt: skip
    raw = [
        _step(_LOAD, _SECOND), _step(_AND, _KINDS),
        _step(_JUMP_EQ, _RAW, 1, 0), _step(_JUMP_EQ, _PACKET, 0, 1), _step(_RETURN, no),
        _step(_RETURN, _ALLOW),
    ]  # fmt: skip
    code += _when(calls["socket"], [
        _step(_LOAD, _FIRST),
        # What asks the kernel over NETLINK calls its socket raw too.
        _step(_JUMP_EQ, _UNIX, 4 + len(raw), 0), _step(_JUMP_EQ, _NETLINK, 3 + len(raw), 0),
        _step(_JUMP_EQ, _INET, 2, 0), _step(_JUMP_EQ, _INET6, 1, 0), _step(_RETURN, family),
        *raw,
    ])  # fmt: skip
    allowed = [
        _step(_JUMP_EQ, value, len(_PERSONALITIES) - at, 0) for at, value in enumerate(_PERSONALITIES)
    ]  # fmt: skip
    code += _when(calls["personality"], [_step(_LOAD, _FIRST), *allowed, _step(_RETURN, no)])
    for name, error in refused(machine).items():
        code += [_step(_JUMP_EQ, calls[name], 0, 1), _step(_RETURN, _ERRNO | error)]
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
