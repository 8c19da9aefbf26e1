"""A whole Rift, a box taken over by somebody who wants out, and a neighbour's box with something to steal."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.behaviour.stack.hands import Hands
from tests.behaviour.stack.stack import Stack

PRIZE = "the-neighbours-own-words"
HOST_PRIZE = "what-stands-on-the-host"


@dataclass(frozen=True)
class Attacker:
    """Somebody with a shell in a box."""

    hands: Hands

    async def sh(self, script: str, timeout: int = 60) -> str:
        """What a shell script printed, both streams. It may fail."""
        return str((await self.hands.run(script, timeout))["output"])

    async def python(self, script: str, timeout: int = 60) -> list[str]:
        """The lines that a Python program printed. It must come to its end."""
        said = await self.hands.run(f"python3 -I - <<'END'\n{script}\nEND", timeout)
        lines = str(said["output"]).splitlines()
        assert said["exit"] == 0, said.text
        return lines


@pytest.fixture
def attacker(desk: Hands) -> Attacker:
    """In the box that tests share: what is tried leaves it as it was, because it fails."""
    return Attacker(desk)


@pytest.fixture
async def neighbour(stack: Stack) -> AsyncIterator[Hands]:
    """Another client's box on the same host, with a file worth reading."""
    other = Hands(stack, who="ada again")
    await other.open("the neighbour")
    await other.take()
    await other.write("/home/dev/prize", PRIZE)
    yield other
    assert (await other.read("/home/dev/prize"))["output"] == PRIZE
    await other.close()


@pytest.fixture
def host_secret(stack: Stack) -> Iterator[Path]:
    """A file of the host that everybody there may read."""
    path = stack.data / "host-secret"
    path.write_text(HOST_PRIZE)
    path.chmod(0o644)
    yield path
    assert path.read_text() == HOST_PRIZE
    path.unlink()
