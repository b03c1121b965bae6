"""An SMTP server on this host whose behavior a test can set."""

import asyncio
import contextlib
import ssl
import warnings
from collections.abc import AsyncIterator
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword

from manilla.mail.server import SmtpServer
from manilla.mail.smtp import SmtpTransport

USER, PASSWORD = "relay", "a p@ssword"


class MailServer:
    """The emails that the server has received, and the responses that it will send."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, EmailMessage]] = []
        # The server sends these responses to the next RCPT commands.
        self.recipient_answers: list[str] = []
        self.data_answers: list[str] = []
        self.hangs = asyncio.Event()
        self.offers = 0  # the number of recipients that clients have sent
        self.port = 0

    def to(self, recipient: str) -> list[EmailMessage]:
        return [message for address, message in self.messages if address == recipient]

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's name
        self, _server: Any, _session: Any, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        self.offers += 1
        if self.recipient_answers:
            return self.recipient_answers.pop(0)
        envelope.rcpt_tos.append(address)
        envelope.rcpt_options.extend(options)
        return "250 OK"

    async def handle_DATA(  # noqa: N802
        self, _server: Any, _session: Any, envelope: Envelope
    ) -> str:
        if self.hangs.is_set():
            await asyncio.sleep(3600)
        if self.data_answers:
            return self.data_answers.pop(0)
        assert isinstance(envelope.content, bytes)
        message = message_from_bytes(envelope.content, policy=policy.SMTPUTF8)
        assert isinstance(message, EmailMessage)
        self.messages += [(address, message) for address in envelope.rcpt_tos]
        return "250 OK"


def _authenticate(
    _server: Any, _session: Any, _envelope: Any, _mechanism: str, login: LoginPassword
) -> AuthResult:
    right = (login.login, login.password) == (USER.encode(), PASSWORD.encode())
    return AuthResult(success=right, handled=False)


@contextlib.asynccontextmanager
async def mail_server(
    starttls: ssl.SSLContext | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[MailServer]:
    """Runs a mail server. With a certificate, the server requires TLS and authentication."""
    state, is_secure = MailServer(), starttls is not None or tls is not None

    def protocol() -> SMTP:
        with warnings.catch_warnings():
            # The library warns because it cannot detect TLS on the connection.
            warnings.simplefilter("ignore")
            return SMTP(
                state,
                hostname="mail.test",
                enable_SMTPUTF8=True,
                tls_context=starttls,
                require_starttls=starttls is not None,
                authenticator=_authenticate if is_secure else None,
                auth_required=is_secure,
                auth_require_tls=starttls is not None,
            )

    loop = asyncio.get_running_loop()
    listening = await loop.create_server(protocol, "127.0.0.1", 0, ssl=tls)
    state.port = listening.sockets[0].getsockname()[1]
    try:
        yield state
    finally:
        listening.close()


def plain_transport(port: int) -> SmtpTransport:
    return SmtpTransport(SmtpServer("smtp", "127.0.0.1", port, None, None))
