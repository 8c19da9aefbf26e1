"""Letters by SMTP (RFC 5321), each over a connection of its own, in TLS unless it was decided otherwise."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import EmailMessage
from typing import Literal

import aiosmtplib

from rift.drivers.boxes.protocol import outside_transactions
from rift.drivers.post.composing import address, composed
from rift.drivers.post.protocol import Message, MessageRefused, PostError, one_line

SECONDS = 45.0
"""The longest that one message may take, whatever its server does."""
STEP_SECONDS = 15.0
REASON_MOST = 500


@dataclass(frozen=True, slots=True)
class SmtpConfig:
    """Which server, and how it is spoken to."""

    host: str
    port: int
    security: Literal["starttls", "tls", "none"]
    user: str | None
    password: str | None = field(repr=False)
    sender: str
    """The address that letters come from."""
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    """How its certificate is checked; without it, by the authorities that this machine trusts."""
    seconds: float = SECONDS


class SmtpPost:
    """The server's certificate and name are checked; a password goes to no server whose way is not protected."""

    kind = "smtp"

    def __init__(self, config: SmtpConfig) -> None:
        self._config = config
        self._tls = (config.tls or ssl.create_default_context()) if config.security != "none" else None

    @outside_transactions
    async def send(self, message: Message) -> str:
        made = composed(message, self._config.sender)
        try:
            async with asyncio.timeout(self._config.seconds):
                return await self._sent(made["To"].addresses[0].addr_spec, made)
        except TimeoutError as error:  # aiosmtplib's too
            raise PostError(self._reason(f"the server took too long: {error}".rstrip(": "))) from error
        except PostError:
            raise
        except (aiosmtplib.SMTPException, OSError, ValueError) as error:
            raise PostError(self._reason(str(error))) from error

    async def _sent(self, to: str, made: EmailMessage) -> str:
        config = self._config
        sender = address(config.sender)
        client = aiosmtplib.SMTP(
            hostname=config.host, port=config.port, use_tls=config.security == "tls",
            start_tls=config.security == "starttls", tls_context=self._tls, timeout=min(STEP_SECONDS, config.seconds),
            local_hostname=sender.rpartition("@")[2],
        )  # fmt: skip
        try:
            await client.connect()
            if config.user is not None:
                if client.get_transport_info("sslcontext") is None:
                    raise PostError("the way to the server is not protected, and a password does not go over it")
                await client.ehlo()
                # One way alone where it can be: a server that has had enough of the first would hide why it said no.
                sign_in = client.auth_plain if "plain" in client.server_auth_methods else client.login
                await sign_in(config.user, config.password or "")
            _, said = await client.send_message(made, sender=sender, recipients=[to])
        except aiosmtplib.SMTPRecipientsRefused as error:
            raise self._told([(one.code, one.message) for one in error.recipients]) from error
        except aiosmtplib.SMTPDataError as error:
            raise self._told([(error.code, error.message)]) from error
        except aiosmtplib.SMTPNotSupported as error:
            raise MessageRefused(self._reason(str(error))) from error
        except aiosmtplib.SMTPResponseException as error:  # of us, not of the message: the settings can be mended
            raise PostError(self._reason(f"{error.code} {error.message}")) from error
        else:
            with suppress(aiosmtplib.SMTPException, OSError):  # it has the message: how we part does not matter
                await client.quit()
            return self._reason(said)
        finally:
            client.close()

    def _told(self, answers: list[tuple[int, str]]) -> PostError:
        """What a server said to a message: for good where it begins with 5 (RFC 5321, 4.2.1)."""
        reason = self._reason("; ".join(f"{code} {message}" for code, message in answers))
        return (MessageRefused if answers and all(code >= 500 for code, _ in answers) else PostError)(reason)

    def _reason(self, text: str) -> str:
        """Words of a server's, fit to be kept and shown."""
        password = self._config.password
        return one_line(text.replace(password, "***") if password else text)[:REASON_MOST]
