"""Paystack's webhooks: the signatures, and the transactions that the webhooks report."""

import hashlib
import hmac
import json
from decimal import Decimal
from typing import Any

import pytest

from manilla.providers.port import (
    Adapter,
    Claim,
    Forged,
    ReportedChargeStatus,
    TransferStatus,
    Unreadable,
    Webhook,
    WebhookEvent,
    WebhookSubject,
)
from tests.providers.paystack.paystack_server import TRX_ID, example

HEADER = b"x-paystack-signature"
SECRET = b"sk_live_p"
# The signature was computed with the command: openssl dgst -sha512 -hmac sk_live_p
VECTOR_BODY = b'{"event":"transfer.success","data":{"reference":"txn1"}}'
VECTOR = (
    b"e883238e4548759f993065cc864d69a13c82e93ea61928ae0d96f7abbdfcf24d"
    b"34e6fa7063874b87804a490c3f6245dc93df928295a82ec722893297feb45f25"
)


def signed(raw: bytes) -> bytes:
    return hmac.new(SECRET, raw, hashlib.sha512).hexdigest().encode()


def read(paystack: Adapter, document: Any) -> Webhook:
    raw = document if isinstance(document, bytes) else json.dumps(document).encode()
    return paystack.read_webhook({HEADER: [signed(raw)]}, raw)


def test_a_known_signature(paystack: Adapter) -> None:
    expected = WebhookEvent(WebhookSubject.TRANSFER, "TXN1", claims_status=TransferStatus.DELIVERED)
    assert paystack.read_webhook({HEADER: [VECTOR]}, VECTOR_BODY) == expected
    assert paystack.read_webhook({HEADER: [VECTOR.upper()]}, VECTOR_BODY) == expected


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {HEADER: []},
        {HEADER: [b""]},
        {HEADER: [b"0" * 128]},
        {HEADER: [VECTOR, VECTOR]},
        {HEADER: [VECTOR[:64]]},
        {HEADER: [hmac.new(SECRET, VECTOR_BODY, hashlib.sha256).hexdigest().encode()]},
        {HEADER: [hmac.new(b"", VECTOR_BODY, hashlib.sha512).hexdigest().encode()]},
        {b"x-korapay-signature": [VECTOR]},
    ],
)
def test_a_forged_signature(paystack: Adapter, headers: dict[bytes, list[bytes]]) -> None:
    assert paystack.read_webhook(headers, VECTOR_BODY) == Forged()


@pytest.mark.parametrize("raw", [VECTOR_BODY + b"\n", VECTOR_BODY.replace(b":", b": "), b""])
def test_other_bytes_are_forged(paystack: Adapter, raw: bytes) -> None:
    assert paystack.read_webhook({HEADER: [VECTOR]}, raw) == Forged()


def test_a_paid_charge(paystack: Adapter) -> None:
    claim = Claim(Decimal("1015.50"), "NGN")
    expected = WebhookEvent(WebhookSubject.CHARGE, "TXN0-1", claim, ReportedChargeStatus.PAID)
    assert read(paystack, example("webhook_charge")) == expected
    # The customer's payment includes the fee, but the webhook reports the requested amount.
    with_fees = example("webhook_charge_with_fees_of_the_customer", "derived")
    assert read(paystack, with_fees) == expected


@pytest.mark.parametrize("amount", ["many", True, [1], {"kobo": 1}])
def test_an_unreadable_amount_agrees_with_none(paystack: Adapter, amount: Any) -> None:
    event = read(paystack, example("webhook_charge", amount=amount))
    assert isinstance(event, WebhookEvent)
    assert event.claim is not None
    assert event.claim.amount is not None
    assert event.claim.amount.is_nan()


def test_other_amounts_are_claims_too(paystack: Adapter) -> None:
    for name, amount, claimed in (
        ("webhook_charge", 1, Decimal("0.01")),
        # The smaller of the two amounts in the webhook is the requested amount.
        ("webhook_charge", "101551", Decimal("1015.5")),
        ("webhook_transfer", 500050.5, Decimal("5000.505")),
        ("webhook_transfer", "500050", Decimal("5000.50")),
    ):
        event = read(paystack, example(name, amount=amount))
        assert isinstance(event, WebhookEvent)
        assert event.claim == Claim(claimed, "NGN")


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("success", TransferStatus.DELIVERED),
        ("failed", TransferStatus.FAILED),
        ("reversed", TransferStatus.RETURNED),
    ],
)
def test_a_transfer(paystack: Adapter, word: str, status: TransferStatus) -> None:
    document = example("webhook_transfer") | {"event": f"transfer.{word}"}
    claim = Claim(Decimal("5000.50"), "NGN")
    assert read(paystack, document) == WebhookEvent(WebhookSubject.TRANSFER, TRX_ID, claim, status)


@pytest.mark.parametrize("word", ["pending", "processing", "processed", "failed"])
def test_a_refund_event_is_about_all_refunds_of_the_charge(paystack: Adapter, word: str) -> None:
    expected = WebhookEvent(WebhookSubject.CHARGE_REFUNDS, "TXN0-1")
    for name in ("webhook_refund_pending", "webhook_refund_failed"):
        assert read(paystack, example(name) | {"event": f"refund.{word}"}) == expected
    assert read(paystack, example("webhook_refund_needs_attention", "derived")) == expected


@pytest.mark.parametrize("word", ["create", "remind", "resolve"])
def test_a_dispute_event_identifies_only_the_dispute(paystack: Adapter, word: str) -> None:
    """The event's contents are not used, because the dispute's state is queried."""
    document = example("webhook_dispute", refund_amount=1, status="resolved")
    document["event"] = f"charge.dispute.{word}"
    assert read(paystack, document) == WebhookEvent(WebhookSubject.DISPUTE, "2867")


@pytest.mark.parametrize(
    "document",
    [
        example("webhook_transfer_rejected"),
        {"event": "charge.dispute.create", "data": {"id": "28/67"}},
        {"event": "charge.dispute.create", "data": {"status": "resolved"}},
        {"event": "charge.dispute.closed", "data": {"id": 1}},
        {"event": "transfer.pending", "data": {"reference": "txn1"}},
        {"event": "charge.success", "data": {}},
        {"event": "charge.success", "data": {"reference": 5}},
        {"event": "charge.success", "data": [1]},
        {"event": "transfer.success", "data": "txn1"},
        {"event": "refund.processed", "data": {"refund_reference": "1"}},
        {"event": None, "data": {}},
        {"data": {"reference": "TXN0-1"}},
        {},
        [1],
        b"not json",
        b'{"event": "charge.success", "event": "charge.success", "data": {}}',
    ],
)
def test_signed_webhooks_that_are_not_used(paystack: Adapter, document: Any) -> None:
    assert isinstance(read(paystack, document), Unreadable)
