"""A protocol's methods as they travel over the line: by name, each argument and answer by its type."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from functools import cache
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from rift.drivers.boxes.protocol import BoxDriver, DriverError
from rift.drivers.forge.protocol import Forge, ForgeError
from rift.drivers.line import Failure, Line
from rift.drivers.nix.protocol import Builder, BuildError


class BadArguments(Exception):
    """Arguments are not those of the method; the text names them and never repeats their values."""


@dataclass(frozen=True, slots=True)
class Order:
    """One method: the types of its parameters, in their order, of its answer, and what it raises."""

    name: str
    parameters: Mapping[str, TypeAdapter[Any]]
    hints: Mapping[str, Any]
    answer: TypeAdapter[Any]
    error: Failure

    def pack(self, *args: Any) -> dict[str, Any]:
        """Arguments as JSON carries them."""
        pairs = zip(self.parameters.items(), args, strict=True)
        return {name: adapter.dump_python(value, mode="json") for (name, adapter), value in pairs}

    def unpack(self, arguments: Any) -> dict[str, Any]:
        """The arguments as the method takes them, whole dataclasses included. Raises BadArguments."""
        if not isinstance(arguments, dict) or set(arguments) != set(self.parameters):
            raise BadArguments(f"{self.name} takes {', '.join(self.parameters) or 'nothing'}")
        if any(_more(hint, arguments[name]) for name, hint in self.hints.items()):
            raise BadArguments(f"{self.name}: there is more than it takes")
        try:
            return {name: adapter.validate_python(arguments[name]) for name, adapter in self.parameters.items()}
        except ValidationError as error:
            where = {".".join(map(str, one["loc"])) or "an argument" for one in error.errors(include_input=False)}
            raise BadArguments(f"{self.name}: {', '.join(sorted(where))} cannot be that") from None


@cache
def _hints(shape: Any) -> dict[str, Any]:
    return get_type_hints(shape)


def _more(hint: Any, value: Any) -> bool:
    """Whether JSON has a key that the dataclass it is for, or one inside that, has not."""
    shape = hint
    if not is_dataclass(hint) or not isinstance(value, dict):
        return False
    hints = _hints(shape)
    return not value.keys() <= hints.keys() or any(_more(hints[name], one) for name, one in value.items())


def orders(kind: str, protocol: type, error: Failure) -> dict[str, Order]:
    """The methods of a protocol that may be called from afar, by `kind.method`."""
    found = {}
    for name, method in vars(protocol).items():
        if inspect.iscoroutinefunction(method):
            hints = get_type_hints(method, include_extras=True)
            answer: TypeAdapter[Any] = TypeAdapter(hints.pop("return"))
            parameters: dict[str, TypeAdapter[Any]] = {key: TypeAdapter(hint) for key, hint in hints.items()}
            order = Order(f"{kind}.{name}", parameters, hints, answer, error)
            found[order.name] = order
    return found


ORDERS: Mapping[str, Order] = {
    **orders("boxes", BoxDriver, DriverError),
    **orders("forge", Forge, ForgeError),
    **orders("builder", Builder, BuildError),
}
"""All that a server may have its keeper do with boxes, repositories and their environments."""


class Remote:
    """A driver's methods, done at the other end of a line."""

    def __init__(self, line: Line) -> None:
        self._line = line

    async def _ask(self, name: str, *args: Any) -> Any:
        order = ORDERS[name]
        told = await self._line.call(name, order.pack(*args), order.error)
        return order.answer.validate_python(told)
