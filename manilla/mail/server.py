"""Parses the SMTP server in MANILLA_SMTP_URL and the sender in MANILLA_MAIL_FROM."""

import ipaddress
from email.headerregistry import Address
from email.utils import parseaddr
from urllib.parse import unquote, urlsplit

import msgspec

from manilla.kit.texts import has_controls, is_email

PORTS = {"smtp+starttls": 587, "smtps": 465, "smtp": 25}


class BadMailSetting(ValueError):
    """The setting is malformed. The message never contains the password."""


class SmtpServer(msgspec.Struct, frozen=True):
    scheme: str
    host: str
    port: int
    user: str | None
    password: str | None

    def __repr__(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"


def read_server(url: str, *, is_development: bool) -> SmtpServer:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise BadMailSetting("MANILLA_SMTP_URL is not a URL") from None
    has_more = parts.query or parts.path not in ("", "/")
    if parts.scheme not in PORTS or not parts.hostname or has_more:
        raise BadMailSetting(
            "MANILLA_SMTP_URL is not a URL such as smtp+starttls://user:password@smtp.example.com"
        )
    if parts.scheme == "smtp" and not (is_development or _is_loopback(parts.hostname)):
        raise BadMailSetting(
            "MANILLA_SMTP_URL is not encrypted: use smtp+starttls:// or smtps://"
            " (smtp:// only for this host)"
        )
    if bool(parts.username) != bool(parts.password):
        raise BadMailSetting("MANILLA_SMTP_URL needs both a user and a password, or neither")
    user, password = (unquote(each) if each else None for each in (parts.username, parts.password))
    return SmtpServer(parts.scheme, parts.hostname, port or PORTS[parts.scheme], user, password)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def header_text(text: str) -> str:
    """Returns a text that stays the same, on one line, in an email's header.

    Python's email library decodes RFC 2047 encoded words (`=?utf-8?q?=0D=0A?=`) in the headers that
    it builds, and the words can contain line breaks. A space keeps `=?` from starting such a word.
    """
    printable = "".join(each if each.isprintable() else " " for each in text)
    return " ".join(printable.split()).replace("=?", "= ?")


class Sender(msgspec.Struct, frozen=True):
    """The sender of all emails. The default name is the installation's name."""

    address: str
    name: str = ""

    def header(self, site_name: str) -> Address:
        username, _, domain = self.address.rpartition("@")
        return Address(header_text(self.name or site_name), username, domain)


def read_sender(text: str, base_url: str) -> Sender:
    """Parses `pay@example.com` or `Example Pay <pay@example.com>`."""
    if not text:
        return Sender(f"no-reply@{urlsplit(base_url).hostname or 'localhost'}")
    name, address = parseaddr(text)
    if not (is_email(address) and address.isascii()) or has_controls(text):
        raise BadMailSetting(
            "MANILLA_MAIL_FROM is not an address such as Example Pay <pay@example.com>"
        )
    return Sender(address, name)
