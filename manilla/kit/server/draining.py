"""A web server that stops without losing requests."""

import asyncio
import socket
from typing import Any

import msgspec
import uvicorn

from manilla.kit import tracing

POLL_SECONDS = 0.1


class Drain(msgspec.Struct):
    """Whether this process is about to stop. If so, its readiness check fails."""

    is_on: bool = False


class DrainingServer(uvicorn.Server):
    """A server that keeps serving requests for a while after SIGTERM.

    During that time the readiness check fails, so proxies send new requests elsewhere. Every
    response has `Connection: close`, so proxies do not reuse the connections. If the server closed
    idle connections immediately, it could close a connection on which a proxy is just sending a
    request.
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
            await self.on_tick(tick)  # keeps the responses' Date header current
            await asyncio.sleep(POLL_SECONDS)
        await super().shutdown(sockets)
        if tracing.is_on():
            # After this function, uvicorn raises the stop signal again, which ends the process.
            await asyncio.to_thread(tracing.flush)


def _closing(asgi: Any, drain: Drain) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        async def send_closing(message: Any) -> None:
            if drain.is_on and message["type"] == "http.response.start":
                headers = [*message.get("headers", ()), (b"connection", b"close")]
                message = {**message, "headers": headers}
            await send(message)

        await asgi(scope, receive, send_closing)

    return app
