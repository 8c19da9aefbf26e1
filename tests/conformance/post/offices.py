"""Mail servers of the test's own: what they were given, and what they say no to."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any, Literal, Protocol

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from tests.conformance.onbe_keys.tls import certificate

from rift.drivers.post.fake import FakePost
from rift.drivers.post.protocol import Post
from rift.drivers.post.smtp import SmtpConfig, SmtpPost

SENDER = "rift@mail.example.com"
PASSWORD = "a password of the mail server's"
Security = Literal["starttls", "tls", "none"]


class Kit(Protocol):
    """A post, what arrived by it, and how a test has it refuse."""

    post: Post

    def arrived(self) -> list[EmailMessage]: ...
    def refuse(self, address: str, why: str) -> None: ...
    def away(self, why: str) -> None: ...


class FakeKit:
    """In memory."""

    def __init__(self) -> None:
        self.fake = FakePost(SENDER)
        self.post: Post = self.fake

    def arrived(self) -> list[EmailMessage]:
        return self.fake.sent

    def refuse(self, address: str, why: str) -> None:
        self.fake.refused[address] = why

    def away(self, why: str) -> None:
        self.fake.away = why


class Office:
    """A handler of aiosmtpd's: keeps what it is given."""

    def __init__(self) -> None:
        self.given: list[Envelope] = []
        self.sessions: list[Session] = []
        self.signed_in: list[str] = []
        self.refused: dict[str, str] = {}
        self.busy: str | None = None
        self.content: str | None = None
        self.sender: str | None = None
        self.stuck: asyncio.Event | None = None
        self.waiting = 0

    def check(self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, given: Any) -> AuthResult:
        assert isinstance(given, LoginPassword)
        assert server.transport is not None
        assert server.transport.get_extra_info("sslcontext"), "a password came over a way that is not protected"
        self.signed_in.append(given.login.decode())
        return AuthResult(success=given.password.decode() == PASSWORD, handled=False)

    async def handle_MAIL(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if self.sender is not None:
            return self.sender
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return "250 OK"

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if self.stuck is not None:
            self.waiting += 1
            await self.stuck.wait()
            self.waiting -= 1
        if self.busy is not None:
            return f"451 {self.busy}"
        if address in self.refused:
            return f"550 {self.refused[address]}"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        if self.content is not None:
            return self.content
        self.given.append(envelope)
        self.sessions.append(session)
        return "250 queued as 42"


class SmtpKit:
    """A real server on this machine, and the driver that speaks to it."""

    def __init__(self, office: Office, config: SmtpConfig) -> None:
        self.office = office
        self.config = config
        self.post: Post = SmtpPost(config)

    def arrived(self) -> list[EmailMessage]:
        return [
            message_from_bytes(one.original_content or b"", _class=EmailMessage, policy=policy.SMTP)
            for one in self.office.given
        ]

    def refuse(self, address: str, why: str) -> None:
        self.office.refused[address] = why

    def away(self, why: str) -> None:
        self.office.busy = why


@asynccontextmanager
async def serving(
    folder: Path, security: Security, *, signing_in: bool = False, name: str = "localhost", utf8: bool = False,
    offer_starttls: bool = True,
) -> AsyncIterator[SmtpKit]:  # fmt: skip
    """A server with a certificate for `name`, which the driver's machine trusts."""
    files = certificate(folder, name)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(files.ca, files.key)
    office = Office()
    more: dict[str, Any] = {}
    if signing_in:
        more |= {"authenticator": office.check, "auth_required": True, "auth_require_tls": security != "tls"}
    if security == "starttls" and offer_starttls:
        more |= {"tls_context": tls, "require_starttls": True}

    def made() -> SMTP:
        return SMTP(office, hostname="localhost", enable_SMTPUTF8=utf8, timeout=5, **more)

    server = await asyncio.get_running_loop().create_server(
        made, "127.0.0.1", 0, ssl=tls if security == "tls" else None
    )
    port = server.sockets[0].getsockname()[1]
    trusting = ssl.create_default_context(cafile=str(files.ca))
    user, password = ("rift", PASSWORD) if signing_in else (None, None)
    try:
        yield SmtpKit(office, SmtpConfig("localhost", port, security, user, password, SENDER, trusting))
    finally:
        if office.stuck is not None:
            office.stuck.set()
        server.close()


def to_loopback(port: int, security: Security) -> SmtpConfig:
    """How the driver speaks to something on this machine."""
    return SmtpConfig("127.0.0.1", port, security, None, None, SENDER, seconds=0.5)
