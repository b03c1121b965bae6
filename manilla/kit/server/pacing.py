"""Parses a connection's input in small parts, so that no client delays the other clients."""

import asyncio
from collections.abc import Callable, Sized

from uvicorn.protocols.http.flow_control import FlowControl

# In one iteration, the event loop reads up to 8 MiB from a connection.
# Parsing 8 MiB of one-byte chunks takes more than a second.
PART_BYTES = 4 * 1024


class PacedFlow(FlowControl):
    """Passes at most one part of a connection's input to the parser in each loop iteration.

    The connection is not read while input is buffered here, or while the application has paused
    reading. The buffer therefore never exceeds what the event loop reads at once.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        parse: Callable[[bytes], None],
        pipeline: Sized,
    ) -> None:
        super().__init__(transport)
        self._loop = loop
        self._parse = parse
        self._pipeline = pipeline  # requests that wait until an earlier request has its response
        self._held = memoryview(b"")
        self._is_scheduled = False
        self.is_stopped = False  # whether reading from the transport is paused

    def receive(self, data: bytes) -> None:
        if self._held or self.read_paused or len(data) > PART_BYTES:
            self._held = memoryview(bytes(self._held) + data)
            self._schedule()
            self._update()
        else:
            self._parse(data)

    def pause_reading(self) -> None:
        self.read_paused = True
        self._update()

    def resume_reading(self) -> None:
        if self._pipeline:
            return  # otherwise, a client that ignores responses could exhaust the memory
        self.read_paused = False
        self._schedule()
        self._update()

    def stop(self) -> None:
        """Drops the input of a closed connection, and the reference to the connection."""
        self._held = memoryview(b"")
        self._parse = _ignore

    def _schedule(self) -> None:
        if self._held and not self.read_paused and not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._parse_part)

    def _parse_part(self) -> None:
        self._is_scheduled = False
        if self._transport.is_closing():
            self._held = memoryview(b"")
        elif self._held and not self.read_paused:
            part, self._held = self._held[:PART_BYTES], self._held[PART_BYTES:]
            self._parse(bytes(part))
            self._schedule()
            self._update()

    def _update(self) -> None:
        must_stop = self.read_paused or bool(self._held)
        if must_stop == self.is_stopped or self._transport.is_closing():
            return
        self.is_stopped = must_stop
        if must_stop:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()


def _ignore(_data: bytes) -> None:
    pass
