"""An Onbe that serves on a port of this machine, in a thread of the test's process, and who is asked about people."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import httpx2
from joserfc.jwk import ECKey

from keel.clock import SystemClock
from keel.db import Database
from keel.ids import SystemIds
from keel.testing.plugin import FreshDatabase
from keel.web.serving import server
from onbe.conformance.bench import Bench
from onbe.conformance.people import OfKey
from onbe.deps import Deps
from onbe.drivers.keys.fake import FakeKeys
from onbe.drivers.signing.fake import FakeSigning
from onbe.drivers.sponsors.fake import FakeSponsors
from onbe.serving import web
from onbe.settings import AdminSettings, AgentSettings, LimitSettings, OnbeSettings, ServerSettings, SubjectSettings

PROVIDER, AUDIENCE, PERSON = "https://id.example/realms/main", "onbe", "ada"
ADMIN_KEY = "admin-key-of-the-conformance-tests-0123456789"


class OwnPeople(OfKey):
    """A provider of the test's own, which can disable its person too."""

    sponsors: FakeSponsors

    def enable(self, enabled: bool) -> None:
        self.sponsors.states[PERSON] = "active" if enabled else "disabled"


@dataclass(frozen=True)
class Live:
    """A server that runs: where, and the key of its provider."""

    url: str
    key: ECKey
    sponsors: FakeSponsors

    @contextmanager
    def bench(self) -> Iterator[Bench]:
        """The suite's side of it."""
        clock, ids = SystemClock(), SystemIds()
        people = OwnPeople(self.key, None, {"iss": PROVIDER, "aud": AUDIENCE, "sub": PERSON}, clock, ids)
        people.sponsors = self.sponsors
        with httpx2.Client(timeout=30, trust_env=False) as http:
            bench = Bench(http, self.url, ADMIN_KEY, clock, ids, people)
            bench.discover()
            yield bench


@contextmanager
def live(database: FreshDatabase) -> Iterator[Live]:
    """A server, for the length of the block."""
    # The protocol is named, or asyncio lets the system hold back small answers (Nagle).
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", 0))
        listening.listen(128)
        port = listening.getsockname()[1]
        settings = OnbeSettings(
            server=ServerSettings(port=port),
            subjects=SubjectSettings(issuer=PROVIDER, audiences=(AUDIENCE,)),
            admin=AdminSettings(keys=(ADMIN_KEY,)),
            agents=AgentSettings(min_task_ttl=timedelta(seconds=8)),
            limits=LimitSettings(per_source=1_000_000),
        )
        key, keys, clock = ECKey.generate_key("P-256"), FakeKeys(), SystemClock()
        public = {**key.as_dict(private=False), "kid": key.thumbprint()}
        keys.publish([public], issuer=PROVIDER)
        sponsors = FakeSponsors(clock, {PERSON: "active"})
        up, ends = threading.Event(), threading.Event()

        async def serve() -> None:
            async with Database(database.runtime) as db:
                deps = Deps(
                    clock=clock, ids=SystemIds(), db=db, signing=FakeSigning(settings.issuer), keys=keys,
                    sponsors=sponsors, settings=settings, data=Path("/nowhere"),
                )  # fmt: skip
                serving = server(web(deps), 256)
                answering = asyncio.create_task(serving.serve(sockets=[listening]))
                await asyncio.wait(
                    [answering, asyncio.create_task(serving.up.wait())], return_when=asyncio.FIRST_COMPLETED
                )
                up.set()
                await asyncio.to_thread(ends.wait)
                serving.should_exit = True
                await answering

        thread = threading.Thread(target=asyncio.run, args=(serve(),), name="live onbe")
        thread.start()
        try:
            assert up.wait(60)
            yield Live(f"http://127.0.0.1:{port}", key, sponsors)
        finally:
            ends.set()
            thread.join(60)
        assert not thread.is_alive()
