"""The repository's secrets, in the agent's memory alone: each command is started with them, and shows none of them."""

from __future__ import annotations

from rift_agent.jail import memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rift_agent.masking import Mask, Secrets

ONCE_MOST = 1 << 18  # bytes of values of before that are still masked


class Kept:
    """The secrets as they are now. Of another thread, only `names` may be asked."""

    def __init__(self) -> None:
        self._values: dict[bytes, bytes] = {}  # what the next command has
        self._once: dict[bytes, None] = {}  # values of before, oldest first: masked for as long as this agent lives
        self._masked: Secrets | None = None

    def keep(self, values: dict[str, str]) -> None:
        """These they are from the next command on."""
        from rift_agent.masking import Secrets  # with the first of them: most boxes have none

        for value in self._values.values():
            self._once.pop(value, None)
            self._once[value] = None
        while sum(map(len, self._once)) > ONCE_MOST:
            del self._once[next(iter(self._once))]
        self._values = {name.encode(): value.encode() for name, value in values.items()}
        self._masked = Secrets([*self._values.values(), *self._once])

    def mask(self, before: Mask | None = None) -> Mask | None:
        """What takes them out of one stream; `before` goes on with those that came meanwhile. None without secrets."""
        if self._masked is None:
            return None
        if before is None:
            from rift_agent.masking import Mask

            return Mask(self._masked)
        before.secrets = self._masked
        return before

    def text(self, text: str) -> str:
        """A text without them."""
        return self._masked.text(text) if self._masked else text

    def names(self, host: str) -> bool:
        """Whether a host's name holds one."""
        return self._masked is not None and self._masked.names(host)

    def descriptors(self) -> list[int]:
        """An anonymous file of what a command that starts now has, NAME=value and a NUL each; none without any."""
        pairs = b"".join(b"%b=%b\0" % pair for pair in self._values.items())
        return [memory("secrets", pairs)] if pairs else []
