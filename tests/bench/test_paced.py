"""The benchmark's scheduled HTTP load, with a server that responds, refuses or disconnects."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from bench import paced
from tests.support.timeouts import TIMEOUT_SECONDS

SERVED = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
REFUSED = b"HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"
REFUSED_WITHOUT_TIME = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"
CLOSED = b""
NUMBER = 40


@asynccontextmanager
async def _server(answers: Iterator[bytes]) -> AsyncIterator[int]:
    connections = list[asyncio.Task[None]]()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(asyncio.create_task(serve(reader, writer)))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(100):
            answer = next(answers)
            writer.write(answer)
            if answer == CLOSED:
                break
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
        await asyncio.gather(*connections)


async def _offered(answers: list[bytes], connections: int = NUMBER) -> paced.Offered:
    async with asyncio.timeout(TIMEOUT_SECONDS), _server(iter(answers)) as port:
        requests = iter([b"x"] * NUMBER)
        return await paced.offer(port, requests, NUMBER / 0.1, 0.1, connections)


async def test_every_request_of_the_schedule_is_sent_and_counted_by_its_answer() -> None:
    kinds = [SERVED, REFUSED, REFUSED_WITHOUT_TIME, CLOSED]
    offered = await _offered(kinds * (NUMBER // 4))
    assert offered.number == len(offered.answers) == NUMBER
    assert len(offered.served) == len(offered.refused) == NUMBER // 4
    assert len([each for each in offered.answers if each.status == paced.LOST]) == NUMBER // 4


async def test_a_request_without_a_free_connection_is_timed_from_when_it_was_due() -> None:
    offered = await _offered([SERVED] * NUMBER, connections=1)
    dues = [answer.due for answer in offered.answers]
    assert dues
    assert dues == pytest.approx([number * 0.1 / NUMBER for number in range(len(dues))])


@pytest.mark.parametrize(("percent", "expected"), [(0, 1), (50, 51), (99, 100), (100, 100)])
def test_percentile_is_a_time_that_was_measured(percent: float, expected: float) -> None:
    seconds = [number / 1000 for number in range(100, 0, -1)]
    assert paced.percentile_ms(seconds, percent) == pytest.approx(expected)


def test_percentile_of_no_times_is_zero() -> None:
    assert paced.percentile_ms([], 99) == 0
