"""Sizes in bytes: their units, and how they are read from a text and told to a person."""

from __future__ import annotations

import re

KIB, MIB, GIB, TIB = 2**10, 2**20, 2**30, 2**40

_UNITS = {"": 1, "B": 1, "KIB": KIB, "MIB": MIB, "GIB": GIB, "TIB": TIB}
_TOLD = (("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB))
_SIZE = re.compile(r"(\d{1,20})(\.\d{1,6})?\s*([A-Za-z]*)", re.ASCII)


def read(text: str) -> int | None:
    """The bytes that a text means: `1048576`, `1MiB`, `1.5 GiB`, in any case of letters; None where it is no size."""
    found = _SIZE.fullmatch(text.strip())
    unit = _UNITS.get(found[3].upper()) if found else None
    if found is None or unit is None or (found[2] and unit == 1):
        return None
    return int(found[1]) * unit + int(float(found[2] or 0) * unit)


def told(count: int) -> str:
    """A number of bytes for a person: `4 GiB`, `1.5 MiB`, `12 bytes`."""
    for unit, size in _TOLD:
        if count >= size:
            return f"{count // size} {unit}" if count % size == 0 else f"{count / size:.1f} {unit}"
    return f"{count} bytes"
