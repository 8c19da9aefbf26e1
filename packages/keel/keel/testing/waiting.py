"""Waiting for a condition instead of for a time."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TypeVar, overload

from keel.clock import SystemClock

T = TypeVar("T")


@overload
async def eventually(condition: Callable[[], Awaitable[T]], within: float = ..., every: float = ...) -> T: ...
@overload
async def eventually(condition: Callable[[], T], within: float = ..., every: float = ...) -> T: ...
async def eventually(condition: Callable[[], object], within: float = 10.0, every: float = 0.01) -> object:
    """Ask `condition` (a plain or an async function) until it answers something true; returns that answer.

    An AssertionError it raises counts as "not yet". After `within` seconds raises AssertionError with its last answer
    or its last AssertionError as the cause.
    """
    clock = SystemClock()
    deadline = clock.monotonic() + within
    while True:
        said: object = None
        failure: AssertionError | None = None
        try:
            answer = condition()
            value = await answer if inspect.isawaitable(answer) else answer
            if value:
                return value
            said = value
        except AssertionError as error:
            failure = error
        if clock.monotonic() >= deadline:
            what = getattr(condition, "__qualname__", repr(condition))
            raise AssertionError(
                f"not within {within:g} s: {what}; the last answer was {failure or said!r}"
            ) from failure
        await asyncio.sleep(every)
