"""Instants and lengths of time as answers carry them (design: Tasks and leases)."""

from __future__ import annotations

from datetime import datetime, timedelta


def age(at: datetime, now: datetime) -> str:
    """How long ago something was: "4 minutes ago"."""
    seconds = max(now - at, timedelta(0)).total_seconds()
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if (count := int(seconds // length)) > 0:
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "less than a minute ago"


def rfc3339(at: datetime) -> str:
    """An instant in UTC, whole seconds, as structured answers carry it."""
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def when(at: datetime, now: datetime) -> str:
    """An instant with its age, as texts carry it."""
    return f"{rfc3339(at)} ({age(at, now)})"


def ahead(at: datetime, now: datetime) -> str:
    """How far off something is: "in 3 hours 20 minutes"; "now" once it is due."""
    minutes = int((at - now).total_seconds() // 60)
    if minutes < 1:
        return "in less than a minute" if at > now else "now"
    parts = [(minutes // 1440, "day"), (minutes // 60 % 24, "hour"), (minutes % 60, "minute")]
    told = [f"{count} {unit}{'s' if count > 1 else ''}" for count, unit in parts if count]
    return "in " + " ".join(told[:2])


def span(length: timedelta) -> str:
    """A length of time: "90 days", "4 hours", "90 minutes", "20 seconds"."""
    seconds = int(length.total_seconds())
    if seconds % 86_400 == 0 and seconds >= 2 * 86_400:
        return f"{seconds // 86_400} days"
    for unit, size in (("hour", 3_600), ("minute", 60), ("second", 1)):
        if seconds % size == 0 and seconds >= size:
            return f"{seconds // size} {unit}{'s' if seconds // size > 1 else ''}"
    return "0 seconds"


def took(microseconds: int) -> str:
    """How long something took, as a person reads it: "0.4 ms", "12 ms", "1.2 s", "2 min 5 s"."""
    if microseconds < 10_000:
        return f"{microseconds / 1000:.1f} ms"
    if microseconds < 1_000_000:
        return f"{microseconds // 1000} ms"
    if microseconds < 60_000_000:
        return f"{microseconds / 1_000_000:.1f} s"
    minutes, seconds = divmod(microseconds // 1_000_000, 60)
    return f"{minutes} min {seconds} s"
