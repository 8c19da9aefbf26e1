"""What every post does with a message."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.conformance.post.offices import SENDER, Kit

from keel.db import Database
from keel.testing.plugin import FreshDatabase
from rift.drivers.post.protocol import Message, MessageRefused, PostError

pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")  # it is in TLS already

AT = datetime(2026, 12, 1, 4, 5, 6, tzinfo=UTC)
PLAIN = Message("let_a.1", "ada@example.com", "Hello", "Good day.\n", "<p>Good day.</p>\n", AT, "grace@example.com")


async def test_a_message_arrives_with_its_headers_and_both_of_its_texts(kit: Kit) -> None:
    assert await kit.post.send(PLAIN)
    (got,) = kit.arrived()
    headers = {name: got[name] for name in ("From", "To", "Reply-To", "Subject", "Message-ID", "Auto-Submitted")}
    assert headers == {
        "From": f"Rift <{SENDER}>", "To": "ada@example.com", "Reply-To": "grace@example.com", "Subject": "Hello",
        "Message-ID": "<let_a.1@mail.example.com>", "Auto-Submitted": "auto-generated",
    }  # fmt: skip
    assert got["Date"].datetime == AT
    assert got.get_content_type() == "multipart/alternative"
    assert [part.get_content_type() for part in got.iter_parts()] == ["text/plain", "text/html"]
    assert [part.get_content().strip() for part in got.iter_parts()] == ["Good day.", "<p>Good day.</p>"]


async def test_letters_of_every_script_arrive_as_they_are(kit: Kit) -> None:
    message = replace(
        PLAIN, subject="Ada Müller — приглашает 招待 🙂", text="Grüße, 世界\n", html="<p>Grüße, 世界</p>\n"
    )
    await kit.post.send(message)
    (got,) = kit.arrived()
    assert got["Subject"] == message.subject
    assert [part.get_content().strip() for part in got.iter_parts()] == ["Grüße, 世界", "<p>Grüße, 世界</p>"]


@pytest.mark.parametrize("brk", ["\n", "\r\n", "\r", "\x0b", "\x0c", "\x85", "\u2028", "\u2029", "\x00", "\u202e"])
async def test_no_text_of_a_person_becomes_a_header(kit: Kit, brk: str) -> None:
    await kit.post.send(replace(PLAIN, subject=f"Hello{brk}Bcc: eve@example.com{brk}{brk}Read this"))
    (got,) = kit.arrived()
    assert got["Bcc"] is None
    assert got["Subject"].replace(" ", "") == "HelloBcc:eve@example.comReadthis"
    assert [part.get_content_type() for part in got.iter_parts()] == ["text/plain", "text/html"]


@pytest.mark.parametrize(
    "to",
    [
        "", "ada", "@example.com", "ada@", "ada@example.com, eve@example.com", "ada@example.com\r\nRCPT TO:<eve@b.c>",
        "<ada@example.com>", "ada@example.com>", "ada smith@example.com", '"ada"@example.com', "a@b@example.com",
        "ada@example.com SIZE=1", "ada@-.com", "ada@exa mple.com", "ada@m\u00fcller_.example", "ada\u202e@example.com",
    ],
)  # fmt: skip
async def test_what_is_no_address_is_refused_for_good_and_nothing_goes(kit: Kit, to: str) -> None:
    for message in (replace(PLAIN, to=to), replace(PLAIN, reply_to=to)):
        with pytest.raises(MessageRefused):
            await kit.post.send(message)
    assert kit.arrived() == []


async def test_a_host_with_an_international_name_is_written_as_servers_know_it(kit: Kit) -> None:
    await kit.post.send(replace(PLAIN, to="ada@straße.example", reply_to="grace@BÜCHER.example"))
    (got,) = kit.arrived()
    assert (got["To"], got["Reply-To"]) == ("ada@xn--strae-oqa.example", "grace@xn--bcher-kva.example")


async def test_an_address_that_the_server_does_not_take_is_told_as_refused_with_its_words(kit: Kit) -> None:
    kit.refuse("ada@example.com", "no such mailbox here")
    with pytest.raises(MessageRefused, match="no such mailbox here"):
        await kit.post.send(PLAIN)
    await kit.post.send(replace(PLAIN, to="grace@example.com"))
    assert [got["To"] for got in kit.arrived()] == ["grace@example.com"]


async def test_a_server_that_is_busy_is_no_refusal_of_the_message(kit: Kit) -> None:
    kit.away("come back later")
    with pytest.raises(PostError, match="come back later") as caught:
        await kit.post.send(PLAIN)
    assert not isinstance(caught.value, MessageRefused)


async def test_nothing_is_sent_inside_a_transaction(kit: Kit, database: FreshDatabase, tmp_path: Path) -> None:
    async with Database(database.runtime) as db, db.tx():
        with pytest.raises(RuntimeError, match="inside a database transaction"):
            await kit.post.send(PLAIN)
    assert kit.arrived() == []


async def test_a_text_of_any_size_and_line_length_arrives_whole(kit: Kit) -> None:
    text = "\n".join(["x" * 5000, ".", "..", "From here", "", "ä" * 3000]) + "\n"
    await kit.post.send(replace(PLAIN, text=text))
    (got,) = kit.arrived()
    assert next(got.iter_parts()).get_content() == text
