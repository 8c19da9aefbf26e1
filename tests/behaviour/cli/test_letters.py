"""A whole Rift and a mail server: who asks for a link gets a letter, whose link signs them in."""

from __future__ import annotations

import asyncio
import re

import httpx2
import pytest
from tests.behaviour.cli.systems import Running, folder, rift
from tests.conformance.post.offices import PASSWORD, SENDER, serving

from keel.testing import eventually

pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")  # it is in TLS already

LINK = re.compile(r"^(http://127\.0\.0\.1:\d+)(/sign-in/link/riftl_[\w-]+)\s*$", re.MULTILINE)
ADA = "ada@example.com"


async def test_who_asks_for_a_link_gets_a_letter_whose_link_signs_them_in() -> None:
    with folder() as data:
        async with serving(data, "starttls", signing_in=True) as kit:
            env = {
                "SSL_CERT_FILE": str(data / "certificate.pem"), "Rift__Mail__Host": kit.config.host,
                "Rift__Mail__Port": str(kit.config.port), "Rift__Mail__Sender": SENDER, "Rift__Mail__User": "rift",
                "Rift__Mail__Password": PASSWORD,
            }  # fmt: skip
            added = await asyncio.to_thread(rift, "user", "add", ADA, "--admin", "--data", data)
            assert added.status == 0, added
            one = Running(data, env=env)
            try:
                await asyncio.to_thread(one.up)
                home = f"http://127.0.0.1:{one.port}"
                async with httpx2.AsyncClient(base_url=home, headers={"origin": home}) as browser:
                    for email in ("nobody@example.com", ADA):
                        asked = await browser.post("/sign-in", data={"email": email})
                        assert asked.status_code in (200, 303), asked.text
                    await eventually(kit.arrived, within=30)
                    (letter,) = kit.arrived()
                    assert letter["To"] == ADA
                    found = LINK.search(next(letter.iter_parts()).get_content())
                    assert found
                    assert found[1] == home
                    used = await browser.post(found[2], data={})
                    assert used.status_code == 303, used.text
                    shown = await browser.get("/app/mailbox")
                    assert (shown.status_code, ADA in shown.text) == (200, True)
                    assert "nobody@example.com" not in shown.text
                assert PASSWORD not in one.errors()
                assert found[2].rpartition("/")[2] not in one.errors() + "".join(one.said)
            finally:
                await asyncio.to_thread(one.kill)
