"""Passes emails to the operator's mail hook, a program that sends them."""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from enum import StrEnum

import msgspec
import structlog

from manilla.kit import deadline
from manilla.kit.errors import Refusal

log = structlog.get_logger(__name__)

TIMEOUT_SECONDS = 10.0
AT_ONCE = 16


class MailKind(StrEnum):
    RESET = "reset"
    INVITATION = "invitation"
    KEYS_ROTATED = "keys_rotated"


class Email(msgspec.Struct, frozen=True, omit_defaults=True):
    """The JSON document that the program reads from standard input."""

    kind: MailKind
    email: str
    link: str
    text: str = ""  # sentence about the event, if the kind of email does not state it


Write = Callable[[], Awaitable[Email | None]]


class Mailer:
    """Runs the mail hook. Without a hook nothing is sent, and pages say to ask the operator."""

    def __init__(self, hook: str | None, *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._hook = hook
        self._timeout_seconds = timeout_seconds
        self._under_way: set[asyncio.Task[bool]] = set()

    @property
    def is_open(self) -> bool:
        return self._hook is not None

    def send_later(self, letter: Email) -> None:
        """Sends in the background, so that the caller does not wait for the program."""

        async def written() -> Email:
            return letter

        self.write_later(letter.kind, written)

    def write_later(self, kind: MailKind, write: Write) -> None:
        """Builds and sends the email in the background.

        The response then takes equally long for known and unknown email addresses.
        """
        if self._hook is None or len(self._under_way) >= AT_ONCE:
            log.warning("letter_not_sent", kind=kind, hook=self._hook)
            return
        task = deadline.detached(self._write_and_send(kind, write))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _write_and_send(self, kind: MailKind, write: Write) -> bool:
        try:
            letter = await write()
        except Refusal as refusal:  # for example, the database is unavailable
            log.warning("letter_not_sent", kind=kind, hook=self._hook, why=refusal.code)
            return False
        return letter is not None and await self.send(letter)

    async def close(self) -> None:
        """Waits for emails that are being sent."""
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def send(self, letter: Email) -> bool:
        """Sends an email.

        Returns whether the program accepted it (exit 0). Links are never logged.
        """
        if self._hook is None:
            return False
        try:
            async with asyncio.timeout(self._timeout_seconds):
                status = await _run(self._hook, msgspec.json.encode(letter))
        except TimeoutError:
            log.warning("letter_not_sent", kind=letter.kind, hook=self._hook, why="timeout")
            return False
        except OSError as error:
            log.warning("letter_not_sent", kind=letter.kind, hook=self._hook, why=error.strerror)
            return False
        log.info("letter_handed_over", kind=letter.kind, hook=self._hook, status=status)
        return status == 0


async def _run(program: str, document: bytes) -> int:
    """Runs the program without a shell, and without our own settings in its environment."""
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
