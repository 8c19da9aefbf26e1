"""Who is killed as the mail server takes a letter: it is sent again, and by nobody else meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path

from aiosmtpd.smtp import SMTP, Envelope, Session
from tests.conformance.post.offices import serving
from tests.unit.people.house import house

from keel.clock import SystemClock
from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase
from rift.mail import actions

WORKER = """
import asyncio, sys
from pathlib import Path
from rift import app
from rift.mail import actions
from rift.settings import MailSettings, RiftSettings

async def main(url, folder, port, letter):
    mail = MailSettings(host="localhost", port=int(port), security="none", sender="rift@mail.example.com")
    async with app.connect(RiftSettings(mail=mail), Path(folder), url) as deps:
        await actions.send(deps, letter)

asyncio.run(main(*sys.argv[1:]))
"""


async def test_a_worker_that_is_killed_once_its_letter_is_taken_has_it_sent_again_and_not_at_once(
    database: FreshDatabase, tmp_path: Path
) -> None:
    clock = FakeClock(SystemClock().now())
    async with (
        serving(tmp_path, "none") as kit,
        house(database, tmp_path, clock, post=kit.post) as deps,
    ):
        async with deps.db.tx() as tx:
            await actions.post(tx, deps, "trial", "ada@example.com", {})
        id = (await actions.list_letters(deps)).letters[0].id
        pids: list[int] = []
        taken = kit.office.handle_DATA

        async def take_and_kill(server: SMTP, session: Session, envelope: Envelope) -> str:
            said = await taken(server, session, envelope)
            if pids:
                os.kill(pids.pop(), signal.SIGKILL)
            return said

        kit.office.handle_DATA = take_and_kill  # type: ignore[method-assign]  # the server's, not ours
        worker = await asyncio.create_subprocess_exec(
            sys.executable, "-c", WORKER, database.runtime, str(tmp_path), str(kit.config.port), id
        )
        pids.append(worker.pid)
        assert await worker.wait() == -signal.SIGKILL
        assert len(kit.arrived()) == 1
        clock.advance(SystemClock().now() - clock.now())  # the worker's clock is the real one, and it may begin late
        clock.advance(timedelta(seconds=5))
        assert await actions.send(deps, id) is None
        clock.advance(timedelta(minutes=2))
        done = await actions.send(deps, id)
        assert done is not None
        assert done.state == "sent"
        assert [got["To"] for got in kit.arrived()] == ["ada@example.com"] * 2
