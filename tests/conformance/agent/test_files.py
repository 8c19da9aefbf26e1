"""rift_read and rift_write in a real jail."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
from collections.abc import Callable
from typing import Any

import pytest
from tests.conformance.agent.boxes import Box
from tests.conformance.agent.plane import tail

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40


def read(box: Box, path: str) -> tuple[Any, Any, bytes, Any]:
    event = box.plane.ended(box.plane.order("read", 45, path=path))
    return event["exit"], event["reason"], box.plane.output(event["n"]), event.get("media")


def write(box: Box, path: str, content: str) -> tuple[Any, Any, bytes]:
    event = box.plane.ended(box.plane.order("write", 45, path=path, content=content))
    return event["exit"], event["reason"], tail(event)


def own(box: Box) -> None:
    for path in box.home.rglob("*"):
        os.lchown(path, box.uid, box.uid)


def test_a_file_is_read_as_it_is(box: Box) -> None:
    box.plane.run("printf 'a\\n\\né\\n' > notes.txt; : > empty; head -c 65536 /dev/zero | tr '\\0' y > most")
    assert read(box, "/home/dev/app/notes.txt") == (0, None, "a\n\né\n".encode(), None)
    assert read(box, "notes.txt")[2] == "a\n\né\n".encode()
    assert read(box, "empty") == (0, None, b"", None)
    assert read(box, "most")[2] == b"y" * 65536


def test_a_file_of_proc_is_read_although_it_says_it_is_empty(box: Box) -> None:
    assert b"Name:" in read(box, "/proc/self/status")[2]


@pytest.mark.parametrize(
    ("make", "path", "reason"),
    [
        ("true", "nothing", "no such file"),
        ("touch file", "file/below", "no such file: a part of the path is a file, not a folder"),
        ("mkdir folder", "folder", "a folder"),
        ("mkfifo pipe", "pipe", "a named pipe"),
        ("true", "/dev/zero", "a device"),
        ("echo s > shut; chmod 0 shut", "shut", "no permission"),
        ("ln -s b a; ln -s a b", "a", "the links go round in a circle"),
        ("head -c 65537 /dev/zero | tr '\\0' y > big", "big", "the file has 65537 bytes; rift_read gives up to 65536"),
        ("printf 'ab\\0c' > bin", "bin", "binary file, 4 bytes, application/octet-stream"),
        ("printf '\\177ELF\\1\\0' > elf", "elf", "binary file, 6 bytes, application/x-elf"),
        ("(printf '\\211PNG\\r\\n\\032\\n'; head -c 1048576 /dev/zero) > large.png", "large.png",
         "an image of 1048584 bytes, image/png; rift_read gives images up to 1048576"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_says_why(box: Box, make: str, path: str, reason: str) -> None:
    box.plane.run(make)
    assert read(box, path) == (1, reason, b"", None)


def test_a_socket_is_not_read(box: Box) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(box.home / "app/sock"))
        own(box)
        assert read(box, "sock")[0] == 1


def test_an_image_comes_with_its_type(box: Box) -> None:
    (box.home / "app/a.png").write_bytes(PNG)
    own(box)
    assert read(box, "a.png") == (0, None, PNG, "image/png")


def test_latin_text_is_text(box: Box) -> None:
    box.plane.run("printf 'caf\\351\\n' > latin")
    assert read(box, "latin")[2] == b"caf\xe9\n"


def test_a_write_makes_the_folders_and_says_what_it_wrote(box: Box) -> None:
    assert write(box, "new/deep/file.txt", "héllo\n") == (0, None, b"wrote 7 bytes to new/deep/file.txt\n")
    made = box.home / "app/new/deep/file.txt"
    assert made.read_text() == "héllo\n"
    assert stat.S_IMODE(made.stat().st_mode) == 0o644
    assert made.stat().st_uid == box.uid
    assert sorted(path.name for path in made.parent.iterdir()) == ["file.txt"]


def test_a_write_keeps_the_mode_of_the_file_it_replaces(box: Box) -> None:
    box.plane.run("echo old > run.sh; chmod 750 run.sh")
    assert write(box, "run.sh", "new\n")[0] == 0
    assert stat.S_IMODE((box.home / "app/run.sh").stat().st_mode) == 0o750
    assert (box.home / "app/run.sh").read_text() == "new\n"


def test_a_write_follows_a_link_as_the_jail_sees_it(box: Box) -> None:
    box.plane.run("mkdir -p /tmp/there; ln -s /tmp/there/target link; ln -s /etc/hostname out")
    assert write(box, "link", "through\n")[0] == 0
    assert (box.home / "app/link").is_symlink()
    assert (box.tmp / "there/target").read_text() == "through\n"
    assert write(box, "out", "x")[0] == 1


@pytest.mark.parametrize(
    ("make", "path", "reason"),
    [
        ("mkdir folder", "folder", "a folder"),
        ("true", "trailing/", "a folder"),
        ("mkfifo pipe", "pipe", "a named pipe"),
        ("mkdir shut; chmod 500 shut", "shut/file", "no permission"),
        ("touch file", "file/below", "no such file: a part of the path is a file, not a folder"),
        ("true", "/usr/file", "no permission"),
        ("true", "/dev/full", "a device"),
    ],
)
def test_what_cannot_be_written_says_why(box: Box, make: str, path: str, reason: str) -> None:
    box.plane.run(make)
    exit_code, said, output = write(box, path, "x")
    assert (exit_code, output) == (1, b"")
    assert said.startswith(reason)


@pytest.mark.skipif(os.geteuid() != 0, reason="a small file system needs root")
def test_a_disk_without_room_leaves_the_old_file_and_says_so(make_box: Callable[..., Box]) -> None:
    box = make_box()
    assert os.system(f"mount -t tmpfs -o size=64k,mode=777 tmpfs {box.tmp}") == 0
    try:
        box.start().ready()
        assert write(box, "/tmp/file", "old")[0] == 0
        assert write(box, "/tmp/file", "x" * 200000)[:2] == (1, "disk full")
        assert [path.name for path in box.tmp.iterdir()] == ["file"]
        assert read(box, "/tmp/file")[2] == b"old"
    finally:
        box.end()
        os.system(f"umount {box.tmp}")


def test_what_a_killed_write_left_goes_with_the_next_and_nothing_else_does(box: Box) -> None:
    """A draft is a write's for as long as that holds its lock; a name that is only like a draft's is somebody's own."""
    folder = box.home / "app"
    left, written, folder_like = (folder / f".rift-write-{letter * 16}" for letter in "abc")
    box.plane.run(f"echo half >{left.name}; echo half >{written.name}; mkdir {folder_like.name}")
    theirs = [".rift-write-aaaa", ".rift-write-notahexnumber0000", "rift-write-aaaaaaaaaaaaaaaa"]
    box.plane.run("touch " + " ".join(theirs))
    with written.open() as going:
        fcntl.flock(going, fcntl.LOCK_EX)
        assert write(box, "file", "new")[0] == 0
        names = {path.name for path in folder.glob("*rift-write-*")}
        assert names == {written.name, folder_like.name, *theirs}
    assert write(box, "file", "newer")[0] == 0
    assert not written.exists()


def test_a_file_is_written_into_a_folder_that_may_not_be_listed(box: Box) -> None:
    box.plane.run("mkdir shut; chmod 300 shut")
    assert write(box, "shut/file", "in")[0] == 0
    assert tail(box.plane.run("cat shut/file")) == b"in"


def test_eight_mebibytes_are_written_whole(box: Box) -> None:
    content = "0123456789abcde\n" * (1 << 19)
    assert write(box, "large", content)[1] is None
    assert (box.home / "app/large").read_text() == content
