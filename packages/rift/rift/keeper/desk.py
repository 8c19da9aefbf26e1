"""The keeper's end of the line: takes orders, has the drivers do them side by side, answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog

from rift.drivers.boxes.protocol import BoxDriver, DriverError
from rift.drivers.forge.protocol import Forge, ForgeError
from rift.drivers.line import ANSWER_LIMIT, CALL_LIMIT, HEAD, BadFrame, frame, kind_of, read
from rift.drivers.nix.protocol import Builder, BuildError
from rift.drivers.orders import ORDERS, BadArguments
from rift.keeper.checks import Bounds, refuse, too_large, without_data

log = structlog.get_logger()

AT_ONCE = 256
"""Orders that are being done; no further one is read until one of them has ended."""

Extra = Mapping[str, Callable[[], Awaitable[None]]]


class Desk:
    """Answers one server. `extra` are further orders, which take nothing and answer nothing."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        bounds: Bounds,
        drivers: Mapping[str, BoxDriver | Forge | Builder],
        extra: Extra | None = None,
        said: Callable[[str], None] | None = None,
    ) -> None:
        """`drivers` are by the kind that their orders' names begin with; `said` hears the server's own words."""
        self._reader = reader
        self._writer = writer
        self._bounds = bounds
        self._drivers = drivers
        self._extra = extra or {}
        self._said = said or (lambda word: None)
        self._doing: dict[int, asyncio.Task[None]] = {}
        self._writing = asyncio.Lock()
        self._free = asyncio.Semaphore(AT_ONCE)

    async def serve(self) -> None:
        """Until the server hangs up; what is being done then is cancelled. Raises BadFrame for what is no order."""
        try:
            while (message := await read(self._reader, CALL_LIMIT)) is not None:
                await self._take(message)
        finally:
            doing = list(self._doing.values())
            for task in doing:
                task.cancel()
            if doing:
                await asyncio.wait(doing)
            self._writer.close()

    def say(self, word: str) -> None:
        """Tell the server something that needs no answer."""
        self._writer.write(frame({"say": word}))

    async def _take(self, message: dict[str, Any]) -> None:
        if isinstance(number := message.get("cancel"), int):
            if number in self._doing:
                self._doing[number].cancel()
            return
        if isinstance(word := message.get("say"), str):
            self._said(word)
            return
        number, name = message.get("id"), message.get("call")
        if not isinstance(number, int) or not isinstance(name, str) or number in self._doing:
            raise BadFrame("it is no order")
        await self._free.acquire()
        task = asyncio.create_task(self._do(number, name, message.get("args")), name=f"order {number}")
        self._doing[number] = task
        task.add_done_callback(lambda _: self._done(number))

    def _done(self, number: int) -> None:
        del self._doing[number]
        self._free.release()

    async def _do(self, number: int, name: str, arguments: Any) -> None:
        try:
            answer = {"id": number, "ok": await self._answer(name, arguments)}
        except (DriverError, ForgeError, BuildError) as error:
            answer = {"id": number, "error": error.reason, "kind": kind_of(error)}
        except Exception as error:
            log.exception("keeper.fault", order=name if name in ORDERS else "unknown")
            answer = {"id": number, "fault": type(error).__name__}
        data = frame(answer)
        if len(data) > ANSWER_LIMIT + HEAD:
            data = frame({"id": number, "error": "The answer is larger than the keeper may send."})
        async with self._writing:  # one at a time: a server that reads nothing is owed no more than it has asked for
            try:
                self._writer.write(data)
                await self._writer.drain()
            except ConnectionError:
                pass  # it hung up; `serve` sees that too

    async def _answer(self, name: str, arguments: Any) -> Any:
        if name in self._extra:
            return await self._extra[name]()
        order = ORDERS.get(name)
        if order is None or name.partition(".")[0] not in self._drivers:
            raise DriverError("The keeper knows no such order.")
        if too_large(without_data(arguments)):
            raise order.error(f"The keeper refuses arguments of this size at {name}.")
        try:
            taken = order.unpack(arguments)
        except BadArguments as error:
            raise order.error(f"The keeper refuses: {error}.") from None
        # A path is looked at on the way, which may be slow.
        refusal = (
            await asyncio.to_thread(refuse, self._bounds, taken) if "url" in taken else refuse(self._bounds, taken)
        )
        if refusal is not None:
            log.warning("keeper.refused", order=name, reason=refusal)
            raise order.error(refusal)
        kind, _, method = name.partition(".")
        return order.answer.dump_python(await getattr(self._drivers[kind], method)(**taken), mode="json")
