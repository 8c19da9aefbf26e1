"""A C function that Python's own library has not, called with small numbers alone.

By `_ctypes`, what `ctypes` stands on, because an idle box would keep the other half MiB of `ctypes` in memory.
"""

from __future__ import annotations

import _ctypes
import os


def call(name: str, *numbers: int) -> int:
    """What the function of the C library answers (0 is success for those used here). Raises OSError if it has none."""
    library = _ctypes.dlopen(None, os.RTLD_NOW)  # type: ignore[arg-type]  # None is this process; the stub has names only
    answer: int = _ctypes.call_function(_ctypes.dlsym(library, name), numbers)
    return answer
