"""The client library retries safely after network and API errors, a limited number of times."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import manilla_client as library
import pytest
from manilla_client import AsyncClient, Credentials, Retries, SiteInfo

from manilla.kit.database.connections import Database
from manilla.kit.ratelimit import WINDOW_SECONDS
from tests.client_library.conftest import credentials_of
from tests.client_library.test_calls import payment
from tests.notify.receiver import Behave, Receiver, answer, hang, raw, receiving
from tests.support.client import Merchant, Site
from tests.support.signing import sign

SECRET = "test_secret"
SITE = {
    "site_name": "Manilla",
    "site_logo": "https://pay.example/logo.svg",
    "site_url": "https://pay.example",
    "gateway_name": "Manilla",
    "gateway_description": "Payments",
    "features": dict.fromkeys(
        ("ssl_secured", "instant_processing", "global_support", "mobile_ready"), "yes"
    ),
    "environments": {"production": "live", "sandbox": "test"},
    "api_version": "1.0",
    "status": "active",
    "a_field_of_a_later_version": [1],
}
AT_ONCE = Retries(attempts_max=3, first_wait_seconds=0)


def good(document: Any = SITE) -> Behave:
    return answer(200, json.dumps(document).encode())


def refusing(status: int, code: str, *headers: str, **more: Any) -> Behave:
    return answer(
        status, json.dumps({"error": "No.", "error_code": code, **more}).encode(), *headers
    )


def reset() -> Behave:
    return raw(b"", then_reset=True)


@contextlib.asynccontextmanager
async def scripted(
    *answers: Behave, retries: Retries = AT_ONCE, timeout_seconds: float = 10
) -> AsyncIterator[tuple[Receiver, AsyncClient]]:
    """Runs a server that returns these responses in order, and a client of this server."""
    credentials = Credentials("test_key", "test_api", SECRET)
    async with receiving() as service:
        service.answers += answers
        async with AsyncClient(
            service.url.removesuffix("/ipn"),
            credentials,
            retries=retries,
            timeout_seconds=timeout_seconds,
        ) as client:
            yield service, client


FAILURES = {
    "busy": refusing(503, "SERVICE_UNAVAILABLE", "Retry-After: 0"),
    "too many": refusing(429, "RATE_LIMIT_EXCEEDED", "Retry-After: 0"),
    "a bug": refusing(500, "SERVER_ERROR"),
    "a proxy's page": answer(502, b"<html>Bad Gateway</html>"),
    "connection reset": reset(),
    "no answer": raw(b""),
    "half an answer": raw(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{"),
    "half a head": raw(b"HTTP/1.1 200 OK\r\nContent-"),
    "not JSON": answer(200, b"<html>Welcome</html>"),
    "nested too deeply": answer(200, b"[" * 100_000),
    "not HTTP": raw(b"\x00\xff\r\n\r\n"),
}


@pytest.mark.parametrize("failure", FAILURES)
async def test_temporary_errors_are_retried(failure: str) -> None:
    async with scripted(FAILURES[failure], FAILURES[failure], good()) as (service, client):
        assert isinstance(await client.site_info(), SiteInfo)
    assert len(service.received) == 3


@pytest.mark.parametrize("failure", FAILURES)
async def test_retries_stop_after_the_maximum_number_of_attempts(failure: str) -> None:
    async with scripted(*[FAILURES[failure]] * 4) as (service, client):
        with pytest.raises(library.ManillaError) as caught:
            await client.initiate_payment(**payment())
    assert len(service.received) == 3
    assert isinstance(caught.value, library.NoAnswer | library.ApiError)
    keys = {received.headers["idempotency-key"] for received in service.received}
    assert keys == {caught.value.idempotency_key}


async def test_a_post_is_retried_with_the_same_key_and_a_new_signature() -> None:
    order = payment()
    async with scripted(reset(), FAILURES["a bug"], refusing(422, "NEW"), refusing(422, "NEW")) as (
        service,
        client,
    ):
        for _ in range(2):
            with pytest.raises(library.ApiError):
                await client.initiate_payment(**order)
    first, second = service.received[:3], service.received[3:]
    assert len({(each.headers["idempotency-key"], each.body) for each in first}) == 1
    assert first[0].headers["idempotency-key"] != second[0].headers["idempotency-key"]
    for each in service.received:
        moment = each.headers["x-timestamp"]
        signature = sign(SECRET, moment, "POST", each.path, each.body)
        assert each.headers["x-signature"] == signature


async def test_a_lost_response_creates_no_second_payment(
    site: Site, merchant: Merchant, db: Database
) -> None:
    """The API processes the request, but the connection is lost before the response arrives."""
    order = payment()
    connections = 0

    async def lose_the_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        body = await reader.readexactly(length)
        reply = await site.send_raw(head.replace(b"\r\n", b"\r\nConnection: close\r\n", 1) + body)
        assert reply.status == 200
        if connections == 1:
            writer.transport.abort()
            return
        lines = f"HTTP/1.1 200 OK\r\nContent-Length: {len(reply.body)}\r\nConnection: close\r\n\r\n"
        writer.write(lines.encode() + reply.body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(lose_the_first, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, AsyncClient(url, credentials_of(merchant), retries=AT_ONCE) as client:
        session = await client.initiate_payment(**order)
    made = await db.value("SELECT count(*) FROM payment WHERE ref_trx = $1", order["ref_trx"])
    trx_id = await db.value("SELECT trx_id FROM payment WHERE ref_trx = $1", order["ref_trx"])
    assert (connections, made, trx_id) == (2, 1, session.trx_id)


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "VALIDATION_FAILED", library.ValidationFailed),
        (401, "INVALID_CREDENTIALS", library.InvalidCredentials),
        (403, "MERCHANT_SUSPENDED", library.MerchantSuspended),
        (403, "MERCHANT_PENDING_APPROVAL", library.MerchantPendingApproval),
        (422, "kyc_required", library.KycRequired),
        (422, "payout_schedule_blocked", library.ScheduleBlocked),
        (422, "merchant_payout_disabled", library.PayoutDisabled),
        (422, "gateway_not_configured", library.GatewayNotConfigured),
        (422, "gateway_payout_failed", library.GatewayPayoutFailed),
        (422, "WALLET_NOT_AVAILABLE", library.WalletNotAvailable),
        (422, "a_code_of_a_later_version", library.ApiError),
        (301, "", library.ApiError),
    ],
)
async def test_a_rejection_is_raised_once_with_its_class(
    status: int, code: str, kind: type[library.ApiError]
) -> None:
    async with scripted(refusing(status, code, "X-Request-Id: 7f")) as (service, client):
        with pytest.raises(library.ApiError) as caught:
            await client.initiate_payment(**payment())
    error = caught.value
    assert (type(error), error.status, error.code, error.message) == (kind, status, code, "No.")
    assert (error.request_id, error.errors, len(service.received)) == ("7f", {}, 1)


async def test_retry_after_overrides_our_own_delay() -> None:
    script = (
        refusing(422, "kyc_required", guidance="Go to Settings."),
        refusing(422, "kyc_required"),
    )
    async with scripted(*script) as (_, client):
        for expected in ("Go to Settings.", library.KycRequired.advice):
            with pytest.raises(library.KycRequired) as caught:
                await client.site_info()
            assert caught.value.guidance == expected


async def test_too_long_a_wait_is_left_to_the_caller() -> None:
    script = refusing(429, "RATE_LIMIT_EXCEEDED", "Retry-After: 61")
    async with scripted(script) as (service, client):
        with pytest.raises(library.RateLimited) as caught:
            await client.site_info()
    assert (caught.value.retry_after_seconds, len(service.received)) == (61, 1)


async def test_a_hanging_service_times_out() -> None:
    once = Retries(attempts_max=1)
    async with scripted(hang(), retries=once, timeout_seconds=0.2) as (_, client):
        with pytest.raises(library.NoAnswer, match="TimeoutError"):
            await client.site_info()


@pytest.mark.parametrize(
    "document",
    [
        b"[]",
        b"{}",
        json.dumps({**SITE, "status": 1}).encode(),
        json.dumps({**SITE, "features": []}).encode(),
        json.dumps({**SITE, "status": True}).encode(),
    ],
)
async def test_a_response_that_is_not_from_the_api_is_never_accepted(document: bytes) -> None:
    async with scripted(answer(200, document)) as (service, client):
        with pytest.raises(library.BadAnswer):
            await client.site_info()
    assert len(service.received) == 1


async def test_a_connection_closed_meanwhile_costs_no_attempt() -> None:
    body = json.dumps(SITE).encode()
    unannounced = raw(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    once = Retries(attempts_max=1)
    async with scripted(unannounced, unannounced, retries=once) as (service, client):
        for _ in range(2):
            assert (await client.site_info()).status == "active"
    assert len(service.received) == 2


def test_the_default_wait_covers_the_rate_limit() -> None:
    wait = Retries().wait_seconds(1, retry_after_seconds=WINDOW_SECONDS)
    assert wait is not None
    assert wait >= WINDOW_SECONDS


def test_delays_grow_have_jitter_and_are_limited() -> None:
    retries = Retries(attempts_max=6, first_wait_seconds=1, wait_seconds_max=5)
    for attempts, longest in ((1, 1), (2, 2), (3, 4), (4, 5), (5, 5)):
        waits = [retries.wait_seconds(attempts) for _ in range(200)]
        assert all(wait is not None and 0 <= wait <= longest for wait in waits)
        assert len(set(waits)) > 1
    assert retries.wait_seconds(6) is None
    asked_for = retries.wait_seconds(1, retry_after_seconds=3)
    assert asked_for is not None
    assert 3 <= asked_for <= 4
    assert retries.wait_seconds(1, retry_after_seconds=6) is None
