"""A C function that Python's own library has not, called with small numbers alone.

By `_ctypes`, what `ctypes` stands on, because an idle box would keep the other half MiB of `ctypes` in memory.
"""

from __future__ import annotations

import _ctypes
import os

_PR_SET_DUMPABLE = 4


def hide(hidden: bool = True) -> None:
    """Non-dumpable: nobody but root reads this process's memory, descriptors or environment, traces it, or has a core
    of it. Raises OSError.
    """
    if call("prctl", _PR_SET_DUMPABLE, 0 if hidden else 1, 0, 0, 0):
        raise OSError("this process cannot hide itself")


def call(name: str, *numbers: int) -> int:
    """What the function of the C library answers (0 is success for those used here). Raises OSError if it has none."""
    library = _ctypes.dlopen(None, os.RTLD_NOW)  # type: ignore[arg-type]  # None is this process; the stub has names only
    answer: int = _ctypes.call_function(_ctypes.dlsym(library, name), numbers)
    return answer
