"""Lengths of time as ISO 8601 spells them, of parts whose length is fixed: weeks, days, hours, minutes, seconds."""

from __future__ import annotations

import re
from datetime import timedelta

_DURATION = re.compile(
    r"P(?:(\d{1,9})W|(?:(\d{1,9})D)?(?:T(?=\d)(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9}(?:\.\d{1,9})?)S)?)?)", re.ASCII
)


def read(text: str) -> timedelta | None:
    """The duration that a text means: `PT30M`, `P1D`, `P2W`; None where it is none, or longer than we can count."""
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        return None
    weeks, days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    try:
        return timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
    except OverflowError:
        return None


def told(value: timedelta) -> str:
    """A duration as `read` takes it: `PT30M`, `P1DT12H`."""
    minutes, seconds = divmod(value.total_seconds(), 60)
    days, rest = divmod(int(minutes), 24 * 60)
    hours, left = divmod(rest, 60)
    date = f"{days}D" if days else ""
    time = "".join(f"{number:g}{unit}" for number, unit in ((hours, "H"), (left, "M"), (seconds, "S")) if number)
    return f"P{date}" + (f"T{time}" if time else "") if date or time else "PT0S"
