"""A system to call actions on: a real database, a forge and boxes in memory, a clock that the test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from keel.db import Database
from keel.ids import digest
from keel.refusal import Refusal
from keel.signals import Signals
from keel.testing import FakeClock, FakeIds
from keel.testing.plugin import FreshDatabase
from keel.vault import vault_of
from rift.audit import Act
from rift.deps import Deps
from rift.drivers.boxes.fake import FakeBoxes
from rift.drivers.carrier.fake import FakeCarrier
from rift.drivers.documents.fake import FakeDocuments
from rift.drivers.forge.fake import FakeForge
from rift.drivers.forge.protocol import Forge
from rift.drivers.github.fake import FakeGitHub
from rift.drivers.nix.fake import FakeBuilder
from rift.drivers.post.protocol import Post
from rift.people import actions
from rift.people.model import Caller, User
from rift.settings import RiftSettings


async def nobody(*_: object) -> tuple[int, dict[str, object]]:
    raise AssertionError("no box is started here")


@asynccontextmanager
async def house(
    database: FreshDatabase, data: Path, clock: FakeClock, forge: Forge | None = None, post: Post | None = None
) -> AsyncIterator[Deps]:
    """Everything an action takes, over a fresh database."""
    async with Database(database.runtime) as db, Signals(database.runtime) as signals:
        yield Deps(
            clock=clock,
            ids=FakeIds("house"),
            db=db,
            signals=signals,
            boxes=FakeBoxes(nobody),
            forge=forge or FakeForge(),
            carrier=FakeCarrier(),
            builder=FakeBuilder(),
            documents=FakeDocuments(),
            vault=vault_of([b"a key that only tests ever seal by"[:32]], FakeIds("vault")),
            github=FakeGitHub(clock),
            settings=RiftSettings(),
            data=data,
            agent_url="http://127.0.0.1:7433",
            post=post,
        )


async def user(deps: Deps, email: str, *, admin: bool = False) -> User:
    """A person with an account."""
    made = await actions.add_user(deps, email, admin)
    assert isinstance(made, User)
    return made


async def caller(deps: Deps, email: str, client: str = "Claude") -> Caller:
    """A person behind a token of theirs."""
    made = await actions.new_token(deps, email, client)
    assert not isinstance(made, Refusal)
    found = await actions.authenticate(deps, made[1])
    assert found is not None
    return found


def act(who: Caller, tool: str = "rift_tool") -> Act:
    """A call of a tool by this person."""
    return Act(who, tool, {}, 1000.0)


async def outcomes(deps: Deps) -> list[tuple[str | None, str | None, str, str]]:
    """The ledger so far: actor, via, action, outcome."""
    async with deps.db.tx() as tx:
        rows = await tx.rows("SELECT actor, via, action, outcome FROM ledger ORDER BY seq")
    return [(row["actor"], row["via"], row["action"], row["outcome"]) for row in rows]


def sha256(secret: str) -> bytes:
    """What is stored of a secret."""
    return digest(secret)
