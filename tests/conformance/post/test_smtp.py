"""What a mail server may do to us, and what is never done for it."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conformance.post.offices import PASSWORD, Security, serving, to_loopback
from tests.conformance.post.test_posts import PLAIN

from rift.drivers.post.protocol import MessageRefused, PostError
from rift.drivers.post.smtp import SmtpPost

pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")  # it is in TLS already

WAYS: tuple[Security, ...] = ("none", "starttls", "tls")


async def test_letters_go_in_tls_with_the_password_and_to_nobody_else(tmp_path: Path) -> None:
    async with serving(tmp_path, "starttls", signing_in=True) as kit:
        await kit.post.send(PLAIN)
    (envelope,), (session,) = kit.office.given, kit.office.sessions
    assert session.ssl is not None
    assert kit.office.signed_in == ["rift"]
    assert (envelope.mail_from, envelope.rcpt_tos) == ("rift@mail.example.com", ["ada@example.com"])


@pytest.mark.parametrize("security", ["starttls", "tls"])
async def test_a_server_with_a_certificate_for_another_name_gets_nothing(tmp_path: Path, security: Security) -> None:
    async with serving(tmp_path, security, signing_in=True, name="other.example") as kit:
        with pytest.raises(PostError, match=r"(?i)certificate"):
            await kit.post.send(PLAIN)
    assert (kit.office.given, kit.office.signed_in) == ([], [])


@pytest.mark.parametrize("security", ["starttls", "tls"])
async def test_a_server_whose_certificate_nobody_vouches_for_gets_nothing(tmp_path: Path, security: Security) -> None:
    async with serving(tmp_path, security, signing_in=True) as kit:
        with pytest.raises(PostError, match=r"(?i)certificate"):
            await SmtpPost(replace(kit.config, tls=None)).send(PLAIN)
    assert (kit.office.given, kit.office.signed_in) == ([], [])


async def test_a_server_that_offers_no_tls_where_it_should_gets_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path, "starttls", offer_starttls=False) as kit:
        with pytest.raises(PostError, match="STARTTLS"):
            await kit.post.send(PLAIN)
    assert kit.office.given == []


async def test_a_password_never_goes_over_an_unprotected_way(tmp_path: Path) -> None:
    async with serving(tmp_path, "none") as kit:
        with pytest.raises(PostError, match="not protected"):
            await SmtpPost(replace(kit.config, user="rift", password=PASSWORD)).send(PLAIN)
    assert kit.office.given == []


async def test_a_wrong_password_is_told_without_it_and_does_not_end_the_letter(tmp_path: Path) -> None:
    async with serving(tmp_path, "starttls", signing_in=True) as kit:
        with pytest.raises(PostError, match="535") as caught:
            await SmtpPost(replace(kit.config, password="a wrong one")).send(PLAIN)
    assert "a wrong one" not in caught.value.reason
    assert not isinstance(caught.value, MessageRefused)


async def test_what_the_server_says_never_holds_our_password_nor_a_second_line(tmp_path: Path) -> None:
    async with serving(tmp_path, "tls", signing_in=True) as kit:
        kit.office.content = f"554-no\r\n554-{PASSWORD}\r\n554 \x1b[31m{'x' * 2000}"
        with pytest.raises(MessageRefused) as caught:
            await kit.post.send(PLAIN)
    assert PASSWORD not in caught.value.reason
    assert caught.value.reason.isprintable()
    assert len(caught.value.reason) <= 500


async def test_a_refused_sender_is_a_matter_of_settings_and_can_be_mended(tmp_path: Path) -> None:
    async with serving(tmp_path, "none") as kit:
        kit.office.sender = "550 not your address"
        with pytest.raises(PostError, match="not your address") as caught:
            await kit.post.send(PLAIN)
    assert not isinstance(caught.value, MessageRefused)


async def test_a_server_that_answers_nothing_holds_us_for_a_while_and_no_longer(tmp_path: Path) -> None:
    async with serving(tmp_path, "none") as kit:
        kit.office.stuck = asyncio.Event()
        with pytest.raises(PostError, match="too long"):
            await SmtpPost(replace(kit.config, seconds=0.3)).send(PLAIN)


async def test_a_server_that_says_nothing_at_all_holds_us_for_a_while_and_no_longer() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        for security in WAYS:
            with pytest.raises(PostError):
                await SmtpPost(to_loopback(port, security)).send(PLAIN)


async def test_a_server_that_is_not_there_is_told_as_away() -> None:
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    with pytest.raises(PostError, match=r"127\.0\.0\.1"):
        await SmtpPost(to_loopback(port, "none")).send(PLAIN)


@pytest.mark.parametrize("greeting", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"554 go away\r\n", b"\x00" * 4096, b"220"])
async def test_what_is_no_mail_server_is_told_as_away(greeting: bytes) -> None:
    async def odd(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(odd, "127.0.0.1", 0)
    async with server:
        with pytest.raises(PostError) as caught:
            await SmtpPost(to_loopback(server.sockets[0].getsockname()[1], "none")).send(PLAIN)
    assert not isinstance(caught.value, MessageRefused)
    assert caught.value.reason.isprintable()


async def test_an_address_beyond_ascii_goes_where_the_server_knows_such(tmp_path: Path) -> None:
    message = replace(PLAIN, to="ädä@example.com")
    async with serving(tmp_path, "none", utf8=True) as kit:
        await kit.post.send(message)
        assert [got.rcpt_tos for got in kit.office.given] == [["ädä@example.com"]]
    async with serving(tmp_path, "none") as kit:
        with pytest.raises(MessageRefused, match="SMTPUTF8"):
            await kit.post.send(message)
        assert kit.office.given == []


def test_a_certificate_is_checked_where_no_context_is_given() -> None:
    for security in WAYS[1:]:
        made = SmtpPost(to_loopback(587, security))._tls
        assert made is not None
        assert (made.verify_mode, made.check_hostname) == (ssl.CERT_REQUIRED, True)
