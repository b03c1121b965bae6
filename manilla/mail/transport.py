"""The interface for sending emails through an SMTP server or the operator's program."""

from collections.abc import Sequence
from email.message import EmailMessage
from typing import Protocol

import msgspec

ERROR_LENGTH_MAX = 300


class MailAttachment(msgspec.Struct, frozen=True):
    name: str
    media_type: str
    content: bytes


class OutgoingMail(msgspec.Struct, frozen=True):
    kind: str
    recipient: str
    subject: str
    text: str
    html: str
    link: str
    message: EmailMessage
    attachments: Sequence[MailAttachment] = ()


class NotSent(Exception):
    """The message was not accepted. The error text says why, and contains no link."""

    is_final = False  # whether a retry is useless

    def __init__(self, text: str, *, is_final: bool = False) -> None:
        line = "".join(each if each.isprintable() else " " for each in text)
        super().__init__(line[:ERROR_LENGTH_MAX])
        self.is_final = is_final


class Transport(Protocol):
    name: str  # the transport's name on the system page, without credentials

    async def send(self, mail: OutgoingMail) -> None:
        """Sends the message within the transport's time limit, or raises NotSent."""
