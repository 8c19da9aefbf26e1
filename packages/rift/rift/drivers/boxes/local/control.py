"""The agent's control socket, as its driver speaks it: one JSON line out, one back."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from keel.sizes import MIB
from rift.drivers.boxes.protocol import DriverError

LINE_LIMIT = MIB
REASON_LIMIT = 2000


class NoAgent(DriverError):
    """Nobody listens at the socket."""


async def ask(socket: Path, order: dict[str, object], *, seconds: float) -> dict[str, Any]:
    """Send one order and return the agent's answer.

    Raises NoAgent when nobody listens, DriverError when the answer takes longer than `seconds` or says not ok.
    """
    try:
        async with asyncio.timeout(seconds):
            answer = await _exchange(socket, order)
    except (FileNotFoundError, ConnectionError) as error:
        raise NoAgent(f"The box's agent does not listen: {error.strerror or error}.") from error
    except TimeoutError as error:
        raise DriverError(f"The box's agent did not answer `{order['op']}` within {seconds:g} s.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise DriverError(f"The box's agent could not be asked for `{order['op']}`: {error}.") from error
    if answer.get("ok") is not True:
        raise DriverError(f"The box's agent refused `{order['op']}`: {_words(answer.get('reason'))}.")
    return answer


def _words(said: object) -> str:
    """What an agent says, as a sentence may repeat it: that is the box's user, not we."""
    text = str(said)[:REASON_LIMIT]
    return "".join(letter if letter.isprintable() else "?" for letter in text)


async def _exchange(socket: Path, order: dict[str, object]) -> dict[str, Any]:
    # By a descriptor, as a socket's own path may be no longer than 107 bytes; and of no link, as the box's user could
    # lay one to another box's socket, which obeys root.
    there = os.open(socket, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        reader, writer = await asyncio.open_unix_connection(f"/proc/self/fd/{there}", limit=LINE_LIMIT)
    finally:
        os.close(there)
    try:
        writer.write(json.dumps(order).encode() + b"\n")
        await writer.drain()
        line = await reader.readline()
    finally:
        writer.close()
    if not line:
        raise ConnectionResetError("it closed the connection")
    answer = json.loads(line)
    if not isinstance(answer, dict):
        raise ValueError("its answer is not an object")
    return answer
