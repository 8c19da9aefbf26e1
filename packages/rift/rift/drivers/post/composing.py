"""A message as it travels (RFC 5322): its headers, and its text in two forms."""

from __future__ import annotations

import re
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime

import idna

from rift.drivers.post.protocol import Message, MessageRefused, one_line

SUBJECT_MOST = 200
NAME = "Rift"
"""Who a letter is from, beside the address."""

_HOST = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")


def composed(message: Message, sender: str) -> EmailMessage:
    """The message with all its headers. Raises MessageRefused where an address is none."""
    made = EmailMessage()
    from_address = address(sender)
    made["From"] = _header(from_address, NAME)
    made["To"] = _header(address(message.to))
    if message.reply_to is not None:
        made["Reply-To"] = _header(address(message.reply_to))
    made["Subject"] = one_line(message.subject)[:SUBJECT_MOST]
    made["Date"] = format_datetime(message.at)
    made["Message-ID"] = f"<{message.id}@{from_address.rpartition('@')[2]}>"
    made["Auto-Submitted"] = "auto-generated"  # RFC 3834: no answering machine answers it
    made.set_content(message.text)
    made.add_alternative(message.html, subtype="html")
    return made


def address(text: str) -> str:
    """An address as servers know it: its host in ASCII (RFC 5891). Raises MessageRefused where it is none."""
    local, at, host = text.strip().rpartition("@")
    if not local or not at or not host or one_line(text.strip()) != text.strip() or set(local) & set(' ,;:<>()[]\\"@'):
        raise MessageRefused(f"{one_line(text)[:100]!r} is not an email address")
    try:
        known = host.lower() if host.isascii() else idna.encode(host, uts46=True).decode()
    except idna.IDNAError:
        known = ""
    if not _HOST.fullmatch(known):
        raise MessageRefused(f"{one_line(host)[:100]!r} is not a host name")
    return f"{local}@{known}"


def _header(address: str, name: str = "") -> Address:
    local, _, host = address.rpartition("@")
    return Address(name, local, host)
