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
    except (OSError, ValueError) as error:
        raise DriverError(f"The box's agent could not be asked for `{order['op']}`: {error}.") from error
    if not answer.get("ok"):
        raise DriverError(f"The box's agent refused `{order['op']}`: {answer.get('reason', answer)}.")
    return answer


async def _exchange(socket: Path, order: dict[str, object]) -> dict[str, Any]:
    # Through the folder's descriptor, as a socket's own path may be no longer than 107 bytes.
    folder = os.open(socket.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        reader, writer = await asyncio.open_unix_connection(f"/proc/self/fd/{folder}/{socket.name}", limit=LINE_LIMIT)
    finally:
        os.close(folder)
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
