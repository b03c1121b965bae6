"""Builds signed HTTP requests as bytes."""

import itertools
import time
from collections.abc import Iterator

from manilla.api.authenticate import sign
from manilla.merchants.credentials import NewCredentials

INITIATE = "/api/v1/initiate-payment"
AMOUNT, CURRENCY = 1000, "NGN"

_numbers = itertools.count(1)


def signed(
    credentials: NewCredentials,
    method: str,
    path: str,
    body: bytes = b"",
    *,
    environment: str = "sandbox",
) -> bytes:
    now = int(time.time())
    signature = sign(credentials.api_secret.encode(), now, method, path, body)
    content = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
    return (
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: bench\r\nAccept: */*\r\n"
        f"X-Environment: {environment}\r\nX-Merchant-Key: {credentials.merchant_key}\r\n"
        f"X-API-Key: {credentials.api_key}\r\nX-Timestamp: {now}\r\n"
        f"X-Signature: {signature}\r\n{content}\r\n"
    ).encode() + body


def payment_orders(credentials: NewCredentials) -> Iterator[bytes]:
    """Yields payment requests with unique references.

    Each request is signed on demand, which takes microseconds of the load generator's CPU time and
    none of the measured program's.
    """
    while True:
        body = payment_order(new_reference())
        yield signed(credentials, "POST", INITIATE, body)


def payment_order(reference: str, ipn_url: str = "https://shop.example/ipn") -> bytes:
    return (
        f'{{"payment_amount":{AMOUNT},"currency_code":"{CURRENCY}","ref_trx":"{reference}",'
        '"description":"Two chairs and a table","customer_name":"Ada Obi",'
        f'"customer_email":"ada@example.com","ipn_url":"{ipn_url}",'
        '"success_redirect":"https://shop.example/thanks?order=7",'
        '"cancel_redirect":"https://shop.example/cart"}'
    ).encode()


def new_reference() -> str:
    """Returns a random reference. Random references are the worst case for an index."""
    number = next(_numbers) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
    return f"{number:016x}-{time.time_ns():x}"
