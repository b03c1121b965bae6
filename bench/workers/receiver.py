"""An HTTP server that responds immediately to every request from Manilla.

`provider` responds like provider A when it accepts a transfer; `shop` responds with 200.
"""

import asyncio
import re
import socket
import sys
from collections.abc import Callable
from typing import Any

import uvloop

_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)
_REFERENCE = re.compile(rb'"reference": ?"([^"]+)"')


class Receiver(asyncio.Protocol):
    def __init__(self, answer: Callable[[bytes], bytes]) -> None:
        self._answer = answer
        self._received = b""
        self._transport: Any = None  # uvloop has its own transport type

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := _end_of_request(self._received)) is not None:
            request, self._received = self._received[:end], self._received[end:]
            body = self._answer(request)
            self._transport.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
                % (len(body), body)
            )


def _end_of_request(received: bytes) -> int | None:
    head = received.find(b"\r\n\r\n")
    if head < 0:
        return None
    length = _LENGTH.search(received, 0, head + 2)
    end = head + 4 + (int(length[1]) if length else 0)
    return end if len(received) >= end else None


def provider(request: bytes) -> bytes:
    found = _REFERENCE.search(request)
    assert found is not None, "not a transfer"
    return (
        b'{"status":true,"message":"Transfer initiated successfully","data":{"reference":"%b",'
        b'"status":"processing","amount":"1000.00","fee":"25.00","currency":"NGN",'
        b'"trace_id":"trace-%b"}}' % (found[1], found[1])
    )


def shop(_request: bytes) -> bytes:
    return b'{"received":true}'


ANSWERS = {"provider": provider, "shop": shop}


async def main(name: str, listener: socket.socket) -> None:
    answer = ANSWERS[name]
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Receiver(answer), sock=listener)
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(sys.argv[1], socket.socket(fileno=int(sys.argv[2]))))
