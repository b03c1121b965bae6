"""Monnify's webhooks: exact signatures, our references, and the reported statuses."""

import hashlib
import hmac
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from manilla.kit.http_client.client import HttpClient
from manilla.providers.kinds.monnify.adapter import Monnify
from manilla.providers.port import (
    Claim,
    Forged,
    ReportedChargeStatus,
    ReportedRefundStatus,
    TransferStatus,
    Unreadable,
    Webhook,
    WebhookEvent,
    WebhookSubject,
)
from tests.providers.monnify.conftest import build
from tests.providers.monnify.samples import DOCUMENTED_EVENTS

# This is Monnify's published example: the key, the exact body and the signature.
VECTOR_KEY = "91MUDL9N6U3BQRXBQ2PJ9M0PW4J22M1Y"
VECTOR_BODY = Path("tests/simulator/fixtures/monnify/documented_signed_body.json").read_bytes()
VECTOR_ENDS = ("f04fb635", "8aedcd3c")


def _signature(raw: bytes, key: str = "m-secret") -> bytes:
    return hmac.new(key.encode(), raw, hashlib.sha512).hexdigest().encode()


def _read(adapter: Monnify, document: Any) -> Webhook:
    raw = document if isinstance(document, bytes) else json.dumps(document).encode()
    return adapter.read_webhook({b"monnify-signature": [_signature(raw)]}, raw)


@pytest.fixture
def adapter(client: HttpClient) -> Monnify:
    return build(client, "http://127.0.0.1:1")


def test_the_published_signature(client: HttpClient) -> None:
    adapter = build(client, "http://127.0.0.1:1", secret_key=VECTOR_KEY)
    signature = _signature(VECTOR_BODY, VECTOR_KEY)
    assert (signature[:8].decode(), signature[-8:].decode()) == VECTOR_ENDS
    assert adapter.read_webhook({b"monnify-signature": [signature]}, VECTOR_BODY) == WebhookEvent(
        WebhookSubject.CHARGE,
        "0.01462001097368737",
        Claim(Decimal(78000), "NGN"),
        ReportedChargeStatus.PAID,
    )


def test_only_the_exact_bytes_with_the_exact_key_are_accepted(adapter: Monnify) -> None:
    raw = VECTOR_BODY
    good = _signature(raw)
    concatenated = hashlib.sha512(b"m-secret" + raw).hexdigest().encode()
    assert isinstance(adapter.read_webhook({b"monnify-signature": [good]}, raw), WebhookEvent)
    for headers in (
        {},
        {b"monnify-signature": [b""]},
        {b"monnify-signature": [good[:-1]]},
        {b"monnify-signature": [good, good]},
        # Monnify's documentation describes this signature in words.
        {b"monnify-signature": [concatenated]},
        {b"monnify-signature": [_signature(raw, "MK_PROD_1")]},
        {b"x-monnify-signature": [good]},
    ):
        assert adapter.read_webhook(headers, raw) == Forged()
    assert adapter.read_webhook({b"monnify-signature": [good]}, raw + b"\n") == Forged()


@pytest.mark.parametrize("setting", [{"sandbox": "true"}, {"api_key": "MK_TEST_1"}])
def test_the_sandbox_signs_nothing_and_settles_nothing(
    client: HttpClient, setting: dict[str, str]
) -> None:
    sandbox = build(client, "http://127.0.0.1:1", **setting)
    raw = VECTOR_BODY
    assert isinstance(sandbox.read_webhook({}, raw), Unreadable)
    assert sandbox.read_webhook({b"monnify-signature": [b"00"]}, raw) == Forged()
    signed = sandbox.read_webhook({b"monnify-signature": [_signature(raw)]}, raw)
    assert isinstance(signed, WebhookEvent)


CHARGE = (WebhookSubject.CHARGE, "TXN0-1")
TRANSFER = (WebhookSubject.TRANSFER, "TXN1", Claim(Decimal("5000.5"), "NGN"))
SESSION = "090405261115032336726272971260"
REFUND = (WebhookSubject.REFUND, "TXN9", Claim(Decimal("1015.50"), None))


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (
            "SUCCESSFUL_TRANSACTION",
            WebhookEvent(*CHARGE, Claim(Decimal("1015.5"), "NGN"), ReportedChargeStatus.PAID),
        ),
        ("REJECTED_PAYMENT", WebhookEvent(*CHARGE)),
        ("SUCCESSFUL_DISBURSEMENT", WebhookEvent(*TRANSFER, TransferStatus.DELIVERED, SESSION)),
        ("FAILED_DISBURSEMENT", WebhookEvent(*TRANSFER, TransferStatus.FAILED, SESSION)),
        ("REVERSED_DISBURSEMENT", WebhookEvent(*TRANSFER, TransferStatus.RETURNED, SESSION)),
        ("SUCCESSFUL_REFUND", WebhookEvent(*REFUND, ReportedRefundStatus.PAID)),
        ("FAILED_REFUND", WebhookEvent(*REFUND, ReportedRefundStatus.FAILED)),
    ],
)
def test_events(adapter: Monnify, event: str, expected: WebhookEvent) -> None:
    document = {"eventType": event, "eventData": DOCUMENTED_EVENTS[event]}
    assert _read(adapter, document) == expected


@pytest.mark.parametrize("source", [[], {}, {"amountPaid": 5}, [{"amountPaid": "5"}], None])
def test_the_payers_account_has_several_shapes(adapter: Monnify, source: Any) -> None:
    data = DOCUMENTED_EVENTS["SUCCESSFUL_TRANSACTION"]
    document = {
        "eventType": "SUCCESSFUL_TRANSACTION",
        "eventData": {**data, "paymentSourceInformation": source, "amountPaid": "1015.50"},
    }
    read = _read(adapter, document)
    assert isinstance(read, WebhookEvent)
    assert read.claim == Claim(Decimal("1015.50"), "NGN")


@pytest.mark.parametrize("amount", ["a lot", True, [5], {}, "1e3", "NaN"])
def test_an_unreadable_amount_agrees_with_none(adapter: Monnify, amount: Any) -> None:
    data = {**DOCUMENTED_EVENTS["SUCCESSFUL_DISBURSEMENT"], "amount": amount}
    read = _read(adapter, {"eventType": "SUCCESSFUL_DISBURSEMENT", "eventData": data})
    assert isinstance(read, WebhookEvent)
    assert read.claim is not None
    assert read.claim.amount is not None
    assert read.claim.amount.is_nan()


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"[]",
        b"null",
        b'{"eventType": "SUCCESSFUL_TRANSACTION", "eventType": "SETTLEMENT"}',
        {},
        {"eventType": "SUCCESSFUL_TRANSACTION"},
        {"eventType": "SUCCESSFUL_TRANSACTION", "eventData": []},
        {"eventType": "SUCCESSFUL_TRANSACTION", "eventData": "TXN0-1"},
        {"eventType": "SUCCESSFUL_TRANSACTION", "eventData": {"paymentReference": 5}},
        {"eventType": "SUCCESSFUL_DISBURSEMENT", "eventData": {"paymentReference": "TXN1"}},
        {"eventType": ["SETTLEMENT"], "eventData": {}},
        *(
            {"eventType": event, "eventData": {"reference": "TXN1", "amount": 5}}
            for event in ("SETTLEMENT", "ACCOUNT_ACTIVITY", "LOW_BALANCE_ALERT", "MANDATE_UPDATE")
        ),
    ],
)
def test_other_signed_content_is_unreadable(adapter: Monnify, document: Any) -> None:
    assert isinstance(_read(adapter, document), Unreadable)
