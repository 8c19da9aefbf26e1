"""From inside a jail: system calls, namespaces, /proc and signals that would lead out, or into another's process."""

from __future__ import annotations

import os

import pytest
from tests.behaviour.attacks.conftest import Attacker
from tests.behaviour.stack.hands import Hands

CALLS = {
    "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "swapon": 167, "swapoff": 168, "reboot": 169,
    "sethostname": 170, "setdomainname": 171, "iopl": 172, "ioperm": 173, "init_module": 175, "delete_module": 176,
    "quotactl": 179, "acct": 163, "settimeofday": 164, "clock_settime": 227, "kexec_load": 246, "add_key": 248,
    "request_key": 249, "keyctl": 250, "perf_event_open": 298, "fanotify_init": 300, "open_by_handle_at": 304,
    "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "finit_module": 313, "bpf": 321,
    "userfaultfd": 323, "kexec_file_load": 320, "io_uring_setup": 425,
    "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "clone3": 435,
    "pidfd_getfd": 438, "mount_setattr": 442, "ptrace": 101, "syslog": 103, "vhangup": 153, "clock_adjtime": 305,
    "adjtimex": 159,
}  # fmt: skip
"""Of x86_64. With these arguments none of them may succeed, whoever calls."""

STEER = [
    *("/proc/sysrq-trigger", "/proc/kcore", "/proc/kmem", "/proc/kallsyms", "/proc/acpi", "/proc/1/mem"),
    *("/proc/irq/default_smp_affinity", "/proc/1/oom_score_adj", "/sys/kernel/uevent_helper", "/dev/mem", "/dev/kmsg"),
    *("/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/release_agent", "/sys/fs/cgroup/memory/release_agent"),
]
OF_THE_BOX = (
    *("/proc/sys/net/", "/proc/sys/user/", "/proc/sys/fs/mqueue/", "/proc/sys/kernel/msg", "/proc/sys/kernel/sem"),
    *(
        "/proc/sys/kernel/shm",
        "/proc/sys/kernel/auto_msgmni",
        "/proc/sys/kernel/ns_last_pid",
        "/proc/sys/kernel/pid_max",
    ),
)
"""What belongs to the jail's own namespaces."""

x86_64 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers of the calls are those of x86_64")


@x86_64
async def test_no_system_call_that_changes_the_machine_or_looks_into_others_is_allowed(attacker: Attacker) -> None:
    """Refused by the filter or for want of a privilege: EPERM, ENOSYS or EACCES, and nothing else."""
    said = await attacker.python(
        f"""
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
page = ctypes.create_string_buffer(4096)
page[1] = 0x40  # as a change of the clock: the tick
for name, number in {CALLS!r}.items():
    ctypes.set_errno(0)
    words = (page, page, page, 0)
    if name == "ptrace":
        words = (16, 1, 0, 0)  # attach to the first process
    if name.startswith("clock_"):
        words = (0, page, page, 0)
    result = libc.syscall(number, *words)
    if result != -1 or ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS, errno.EACCES):
        print(name, result, errno.errorcode.get(ctypes.get_errno()))
print("tried")
"""
    )
    assert said == ["tried"], said


async def test_no_namespace_can_be_made_or_entered(attacker: Attacker) -> None:
    said = await attacker.python(
        """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
names = {"mount": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000, "user": 0x10000000,
         "pid": 0x20000000, "net": 0x40000000, "time": 0x80}
for name, flag in names.items():
    child = os.fork()
    if child == 0:
        os._exit(0 if libc.unshare(flag) == 0 else 1)
    if os.waitpid(child, 0)[1] == 0:
        print("MADE", name)
for pid in ("1", "self"):
    for name in os.listdir("/proc/self/ns"):
        try:
            fd = os.open("/proc/%s/ns/%s" % (pid, name), os.O_RDONLY)
        except OSError:
            continue
        if libc.setns(fd, 0) == 0:
            print("ENTERED", pid, name)
print("tried")
"""
    )
    assert said == ["tried"], said


async def test_nothing_of_proc_or_sys_that_steers_the_kernel_can_be_written(attacker: Attacker) -> None:
    said = await attacker.python(
        f"""
import os
steer = {STEER!r}
for folder, _, names in os.walk("/proc/sys"):
    steer += [os.path.join(folder, name) for name in names]
for path in steer:
    try:
        if not path.startswith({OF_THE_BOX!r}):
            os.close(os.open(path, os.O_WRONLY))
            print("OPENED", path)
    except OSError:
        pass
print("tried", len(steer) > 100)
"""
    )
    assert said == ["tried True"], said


async def test_signals_reach_no_process_outside_the_jail(attacker: Attacker, neighbour: Hands) -> None:
    """Every number there can be is tried; the neighbour, both agents and the server live on."""
    stack = attacker.hands.stack
    assert stack.process
    before = {vm: stack.agent(vm) for vm in (attacker.hands.vm, neighbour.vm)}
    await attacker.python(
        f"""
import os, signal
mine = os.getpid()
for pid in [{stack.process.pid}, *{list(before.values())!r}, *range(2, 65536)]:
    if pid not in (1, mine, os.getppid()):
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
"""
    )
    assert stack.process.poll() is None
    assert {vm: stack.agent(vm) for vm in before} == before
    for hands in (attacker.hands, neighbour):
        assert (await hands.bash("echo alive"))["output"] == "alive\n"


async def test_a_command_cannot_end_or_stop_the_jails_first_process(attacker: Attacker) -> None:
    await attacker.sh("for n in $(seq 1 64); do kill -$n 1 2>/dev/null; done; kill -9 -1")
    assert (await attacker.hands.bash("echo alive"))["output"] == "alive\n"


async def test_a_command_takes_no_controlling_terminal_and_types_into_none(attacker: Attacker) -> None:
    said = await attacker.python(
        """
import fcntl, os, termios
for path in ("/dev/tty", "/dev/console"):
    try:
        os.close(os.open(path, os.O_RDWR)); print("OPENED", path)
    except OSError:
        pass
master, slave = os.openpty()
try:
    fcntl.ioctl(slave, termios.TIOCSTI, b"x"); print("TYPED")
except OSError as error:
    print(error.strerror)
"""
    )
    assert said == ["Operation not permitted"]


async def test_what_crashes_in_a_jail_starts_no_helper_on_the_host(attacker: Attacker) -> None:
    """A core dump is written nowhere, and no handler of the host's runs for it as root."""
    said = await attacker.sh(
        "cd /tmp; ulimit -c; sh -c 'kill -SEGV $$'; ls /tmp/core* 2>/dev/null; ulimit -c unlimited; echo $?"
    )
    assert said.split()[0] == "0"
