"""Renders emails from templates. A template contains the subject, plain text and HTML."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP, SMTPUTF8
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jinja2
import msgspec

from manilla.kit.crypto import Keyring
from manilla.languages import language as languages
from manilla.languages.language import CustomerLanguage
from manilla.mail import choices, outbox
from manilla.mail.kinds import RULES, Audience, MailKind
from manilla.mail.queries import Mail
from manilla.mail.server import Sender, header_text
from manilla.mail.transport import MailAttachment, NotSent, OutgoingMail

TEMPLATES = Path(str(resources.files("manilla.mail"))) / "templates"
SHOWN_MAX = 20  # maximum number of events that one message lists
SUBJECT_LENGTH_MAX = 150
_FOLD = re.compile(rb"\r\n[ \t]")  # a line break after which the same header continues


class MailContent(msgspec.Struct, frozen=True):
    """The content of a message, as shown to the recipient."""

    subject: str
    text: str
    html: str
    link: str
    unsubscribe_url: str | None


class LetterWriter:
    """Renders emails with the name, URL and sender address of this installation."""

    def __init__(
        self,
        keyring: Keyring,
        site_name: Callable[[], str],
        base_url: str,
        sender: Sender,
        way_url: Callable[[str, datetime], str] | None = None,
    ) -> None:
        self._way_url = way_url
        self._keyring = keyring
        self._site_name = site_name
        self._base_url = base_url
        self._sender = sender

    def write(
        self, mails: Sequence[Mail], attachments: Sequence[MailAttachment] = ()
    ) -> OutgoingMail:
        """Combines emails of one kind to the same recipient into one message."""
        content, first = self.content(mails), mails[0]
        try:
            message = self._message(first, content)
        except ValueError:  # the address was stored when validation rules were different
            raise NotSent("the address cannot be used", is_final=True) from None
        for each in attachments:
            maintype, _, subtype = each.media_type.partition("/")
            message.add_attachment(
                each.content, maintype=maintype, subtype=subtype, filename=each.name
            )
        _check_headers(message)
        return OutgoingMail(
            kind=first.kind,
            recipient=first.recipient,
            subject=content.subject,
            text=content.text,
            html=content.html,
            link=content.link,
            message=message,
            attachments=attachments,
        )

    def content(self, mails: Sequence[Mail]) -> MailContent:
        first = mails[0]
        facts = [mail.shown_facts for mail in mails]
        link = self._base_url + self._path(first)
        unsubscribe_url = choices.unsubscribe_url(self._keyring, self._base_url, first)
        language = languages.find(facts[0].get("language"))
        values = {
            **facts[0],
            "shown": facts[:SHOWN_MAX],
            "more": max(len(facts) - SHOWN_MAX, 0),
            "count": len(facts),
            "link": link,
            "unsubscribe_url": unsubscribe_url,
            "choices_url": self._base_url + choices.PATHS[_realm(first)],
            "rule": RULES[MailKind(first.kind)],
            "site_name": self._site_name(),
            "base_url": self._base_url,
            "way_url": self._link_to_way(facts[0]),
            "language": language,
        }
        name = f"{first.kind}.jinja"
        as_text, as_html = (_environment(language, is_html=each) for each in (False, True))
        subject = _render(as_text, name, "subject.jinja", values)
        return MailContent(
            subject=header_text(subject)[:SUBJECT_LENGTH_MAX],
            text=_render(as_text, name, "layout.txt", values).strip() + "\n",
            html=_render(as_html, name, "layout.html", values),
            link=link,
            unsubscribe_url=unsubscribe_url,
        )

    def _link_to_way(self, facts: Mapping[str, str]) -> str:
        """Returns the link with which a customer revokes the saved way of a paid payment."""
        expires_at = facts.get("way")
        if not expires_at or self._way_url is None:
            return ""
        return self._way_url(facts["trx_id"], datetime.fromisoformat(expires_at))

    def _path(self, mail: Mail) -> str:
        if mail.sealed is None:
            return mail.path
        row = {"merchant_id": mail.merchant_id, "id": mail.id}
        return self._keyring.open(mail.sealed, outbox.context(row)).decode()

    def _message(self, mail: Mail, content: MailContent) -> EmailMessage:
        """Builds the message.

        Headers and content are the same for every attempt, so that a receiver can recognize a
        duplicate.
        """
        message = EmailMessage(policy=SMTP)
        message["From"] = self._sender.header(self._site_name())
        username, _, domain = ascii_domain(mail.recipient).rpartition("@")
        if header_text(mail.recipient) != mail.recipient:
            raise ValueError("the library would decode the address")
        message["To"] = Address(username=username, domain=domain)
        message["Subject"] = content.subject
        message["Date"] = mail.created_at
        host = urlsplit(self._base_url).hostname or "localhost"
        message["Message-ID"] = f"<mail-{mail.merchant_id}-{mail.id}@{host}>"
        message["Auto-Submitted"] = "auto-generated"
        if content.unsubscribe_url:
            message["List-Unsubscribe"] = f"<{content.unsubscribe_url}>"
            message["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
        message.set_content(content.text)
        message.add_alternative(content.html, subtype="html")
        return message


def _check_headers(message: EmailMessage) -> None:
    """Checks that each header of the message is written as one header.

    CPython before 3.11.10 and 3.12.5 writes line breaks in headers without a check (CVE-2024-6923).
    """
    for part in message.walk():
        for name, value in part.raw_items():
            for policy in (SMTP, SMTPUTF8):
                line = _FOLD.sub(b" ", policy.fold_binary(name, value).removesuffix(b"\r\n"))
                if b"\r" in line or b"\n" in line:
                    raise NotSent(f"the header {name} contains a line break", is_final=True)


def ascii_domain(address: str) -> str:
    """Returns the email address with its domain in ASCII, which every mail server supports."""
    local, _, domain = address.rpartition("@")
    try:
        return f"{local}@{domain.encode('idna').decode()}"
    except UnicodeError:
        return address


def _realm(mail: Mail) -> str:
    is_console = RULES[MailKind(mail.kind)].audience is Audience.CONSOLE
    return "console" if is_console else "dashboard"


@cache
def _environment(language: CustomerLanguage, *, is_html: bool) -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=is_html,  # noqa: S701 - plain text has nothing to escape
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    language.install(made)
    parts = made.get_template("parts.html" if is_html else "parts.txt").module
    for name in ("p", "facts", "button"):
        made.globals[name] = getattr(parts, name)
    return made


def _render(
    environment: jinja2.Environment, name: str, layout: str, values: Mapping[str, Any]
) -> str:
    return environment.get_template(name).render({**values, "layout": layout})
