"""Sends a batch of events to a target. A sender returns only after the target has the whole batch.

After an error, the whole batch is sent again, so a target can receive an event twice, with the same
`metadata.uid`.
"""

import asyncio
import socket
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import msgspec
import structlog

from manilla.kit import time_limits
from manilla.kit.http_client.client import HttpClient
from manilla.kit.http_client.connecting import tls_context

log = structlog.get_logger(__name__)

ANSWER_BYTES_MAX = 10_000
PRIORITY = 13 * 8 + 6  # RFC 5424: the facility "log audit", the severity "informational"
_NONE = "-"

Events = Sequence[dict[str, Any]]


class NotAccepted(Exception):
    """The target responded, but it did not accept the batch."""


async def send(client: HttpClient, url: str, authorization: str | None, events: Events) -> None:
    async with asyncio.timeout(time_limits.current.audit_target_seconds):
        match urlsplit(url).scheme:
            case "log":
                for event in events:
                    log.info("audit", ocsf=event)
            case "http" | "https":
                await _post(client, url, authorization, events)
            case _:
                await asyncio.to_thread(_send_syslog, url, syslog_messages(events))


async def _post(client: HttpClient, url: str, authorization: str | None, events: Events) -> None:
    headers = {"Content-Type": "application/json"}
    if authorization is not None:
        headers["Authorization"] = authorization
    body = msgspec.json.encode(events)
    reply = await client.request("POST", url, headers=headers, body=body, body_max=ANSWER_BYTES_MAX)
    if reply.status is None or not 200 <= reply.status < 300:
        raise NotAccepted(f"The target responded with status {reply.status}.")


def syslog_messages(events: Events) -> bytes:
    """Formats events as RFC 5424 messages, each with its length in front (RFC 6587)."""
    host, messages = socket.gethostname(), []
    for event in events:
        at = datetime.fromtimestamp(event["time"] / 1000, UTC).isoformat(timespec="milliseconds")
        head = f"<{PRIORITY}>1 {at} {host} manilla {_NONE} audit {_NONE} "
        message = head.encode() + msgspec.json.encode(event)
        messages.append(str(len(message)).encode() + b" " + message)
    return b"".join(messages)


def _send_syslog(url: str, data: bytes) -> None:
    """Sends the messages over a new connection, and waits until the server has closed it.

    Syslog has no acknowledgments. A server that closes its side after our end of the data has read
    all of it. A server that disappears resets the connection or does not respond.
    """
    parts, seconds = urlsplit(url), time_limits.current.audit_target_seconds
    ends_at = time.monotonic() + seconds
    assert parts.hostname is not None
    with socket.create_connection((parts.hostname, parts.port or 0), seconds) as plain:
        if parts.scheme == "syslog":
            plain.sendall(data)
            plain.shutdown(socket.SHUT_WR)
            _wait_for_end(plain, ends_at)
            return
        with tls_context().wrap_socket(plain, server_hostname=parts.hostname) as encrypted:
            encrypted.sendall(data)
            _wait_for_end(encrypted.unwrap(), ends_at)


def _wait_for_end(connection: socket.socket, ends_at: float) -> None:
    """Waits until the server has closed the connection, however slowly it sends."""
    while connection.recv(4096):
        if time.monotonic() > ends_at:
            raise TimeoutError


# ValueError: a host name that cannot be encoded.
ERRORS = (OSError, ValueError, NotAccepted)
