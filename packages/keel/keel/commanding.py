"""What the command lines of both products do and say alike: hearing -v, telling a fault, checks and settings."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from keel.settings import Settings


class Check(Protocol):
    """Something that a doctor looked at. One that holds may have a mend too: what would be better."""

    @property
    def name(self) -> str: ...
    @property
    def ok(self) -> bool: ...
    @property
    def sentence(self) -> str: ...
    @property
    def mend(self) -> str | None: ...
    def _asdict(self) -> dict[str, Any]: ...


def verbosely(product: str) -> None:
    """Have `Product:Log:Level` be `info`, in this process and in what it starts: the setting, in another word."""
    level = f"{product}__Log__Level"
    for name in [name for name in os.environ if name.lower() == level.lower()]:
        del os.environ[name]
    os.environ[level] = "info"


@contextmanager
def told(program: str, scrub: Callable[[str], str]) -> Iterator[None]:
    """A program of ours, whose faults are one sentence on stderr and exit 1, unless -v asks for all of it.

    `scrub` takes secrets out of what the fault says of itself.
    """
    try:
        yield
    except Exception as error:
        if logging.getLogger().isEnabledFor(logging.INFO):
            raise
        known = scrub(" ".join(str(error).split())) or "no more is known"
        sys.stderr.write(f"{program}: a fault: {type(error).__name__}: {known}. `{program} -v ...` tells where.\n")
        sys.exit(1)


def checks_told(checks: Sequence[Check], *, as_json: bool) -> str:
    """What a doctor found: a line a check, and its mend below it; or JSON."""
    if as_json:
        return json.dumps([check._asdict() for check in checks], indent=2)
    lines = []
    for check in checks:
        lines.append(f"{'ok  ' if check.ok else 'NO  '} {check.name}: {check.sentence}")
        if check.mend:
            lines.append(f"       {'better' if check.ok else 'mend'}: {check.mend}")
    return "\n".join(lines)


def settings_told(kind: type[Settings], *, as_json: bool) -> str:
    """Every setting of a product with its default and what it is for; or JSON."""
    from keel.settings import table  # not with every --help

    rows = table(kind)
    if as_json:
        return json.dumps([asdict(row) for row in rows], indent=2)
    width = max(len(row.name) for row in rows)
    return "\n".join(f"{row.name:<{width}}  {row.default:<10}  {row.what}" for row in rows)
