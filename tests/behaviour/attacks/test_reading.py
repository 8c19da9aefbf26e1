"""From inside a jail: the host's files and other boxes' are read by no path, no link and no trick of /proc."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.behaviour.attacks.conftest import HOST_PRIZE, PRIZE, Attacker
from tests.behaviour.stack.hands import Hands
from tests.behaviour.stack.stack import Stack

WAYS = (
    "",
    "/proc/1/root",
    "/proc/self/root",
    "/proc/1/cwd",
    "/proc/self/cwd",
    "/..",
    "/../../..",
    "/proc/thread-self/root",
)
"""In front of a path: what might lead out of the jail's own root."""


async def test_no_way_to_a_path_reads_the_host_or_another_box(
    attacker: Attacker, neighbour: Hands, host_secret: Path
) -> None:
    stack = neighbour.stack
    prizes = [
        str(host_secret),
        str(stack.data / "people.json"),
        str(stack.data / "boxes" / neighbour.vm / "home" / "prize"),
        str(stack.data / "boxes" / neighbour.vm / "token"),
        str(stack.data / "boxes" / attacker.hands.vm / "token"),
        "/etc/shadow",
        "/root/.ssh",
        "/root/.bashrc",
        str(Path(__file__)),
    ]
    said = await attacker.python(
        f"""
import os
for path in {prizes!r}:
    for way in {WAYS!r}:
        try:
            os.stat(way + path)
            print("THERE", way + path)
        except OSError:
            pass
for path in {prizes!r}:
    for fd in os.listdir("/proc/self/fd"):
        try:
            os.stat("..%s" % path, dir_fd=int(fd))
            print("THERE through a descriptor", fd, path)
        except OSError:
            pass
print("looked")
"""
    )
    assert said == ["looked"]


async def test_the_file_tools_follow_links_as_the_jail_sees_them(
    attacker: Attacker, neighbour: Hands, host_secret: Path
) -> None:
    hands = attacker.hands
    prize = hands.stack.data / "boxes" / neighbour.vm / "home" / "prize"
    await attacker.sh(f"ln -sfn {host_secret} ~/out; ln -sfn {prize} ~/next; ln -sfn / ~/top; ln -sfn ~/loop ~/loop")
    for path in ("/home/dev/out", "/home/dev/next", f"/home/dev/top{host_secret}", f"/home/dev/top/..{prize}"):
        said = await hands.read(path)
        assert said["exit"] == 1, said.text
        assert HOST_PRIZE not in said.text
        assert PRIZE not in said.text
    for path in ("/home/dev/out", "/home/dev/next"):
        await hands.write(path, "overwritten")
    assert (await hands.read("/home/dev/loop"))["exit"] == 1
    assert (await hands.write("/home/dev/loop/x", "x"))["exit"] == 1
    await attacker.sh("rm ~/out ~/next ~/top ~/loop")


async def test_what_the_jail_is_shown_holds_no_secret_of_the_host(attacker: Attacker, stack: Stack) -> None:
    """Mount points and environments name no place of the host that would help to find one."""
    seen = await attacker.sh(
        "cat /proc/self/mountinfo /proc/mounts /proc/self/cgroup /proc/*/environ /proc/*/cmdline; env; ls -la /proc/1"
    )
    assert "agents.sock" not in seen
    assert "token" not in seen.lower().replace("x-token", "")
    for secret in stack.tokens.values():
        assert secret not in seen
    listed = await attacker.sh("ls -A /etc /run /dev /mnt /media /srv /root /home /var /sys 2>&1")
    for name in (
        "shadow",
        "gshadow",
        "sudoers",
        "ssh",
        "docker.sock",
        "dbus",
        "kmsg",
        "mem",
        "sda",
        "vda",
        "kvm",
        "fuse",
    ):
        assert name not in listed.split()


async def test_hard_links_reach_nothing_that_is_not_the_boxs_own(attacker: Attacker) -> None:
    said = await attacker.sh(
        "for f in /run/rift/bin/uv /run/rift/agent.pyz /etc/passwd /proc/1/environ /run/rift/objects/info/packs; do "
        "ln $f ~/linked 2>/dev/null && echo LINKED $f && rm -f ~/linked; done; echo looked"
    )
    assert said == "looked\n"


async def test_no_program_of_the_host_that_sets_ids_gives_any(attacker: Attacker) -> None:
    """No new privileges: sudo, su and their kind are ordinary programs in a jail."""
    said = await attacker.sh(
        "for program in $(find /usr/bin /usr/sbin /usr/lib /opt -xdev -perm /6000 -type f 2>/dev/null); do "
        "echo found $program; done; cp $(command -v id) ~/id; chmod 6755 ~/id; ~/id -u; ~/id -g; rm ~/id; "
        "echo x | su -c id root 2>&1 | grep uid=0; mount 2>/dev/null | grep -c nosuid | sed 's/^[1-9].*/some/'"
    )
    lines = [line for line in said.splitlines() if not line.startswith("found ")]
    assert lines == ["1000", "1000", "some"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make a file that sets ids for root")
async def test_a_program_that_sets_ids_for_root_and_is_left_on_the_host_stays_harmless(attacker: Attacker) -> None:
    """Made by the host's root below a folder that jails see."""
    trap = Path("/usr/local/bin/rift-attack-trap")
    shutil.copyfile("/usr/bin/id", trap)
    try:
        trap.chmod(0o6755)
        said = await attacker.sh(f"{trap} -u; {trap} -g")
    finally:
        trap.unlink()
    assert said in ("1000\n1000\n", "bash: line 1: /usr/local/bin/rift-attack-trap: No such file or directory\n" * 2)


async def test_device_nodes_cannot_be_made_and_none_of_the_hosts_is_there(attacker: Attacker) -> None:
    said = await attacker.python(
        """
import os, stat
for kind in (stat.S_IFBLK, stat.S_IFCHR):
    for major, minor in ((1, 1), (1, 3), (8, 0), (254, 0), (10, 232), (5, 1)):
        for folder in ("/tmp", "/home/dev", "/dev", "/dev/shm", "/var/tmp", "/usr/local/bin"):
            path = folder + "/rift-node"
            try:
                os.mknod(path, kind | 0o666, os.makedev(major, minor))
                print("MADE", path, major, minor)
                os.unlink(path)
            except OSError:
                pass
harmless = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "console"}
for name in os.listdir("/dev"):
    mode = os.lstat("/dev/" + name).st_mode
    if (stat.S_ISCHR(mode) or stat.S_ISBLK(mode)) and name not in harmless:
        print("DEVICE", name)
print("looked")
"""
    )
    assert said == ["looked"]


async def test_a_box_never_sees_what_another_box_left_in_shared_names(attacker: Attacker, neighbour: Hands) -> None:
    """Message queues, shared memory, semaphores, the abstract names of sockets, /dev/shm and /tmp are a box's own."""
    other = Attacker(neighbour)
    await other.sh(
        "echo prize > /dev/shm/rift-prize; echo prize > /tmp/rift-prize; ipcmk -M 64 >/dev/null; ipcmk -Q >/dev/null; "
        "nohup python3 -c \"import socket,time; s=socket.socket(socket.AF_UNIX); s.bind('\\0rift-prize'); s.listen(); "
        'time.sleep(300)" >/dev/null 2>&1 & sleep 0.2'
    )
    said = await attacker.python(
        """
import os, socket
for path in ("/dev/shm/rift-prize", "/tmp/rift-prize"):
    if os.path.exists(path):
        print("SEEN", path)
for kind in ("shm", "msg", "sem"):
    if len(open("/proc/sysvipc/" + kind).readlines()) > 1:
        print("SEEN", kind)
try:
    socket.socket(socket.AF_UNIX).connect("\\0rift-prize"); print("REACHED")
except OSError as error:
    print(error.strerror)
"""
    )
    assert said == ["Connection refused"]
    assert (await other.sh("cat /dev/shm/rift-prize; ipcs -m | grep -c 0x; hostname")).split()[0] == "prize"
    assert await attacker.sh("hostname") != await other.sh("hostname")
