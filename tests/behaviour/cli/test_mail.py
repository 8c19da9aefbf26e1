"""`rift mail test`: what a mail server says to the settings as they are."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.behaviour.cli.systems import Told, folder, rift
from tests.conformance.post.offices import PASSWORD, SENDER, SmtpKit, serving

pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")  # it is in TLS already


@pytest.fixture(scope="module")
def data() -> Iterator[Path]:
    with folder() as made:
        yield made


async def mail_test(data: Path, kit: SmtpKit, folder: Path, **more: str) -> Told:
    config = kit.config
    env = {
        "RIFT_DATA": str(data), "SSL_CERT_FILE": str(folder / "certificate.pem"), "Rift__Mail__Host": config.host,
        "Rift__Mail__Port": str(config.port), "Rift__Mail__Security": config.security, "Rift__Mail__Sender": SENDER,
        "Rift__Mail__User": "rift", "Rift__Mail__Password": PASSWORD, **more,
    }  # fmt: skip
    return await asyncio.to_thread(rift, "mail", "test", "ada@example.com", env=env)


async def test_a_trial_letter_goes_and_what_the_server_said_is_told(data: Path, tmp_path: Path) -> None:
    async with serving(tmp_path, "starttls", signing_in=True) as kit:
        told = await mail_test(data, kit, tmp_path)
        assert told.status == 0, told
        assert (
            told.out
            == f"localhost:{kit.config.port} took a letter to ada@example.com from {SENDER}; it said: queued as 42\n"
        )
        (got,) = kit.arrived()
    assert (got["To"], got["Subject"]) == ("ada@example.com", "A trial letter from Rift")


async def test_what_keeps_a_letter_from_going_is_told_without_the_password(data: Path, tmp_path: Path) -> None:
    async with serving(tmp_path, "starttls", signing_in=True) as kit:
        for more, words in (
            ({"Rift__Mail__Password": "a wrong password"}, "535"),
            ({"SSL_CERT_FILE": "/dev/null"}, "certificate"),
            ({"Rift__Mail__Security": "tls"}, "SSL"),
        ):
            told = await mail_test(data, kit, tmp_path, **more)
            assert (told.status, told.out) == (1, ""), told
            assert "The letter was not sent:" in told.err
            assert words in told.err
            assert not {"a wrong password", PASSWORD} & set(told.err.split("\n"))
            assert "a wrong password" not in told.err
        assert kit.arrived() == []
        told = await mail_test(data, kit, tmp_path, Rift__Mail__Security="none")
        assert "a password goes over no unprotected way" in told.err


def test_without_a_mail_server_the_settings_to_set_are_named(data: Path) -> None:
    told = rift("mail", "test", "ada@example.com", env={"RIFT_DATA": str(data)})
    assert told.status == 1
    assert "No mail server is set" in told.err
    assert "Rift:Mail:Host" in told.err
