"""rift_read and rift_write, as the jail sees its files: run in a fork of the init, answered through the command's pipe.

The answer is one line and then the output: `ok`, `ok image/png`, or `no ` and the reason (which holds no line break).
"""

from __future__ import annotations

import codecs
import errno
import fcntl
import os
import stat

TEXT_LIMIT = 65536
IMAGE_LIMIT = 1 << 20
DRAFT = ".rift-write-"  # and 16 hex digits: a file on its way, locked for as long as somebody writes it
ANSWER_LIMIT = IMAGE_LIMIT + 4096  # bytes of a whole answer

_IMAGES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)  # fmt: skip
_OTHERS = (
    (b"%PDF-", "application/pdf"), (b"PK\x03\x04", "application/zip"), (b"\x1f\x8b", "application/gzip"),
    (b"BZh", "application/x-bzip2"), (b"\xfd7zXZ\0", "application/x-xz"), (b"\x28\xb5\x2f\xfd", "application/zstd"),
    (b"\x7fELF", "application/x-elf"), (b"SQLite format 3\0", "application/vnd.sqlite3"),
    (b"\0asm", "application/wasm"),
    (b"OggS", "audio/ogg"), (b"fLaC", "audio/flac"), (b"ID3", "audio/mpeg"), (b"wOF2", "font/woff2"),
)  # fmt: skip
_KINDS = ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a named pipe"), (stat.S_ISSOCK, "a socket"),
          (stat.S_ISCHR, "a device"), (stat.S_ISBLK, "a device"))  # fmt: skip
_REASONS = {
    errno.ENOENT: "no such file",
    errno.ENOTDIR: "no such file: a part of the path is a file, not a folder",
    errno.EISDIR: "a folder",
    errno.EACCES: "no permission",
    errno.EPERM: "no permission",
    errno.EROFS: "no permission: this part of the box is read-only",
    errno.ENOSPC: "disk full",
    errno.EDQUOT: "disk full: the quota is used up",
    errno.EFBIG: "disk full: larger than a file may be",
    errno.ELOOP: "the links go round in a circle",
    errno.ENAMETOOLONG: "the path is too long",
    errno.ENXIO: "a socket or a device without a driver",
}


class Refused(Exception):
    """Why not, in a few words."""


def serve(path: str, content: int | None, output: int) -> None:
    """Reads the file at `path`, or writes the descriptor `content` to it, and writes the answer to `output`."""
    os.umask(0o022)
    try:
        media, data = ("", write(path, content)) if content is not None else read(path)
        head = f"ok {media}".strip()
    except Refused as refused:
        head, data = f"no {refused}", b""
    except (OSError, ValueError) as error:
        number = getattr(error, "errno", None)
        head, data = f"no {_REASONS.get(number or 0) or getattr(error, 'strerror', None) or error}", b""
    line = os.fsencode(head.replace("\n", " ")) + b"\n"
    for part in (line, data):
        view = memoryview(part)
        while view:
            view = view[os.write(output, view) :]


def read(path: str) -> tuple[str, bytes]:
    """The media type ("" for text) and the bytes of a regular file. Raises Refused or OSError."""
    # Non-blocking: opening a named pipe that nobody writes must not hold us.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        found = os.fstat(fd)
        _regular(found.st_mode)
        data = _take(fd, TEXT_LIMIT + 1)
        image = image_type(data)
        if image:
            data += _take(fd, IMAGE_LIMIT + 1 - len(data))
        size = max(found.st_size, len(data))  # files of /proc say 0
    finally:
        os.close(fd)
    if image:
        if len(data) > IMAGE_LIMIT:
            raise Refused(f"an image of {size} bytes, {image}; rift_read gives images up to {IMAGE_LIMIT}")
        return image, data
    if not is_text(data):
        raise Refused(f"binary file, {size} bytes, {binary_type(data)}")
    if len(data) > TEXT_LIMIT:
        raise Refused(f"the file has {size} bytes; rift_read gives up to {TEXT_LIMIT}")
    return "", data


def write(path: str, content: int) -> bytes:
    """Puts the content in place in one step and returns the line that says so. Raises Refused or OSError."""
    real = os.path.realpath(path)  # a link is followed: the file it names is replaced, not the link
    folder = os.path.dirname(real)
    if path.endswith("/") or os.path.isdir(real):
        raise Refused("a folder")
    mode = 0o644
    try:
        found = os.stat(real)
        _regular(found.st_mode)
        mode = stat.S_IMODE(found.st_mode)
    except FileNotFoundError:
        os.makedirs(folder, exist_ok=True)
    _sweep(folder)
    draft, fd = _draft(folder)
    try:
        size, at = os.fstat(content).st_size, 0
        while at < size:
            view = memoryview(os.pread(content, 1 << 20, at))
            at += len(view)
            while view:
                view = view[os.write(fd, view) :]
        os.fchmod(fd, mode)
        os.rename(draft, real)
    except BaseException:
        os.unlink(draft)
        raise
    finally:
        os.close(fd)
    return os.fsencode(f"wrote {size} bytes to {path}\n")


def _draft(folder: str) -> tuple[str, int]:
    """The path and the descriptor of a new file that nobody sweeps while we live. Raises OSError."""
    while True:
        path = os.path.join(folder, DRAFT + os.urandom(8).hex())
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(fd).st_nlink:
                return path, fd
        except BlockingIOError:
            pass  # swept, or about to be, between the two steps
        os.close(fd)


def _sweep(folder: str) -> None:
    """Removes what a write that was killed left in the folder. What cannot be looked at is left alone."""
    try:
        with os.scandir(folder) as entries:
            found = [entry.path for entry in entries if _is_draft(entry.name) and entry.is_file(follow_symlinks=False)]
    except OSError:
        return
    for path in found:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            if os.fstat(fd).st_uid == os.getuid():
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path)
        except OSError:
            pass  # somebody writes it
        finally:
            os.close(fd)


def _is_draft(name: str) -> bool:
    return len(name) == len(DRAFT) + 16 and name.startswith(DRAFT) and not name[len(DRAFT) :].strip("0123456789abcdef")


def image_type(data: bytes) -> str:
    """The media type of an image rift_read shows, or ""."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((media for magic, media in _IMAGES if data.startswith(magic)), "")


def binary_type(data: bytes) -> str:
    """The media type of other bytes, as far as their beginning tells."""
    return next((media for magic, media in _OTHERS if data.startswith(magic)), "application/octet-stream")


def is_text(data: bytes) -> bool:
    """UTF-8 (its last character may be cut), or some other text: no control characters but those texts have."""
    if b"\0" in data:
        return False
    try:
        codecs.utf_8_decode(data, "strict", False)
        return True
    except UnicodeDecodeError:
        pass
    return not any(byte < 32 and byte not in b"\t\n\r\f\b\x1b" for byte in data)


def _regular(mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise Refused(next((name for test, name in _KINDS if test(mode)), "not a regular file"))


def _take(fd: int, count: int) -> bytes:
    parts = []
    while count > 0:
        part = os.read(fd, min(count, 1 << 18))
        if not part:
            break
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
