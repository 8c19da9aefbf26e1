"""A post office in memory: a test reads what was sent, and says what is refused."""

from __future__ import annotations

from email import message_from_bytes, policy
from email.message import EmailMessage

from rift.drivers.boxes.protocol import outside_transactions
from rift.drivers.post.composing import address, composed
from rift.drivers.post.protocol import Message, MessageRefused, PostError


class FakePost:
    """`sent` is every message as its reader gets it; `refused` are `{address: why}`; `away` is why nothing goes."""

    kind = "fake"

    def __init__(self, sender: str = "rift@example.com") -> None:
        self.sender = sender
        self.sent: list[EmailMessage] = []
        self.refused: dict[str, str] = {}
        self.away: str | None = None

    @outside_transactions
    async def send(self, message: Message) -> str:
        if self.away is not None:
            raise PostError(self.away)
        made = composed(message, self.sender)
        if why := self.refused.get(address(message.to)):
            raise MessageRefused(why)
        travelled = message_from_bytes(made.as_bytes(policy=policy.SMTPUTF8), _class=EmailMessage, policy=policy.SMTP)
        self.sent.append(travelled)
        return "taken"
