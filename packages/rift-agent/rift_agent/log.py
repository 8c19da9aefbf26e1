"""The agent's log: lines on standard error, which the driver points at the box's `agent.log`."""

from __future__ import annotations

import os
import stat
import sys

LIMIT = 1 << 20


def say(line: str) -> None:
    """Writes one line. A log over LIMIT bytes begins anew: a jail can cause lines, and must not fill the disk."""
    try:
        found = os.fstat(2)
        if stat.S_ISREG(found.st_mode) and found.st_size > LIMIT:
            os.ftruncate(2, 0)
        text = "".join(letter if letter.isprintable() else "?" for letter in line[:8192])
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except OSError:
        pass  # nowhere to say it
