"""A provider compresses its responses although our requests do not allow compression."""

import gzip
import json
import zlib
from collections.abc import Callable

import pytest

from manilla.kit.money import Money
from manilla.providers.port import Done, Unknown
from manilla.providers.wire import ANSWER_BYTES_MAX
from tests.providers.adapters import Adapters
from tests.providers.conftest import envelope
from tests.providers.scripted import Scripted, raw_answer

BALANCE = json.dumps(
    envelope("providera", {"NGN": {"available_balance": 12.5, "pending_balance": 0}})
).encode()


def _deflate_without_header(raw: bytes) -> bytes:
    compress = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compress.compress(raw) + compress.flush()


COMPRESSIONS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "deflate": ("deflate", zlib.compress),
    "deflate without a header": ("deflate", _deflate_without_header),
    "upper case": ("GZIP", gzip.compress),
}


def _answer(server: Scripted, encoding: str, body: bytes) -> None:
    head = f"HTTP/1.1 200 X\r\nContent-Encoding: {encoding}\r\nContent-Length: {len(body)}\r\n\r\n"
    server.behaviour = raw_answer(head.encode() + body)


@pytest.mark.parametrize("how", COMPRESSIONS)
async def test_a_compressed_response_is_decompressed(
    adapters: Adapters, server: Scripted, how: str
) -> None:
    encoding, compress = COMPRESSIONS[how]
    _answer(server, encoding, compress(BALANCE))
    assert await adapters.of("providera").balance("NGN") == Done(Money("NGN", 1250))
    assert server.recorded[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("how", COMPRESSIONS)
async def test_a_small_response_that_is_large_when_decompressed_is_unknown(
    adapters: Adapters, server: Scripted, how: str
) -> None:
    encoding, compress = COMPRESSIONS[how]
    _answer(server, encoding, compress(b" " * 2 * ANSWER_BYTES_MAX + BALANCE))
    assert await adapters.of("providera").balance("NGN") == Unknown(
        "HTTP 200 with a body that is too large", can_pass=True
    )


@pytest.mark.parametrize("how", COMPRESSIONS)
async def test_a_compressed_response_without_its_end_is_unknown(
    adapters: Adapters, server: Scripted, how: str
) -> None:
    encoding, compress = COMPRESSIONS[how]
    _answer(server, encoding, compress(BALANCE)[:-5])
    answer = await adapters.of("providera").balance("NGN")
    assert isinstance(answer, Unknown)
    assert not answer.never_sent
