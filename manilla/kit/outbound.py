"""Makes HTTP calls to URLs that merchants choose. These calls must never reach our own network.

The IP address is checked when the socket is created, after DNS resolution. Neither an unusual
notation of the address nor a changed DNS record can therefore bypass the check.
"""

import contextlib
import ipaddress
import os
import socket
import ssl
import unicodedata
from functools import lru_cache
from urllib.parse import unquote, urlsplit

from manilla.kit.http_client.errors import (
    AddressRefused,
    CertificateRejected,
    ConnectTimeout,
    Disconnected,
    IncompleteReply,
    MalformedReply,
    NotConnected,
    UnknownHost,
)

# These networks count as global, but their addresses can embed a private IPv4 address.
_WRAPPED = tuple(
    ipaddress.IPv6Network(network)
    for network in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "::ffff:0:0/96")
)
# These networks are not public, although some versions of Python consider them global.
_SPECIAL = tuple(
    ipaddress.ip_network(network)
    for network in ("192.0.0.0/24", "192.88.99.0/24", "fec0::/10", "3fff::/20")
)


# The message is the same for private and unknown hosts, so it does not reveal our network's hosts.
NOT_REACHED = "not a public address, or a name that is not known"


def is_public(text: str) -> bool:
    """Returns True if the address is globally routable and does not embed another address."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if any(address in network for network in (*_WRAPPED, *_SPECIAL)):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


@lru_cache(maxsize=4096)  # cached, because merchants send the same URLs with every order
def has_private_host(url: str) -> bool:
    """Returns True if a URL's host is `localhost` or an IP address that is not public.

    Host names are not resolved here. Their IP addresses are checked when a socket is opened.
    """
    host = unquote(urlsplit(url).hostname or "")
    name = unicodedata.normalize("NFKC", host).replace("\u3002", ".").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    address = _written_address(name)
    return address is not None and not is_public(address)


def _written_address(host: str) -> str | None:
    """Parses an IP address as a DNS resolver does, including 127.1, 0x7f000001 and 017700000001."""
    with contextlib.suppress(ValueError):
        return str(ipaddress.ip_address(host.partition("%")[0]))
    with contextlib.suppress(OSError, ValueError):
        return socket.inet_ntoa(socket.inet_aton(host))
    return None


def is_not_reached(error: Exception) -> bool:
    """Returns True if the call failed because the address is not public or the host is unknown."""
    return isinstance(error, UnknownHost | AddressRefused)


def describe(error: Exception) -> str:
    """Describes a failed call in one line, in plain words instead of the library's error text."""
    match error:
        case CertificateRejected():
            text = f"the TLS certificate was rejected: {error.cause}"
        case UnknownHost() | AddressRefused():
            text = NOT_REACHED
        case ConnectTimeout():
            text = "the host did not accept the connection in time"
        case Disconnected(cause=None):
            text = "the connection was closed without a response"
        case NotConnected(cause=OSError() as cause) | Disconnected(cause=OSError() as cause):
            text = _system_reason(cause)
        case IncompleteReply():
            text = "the response was incomplete"
        case MalformedReply():
            text = "the response is not valid HTTP"
        case _:
            text = str(error) or type(error).__name__
    return "".join(character if character.isprintable() else " " for character in text)[:200]


def _system_reason(error: OSError) -> str:
    number = error.errno
    # For rejected addresses, DNS errors and TLS errors, the text says more than the error number.
    if number is None or number <= 0 or isinstance(error, ssl.SSLError):
        return error.strerror or str(error)
    return os.strerror(number)
