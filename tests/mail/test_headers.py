"""Names from strangers stay text inside one header, whichever Python builds the email."""

from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage

import msgspec
import pytest

from manilla.kit.crypto import Keyring
from manilla.kit.texts import is_email
from manilla.mail.kinds import RULES, MailKind
from manilla.mail.letter import LetterWriter
from manilla.mail.queries import Mail
from manilla.mail.server import Sender
from manilla.mail.transport import NotSent, OutgoingMail
from tests.mail.mail_server import mail_server, plain_transport

RECIPIENT = "ada@example.com"
# RFC 2047 encoded words for "x\r\nContent-Type: text/html\r\n\r\n<h1>x" and for "x\r\nBcc: a@b.co".
PAGE = "=?utf-8?q?x=0D=0AContent-Type:=20text/html=0D=0A=0D=0A<h1>x?="
COPY = "=?utf-8?b?eA0KQmNjOiBhQGIuY28=?="
HOSTILE = [PAGE, COPY, f"Ada {COPY}", f'"{COPY}"', "=" + COPY + "?", f"Ọjà {COPY}", COPY * 9]
HEADERS = {
    *("From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted"),
    *("List-Unsubscribe", "List-Unsubscribe-Post", "MIME-Version", "Content-Type"),
}


def letter(
    keyring: Keyring, kind: MailKind, text: str, *, site_name: str = "Pay", to: str = RECIPIENT
) -> OutgoingMail:
    sender = Sender("pay@example.com")
    writer = LetterWriter(keyring, lambda: site_name, "https://pay.example.com", sender)
    facts = msgspec.json.encode(dict.fromkeys(RULES[kind].facts, text)).decode()
    mail = Mail(1, 1, kind, 1, to, facts, "/", None, None, 0, datetime.now(UTC))
    return writer.write([mail])


async def test_no_kind_of_email_gets_a_header_or_content_from_a_name(keyring: Keyring) -> None:
    async with mail_server() as server:
        for kind in MailKind:
            for name in HOSTILE[:2]:
                await plain_transport(server.port).send(letter(keyring, kind, name, site_name=name))
    assert len(server.messages) == len(MailKind) * 2
    for _, message in server.messages:
        assert_is_intact(message)


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_name_that_looks_encoded_is_shown_as_it_is(keyring: Keyring, name: str) -> None:
    invitation = letter(keyring, MailKind.INVITATION, name, site_name=name)
    async with mail_server() as server:
        await plain_transport(server.port).send(invitation)
    [(_, message)] = server.messages
    assert_is_intact(message)
    shown = name.replace("=?", "= ?")
    assert message["Subject"].strip() == f"Invitation to {shown}"[:150] == invitation.subject
    [sender] = message["From"].addresses
    assert (sender.display_name, sender.addr_spec) == (shown, "pay@example.com")


def assert_is_intact(message: EmailMessage) -> None:
    assert set(message.keys()) <= HEADERS
    assert len(message.keys()) == len(set(message.keys()))
    assert message.get_content_type() == "multipart/alternative"
    assert [part.get_content_type() for part in message.iter_parts()] == ["text/plain", "text/html"]


def test_an_address_that_looks_encoded_is_rejected(keyring: Keyring) -> None:
    address = "=?utf-8?q?x=0D=0ABcc=3Aa?=@example.com"
    assert not is_email(address)
    with pytest.raises(NotSent) as caught:  # an older version may have stored such an address
        letter(keyring, MailKind.INVITATION, "Ada", to=address)
    assert caught.value.is_final


def test_a_header_that_would_be_written_as_two_is_not_sent(
    keyring: Keyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last check: it does not depend on how the header's text was cleaned."""
    lines = "x\r\nBcc: a@b.co"
    monkeypatch.setattr(Sender, "header", lambda *_: Address(lines, "pay", "example.com"))
    with pytest.raises(NotSent) as caught:
        letter(keyring, MailKind.TEST, "")
    assert caught.value.is_final
