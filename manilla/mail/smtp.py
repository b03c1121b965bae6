"""Sends emails through an SMTP server, over TLS with a verified certificate."""

import asyncio
import ssl
from functools import cached_property

import aiosmtplib

from manilla.kit import time_limits
from manilla.mail.letter import ascii_domain
from manilla.mail.server import SmtpServer
from manilla.mail.transport import NotSent, OutgoingMail


class SmtpTransport:
    def __init__(
        self,
        server: SmtpServer,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.name = repr(server)
        self._server = server
        self._given_tls = tls

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        """Creates the TLS context on first use, because its certificates use much memory."""
        return self._given_tls or ssl.create_default_context()

    async def send(self, mail: OutgoingMail) -> None:
        try:
            async with asyncio.timeout(time_limits.current.smtp_seconds):
                await self._exchange(mail)
        except TimeoutError:
            raise NotSent("the mail server did not respond in time") from None

    async def _exchange(self, mail: OutgoingMail) -> None:
        server = self._server
        client = aiosmtplib.SMTP(
            hostname=server.host,
            port=server.port,
            use_tls=server.scheme == "smtps",
            start_tls=server.scheme == "smtp+starttls",
            tls_context=self._tls if server.scheme != "smtp" else None,
            username=server.user,
            password=server.password,
            timeout=time_limits.current.smtp_step_seconds,
        )
        # A rejection before the message is sent may be caused by a misconfigured server, so retry.
        try:
            await client.connect()
        except aiosmtplib.SMTPTimeoutError:
            raise TimeoutError from None
        except (aiosmtplib.SMTPException, OSError) as error:
            raise NotSent(f"the mail server cannot be used: {_text(error)}") from None
        try:
            await client.send_message(mail.message, recipients=[ascii_domain(mail.recipient)])
        except aiosmtplib.SMTPTimeoutError:
            raise TimeoutError from None
        except aiosmtplib.SMTPRecipientsRefused as refused:
            first = refused.recipients[0]
            raise _not_sent(first.code, first.message) from None
        except aiosmtplib.SMTPResponseException as error:
            raise _not_sent(error.code, error.message) from None
        except aiosmtplib.SMTPNotSupported:
            text = "the mail server cannot send to an address with such characters"
            raise NotSent(text, is_final=True) from None
        except (aiosmtplib.SMTPException, OSError) as error:
            raise NotSent(f"the mail server failed: {_text(error)}") from None
        finally:
            client.close()


def _not_sent(code: int, message: str) -> NotSent:
    """Returns the error for an SMTP reply. Errors with a code of 500 or higher are not retried."""
    return NotSent(f"the mail server rejected the email: {code} {message}", is_final=code >= 500)


def _text(error: Exception) -> str:
    if isinstance(error, aiosmtplib.SMTPResponseException):
        return f"{error.code} {error.message}"
    return str(error) or type(error).__name__
