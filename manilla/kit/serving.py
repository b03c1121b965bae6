"""A web server that a proxy can take out of service without losing a request."""

import asyncio
import socket
from typing import Any

import msgspec
import uvicorn

POLL_SECONDS = 0.1


class Drain(msgspec.Struct):
    """Whether this process is about to stop: it then says that it is not ready."""

    is_on: bool = False


class DrainingServer(uvicorn.Server):
    """On SIGTERM it goes on serving for a while, and only then stops accepting connections.

    In that time the readiness check fails, so that proxies send new requests elsewhere, and every
    answer carries `Connection: close`, so that they do not use its connection again. Closing idle
    connections at once would race with a request that a proxy is just sending.
    """

    def __init__(self, config: uvicorn.Config, drain: Drain, seconds: float) -> None:
        config.app = _closing(config.app, drain)
        super().__init__(config)
        self._drain = drain
        self._seconds = seconds

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._drain.is_on = True
        for tick in range(round(self._seconds / POLL_SECONDS)):
            if self.force_exit:
                break
            await self.on_tick(tick)  # keeps the Date header right
            await asyncio.sleep(POLL_SECONDS)
        await super().shutdown(sockets)


def _closing(asgi: Any, drain: Drain) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        async def send_closing(message: Any) -> None:
            if drain.is_on and message["type"] == "http.response.start":
                headers = [*message.get("headers", ()), (b"connection", b"close")]
                message = {**message, "headers": headers}
            await send(message)

        await asgi(scope, receive, send_closing)

    return app
