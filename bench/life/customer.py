"""A customer who pays on checkout, with a browser that runs no scripts."""

import html
import re
from urllib.parse import urlencode

from bench.life.connections import Connections, read

_FORM = re.compile(rb'<form method="post" action="([^"]+)" class="methods">')
_METHOD = re.compile(rb'name="method" value="([^"]+)"')
_LOCATION = re.compile(rb"\r\nlocation: ([^\r]+)\r\n", re.IGNORECASE)
_REFRESH = re.compile(rb'<meta http-equiv="refresh" content="0;url=([^"]+)">')


async def choose_method(connections: Connections, link: str) -> str:
    """Opens checkout, chooses the first method, and returns the URL of the provider's page."""
    page = await connections.call(lambda: _get(link))
    action, form = html.unescape(read(_FORM, page)), {"seen": "0", "method": read(_METHOD, page)}
    chosen = await connections.call(lambda: _submit(action, form))
    leaving = await connections.call(lambda: _get(read(_LOCATION, chosen)))
    return html.unescape(read(_REFRESH, leaving))


def _get(path: str) -> bytes:
    return (
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: bench\r\nAccept: text/html\r\n\r\n"
    ).encode()


def _submit(path: str, form: dict[str, str]) -> bytes:
    body = urlencode(form)
    return (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: bench\r\nAccept: text/html\r\n"
        "Content-Type: application/x-www-form-urlencoded\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}"
    ).encode()
