"""Passes emails to the mail hook: the operator's own program for sending emails."""

import asyncio
import contextlib
import os
from collections.abc import Sequence

import msgspec

from manilla.kit import time_limits
from manilla.mail.transport import MailAttachment, NotSent, OutgoingMail


class HookDocument(msgspec.Struct, frozen=True):
    """The JSON document that the mail hook reads from standard input."""

    kind: str
    email: str
    link: str
    subject: str
    text: str
    html: str
    message_id: str
    attachments: Sequence[MailAttachment]  # the attachments, with contents encoded in Base64


class HookTransport:
    name = "mail hook"

    def __init__(self, program: str) -> None:
        self._program = program

    async def send(self, mail: OutgoingMail) -> None:
        """Runs the mail hook. Exit status 0 means that the mail hook has accepted the email."""
        document = HookDocument(
            kind=mail.kind,
            email=mail.recipient,
            link=mail.link,
            subject=mail.subject,
            text=mail.text,
            html=mail.html,
            message_id=str(mail.message["Message-ID"]),
            attachments=mail.attachments,
        )
        try:
            async with asyncio.timeout(time_limits.current.mail_hook_seconds):
                status = await _run(self._program, msgspec.json.encode(document))
        except TimeoutError:
            raise NotSent("the mail hook did not end in time") from None
        except OSError as error:
            raise NotSent(f"the mail hook cannot be run: {error.strerror}") from None
        if status != 0:
            raise NotSent(f"the mail hook ended with status {status}")


async def _run(program: str, document: bytes) -> int:
    """Runs the mail hook without a shell. Our own environment variables are not passed to it."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MANILLA_")}
    process = await asyncio.create_subprocess_exec(
        program,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        env=environment,
    )
    try:
        await process.communicate(document)
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    assert process.returncode is not None
    return process.returncode
