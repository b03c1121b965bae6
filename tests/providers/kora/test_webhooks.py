"""Kora's webhooks. The signature covers only the bytes of `data`, and uses the secret key."""

import hashlib
import hmac
import json
from decimal import Decimal
from typing import Any

import pytest
import structlog

from manilla.providers.port import (
    Adapter,
    Claim,
    Forged,
    ReportedChargeStatus,
    ReportedRefundStatus,
    TransferStatus,
    Unreadable,
    WebhookEvent,
    WebhookSubject,
)
from tests.providers.kora.samples import KORA_REFERENCE, REFERENCE, TRX_ID

KEY = b"sk_live_k"
HEADER = b"x-korapay-signature"
Signed = tuple[dict[bytes, list[bytes]], bytes]

# The data is Kora's documented example with our values.
# The signature is the output of: printf '%s' "$DATA" | openssl dgst -sha256 -hmac sk_live_k
VECTOR_DATA = (
    '{"fee":15,"amount":150.99,"status":"success","currency":"NGN","reference":"Z78EYMAUBQ5"}'
)
VECTOR_SIGNATURE = b"f98fcda1f63a8d79196c789e32e7d6cf39ac2a577a08fa9f9e01febdb1751f28"


def sign(data: bytes, digest: Any = hashlib.sha256, key: bytes = KEY) -> dict[bytes, list[bytes]]:
    return {HEADER: [hmac.new(key, data, digest).hexdigest().encode()]}


def signed(event: Any, data: Any) -> Signed:
    raw = json.dumps(data, separators=(",", ":")).encode()
    document = b'{"event":%b,"data":%b}' % (json.dumps(event).encode(), raw)
    return sign(raw), document


def transfer(**fields: Any) -> dict[str, Any]:
    data = {"fee": 15, "amount": 150.99, "status": "success", "currency": "NGN"}
    return {**data, "reference": TRX_ID, **fields}


def test_the_signature_of_the_documented_example(kora: Adapter) -> None:
    raw = f'{{"event":"transfer.success","data":{VECTOR_DATA}}}'.encode()
    event = WebhookEvent(
        *(WebhookSubject.TRANSFER, "Z78EYMAUBQ5", Claim(Decimal("150.99"), "NGN")),
        TransferStatus.DELIVERED,
    )
    assert kora.read_webhook({HEADER: [VECTOR_SIGNATURE]}, raw) == event
    assert kora.read_webhook({HEADER: [VECTOR_SIGNATURE.upper()]}, raw) == event
    assert kora.read_webhook({HEADER: [VECTOR_SIGNATURE] * 2}, raw) == Forged()
    assert kora.read_webhook({HEADER: [b""]}, raw) == Forged()
    assert kora.read_webhook({}, raw) == Forged()
    assert kora.read_webhook({HEADER: [VECTOR_SIGNATURE]}, raw.replace(b"150", b"151")) == Forged()


@pytest.mark.parametrize(
    ("event", "kind", "status"),
    [
        ("charge.success", WebhookSubject.CHARGE, ReportedChargeStatus.PAID),
        ("charge.failed", WebhookSubject.CHARGE, ReportedChargeStatus.FAILED),
        ("transfer.success", WebhookSubject.TRANSFER, TransferStatus.DELIVERED),
        ("transfer.failed", WebhookSubject.TRANSFER, TransferStatus.FAILED),
        ("transfer.reversed", WebhookSubject.TRANSFER, TransferStatus.RETURNED),
        ("refund.success", WebhookSubject.REFUND, ReportedRefundStatus.PAID),
        ("refund.failed", WebhookSubject.REFUND, ReportedRefundStatus.FAILED),
    ],
)
def test_each_event(kora: Adapter, event: str, kind: WebhookSubject, status: Any) -> None:
    data = transfer(status=event.partition(".")[2], amount="1015.50")
    claim = Claim(Decimal("1015.50"), "NGN")
    assert kora.read_webhook(*signed(event, data)) == WebhookEvent(kind, TRX_ID, claim, status)
    del data["status"]
    assert kora.read_webhook(*signed(event, data)) == WebhookEvent(kind, TRX_ID, claim, status)


@pytest.mark.parametrize("event", ["charge.success", "transfer.failed", "refund.success"])
def test_an_event_that_its_signed_data_contradicts_claims_nothing(
    kora: Adapter, event: str
) -> None:
    """The signature does not cover the event's name, so an attacker may have changed the name."""
    other = "failed" if event.endswith("success") else "success"
    read = kora.read_webhook(*signed(event, transfer(status=other)))
    assert isinstance(read, WebhookEvent)
    assert read.claims_status is None


@pytest.mark.parametrize(
    "fields",
    [
        {"reference": REFERENCE},
        {"payment_reference": REFERENCE},
        {"reference": REFERENCE, "payment_reference": REFERENCE},
        {"reference": KORA_REFERENCE, "payment_reference": REFERENCE},
        {"reference": REFERENCE, "payment_reference": KORA_REFERENCE},
    ],
)
def test_a_charge_is_found_by_our_reference_in_either_field(
    kora: Adapter, fields: dict[str, str]
) -> None:
    read = kora.read_webhook(*signed("charge.success", {"status": "success", **fields}))
    assert isinstance(read, WebhookEvent)
    assert read.reference == REFERENCE


def test_a_charge_without_our_reference_keeps_koras_so_that_a_case_opens(kora: Adapter) -> None:
    data = {"reference": KORA_REFERENCE, "payment_reference": "KPY-PAY-2"}
    read = kora.read_webhook(*signed("charge.success", data))
    assert isinstance(read, WebhookEvent)
    assert read.reference == KORA_REFERENCE
    both = {"reference": REFERENCE, "payment_reference": f"{TRX_ID}-2"}
    assert isinstance(kora.read_webhook(*signed("charge.success", both)), Unreadable)
    assert isinstance(kora.read_webhook(*signed("charge.success", {"amount": 1})), Unreadable)


def test_a_refund_is_found_by_its_own_reference(kora: Adapter) -> None:
    data = transfer(payment_reference=REFERENCE)
    read = kora.read_webhook(*signed("refund.success", data))
    assert isinstance(read, WebhookEvent)
    assert (read.kind, read.reference) == (WebhookSubject.REFUND, TRX_ID)


def test_the_signed_bytes_are_those_received(kora: Adapter) -> None:
    """The signature is checked with the received bytes, including spaces, key order and escapes."""
    data = b'{ "reference" : "%b", "amount": 1.50,"name":"Ad\\u00e9" }' % TRX_ID.encode()
    raw = b'\n{"data" :  %b , "event": "transfer.success"} ' % data
    read = kora.read_webhook(sign(data), raw)
    assert isinstance(read, WebhookEvent)
    assert read.claim == Claim(Decimal("1.50"))


@pytest.mark.parametrize(
    ("content", "digest", "way"),
    [
        ("body", hashlib.sha512, "body, SHA-512"),
        ("body", hashlib.sha256, "body, SHA-256"),
        ("compact", hashlib.sha256, "data without spaces, SHA-256"),
    ],
)
def test_another_way_of_signing_is_rejected_and_logged(
    kora: Adapter, content: str, digest: Any, way: str
) -> None:
    compact = json.dumps(transfer(), separators=(",", ":")).encode()
    raw = b'{"event": "transfer.success", "data": %b}' % json.dumps(transfer()).encode()
    headers = sign(raw if content == "body" else compact, digest)
    with structlog.testing.capture_logs() as logs:
        assert kora.read_webhook(headers, raw) == Forged()
    assert [each["signed"] for each in logs] == [way]
    assert KEY.decode() not in str(logs)
    with structlog.testing.capture_logs() as logs:
        assert kora.read_webhook(sign(raw, key=b"other"), raw) == Forged()
    assert logs == []


@pytest.mark.parametrize(
    "raw",
    [
        *(b"", b"null", b"[]", b"{}", b"x", b'"data"', b'{"event":"transfer.success"}', b"\xff"),
        *(b'{"data":' + b"[" * 100_000, b'{"data":' + b"[" * 5000 + b"]" * 5000 + b"}"),
    ],
)
def test_a_body_without_data_is_forged(kora: Adapter, raw: bytes) -> None:
    assert kora.read_webhook(sign(raw), raw) == Forged()
    assert kora.read_webhook({}, raw) == Forged()


@pytest.mark.parametrize("data", [None, [], "x", 1, {}, {"reference": 5}, {"reference": ""}])
@pytest.mark.parametrize("event", ["charge.success", "transfer.success", "refund.failed"])
def test_signed_data_without_a_reference_is_unreadable(
    kora: Adapter, event: str, data: Any
) -> None:
    assert isinstance(kora.read_webhook(*signed(event, data)), Unreadable)


@pytest.mark.parametrize("event", ["transfer.pending", "charge.pending", "", None, 5, ["x"]])
def test_an_event_that_is_not_documented_is_unreadable(kora: Adapter, event: Any) -> None:
    assert isinstance(kora.read_webhook(*signed(event, transfer())), Unreadable)


def test_a_second_data_value_cannot_hide_behind_the_signed_one(kora: Adapter) -> None:
    headers, _ = signed("transfer.success", transfer())
    good = json.dumps(transfer(), separators=(",", ":")).encode()
    bad = json.dumps(transfer(reference="TXNX"), separators=(",", ":")).encode()
    for first, second in ((good, bad), (bad, good)):
        raw = b'{"event":"transfer.success","data":%b,"data":%b}' % (first, second)
        assert not isinstance(kora.read_webhook(headers, raw), WebhookEvent)


@pytest.mark.parametrize("amount", [True, [1], "x", {"a": 1}, 1e300])
def test_an_unreadable_amount_agrees_with_none(kora: Adapter, amount: Any) -> None:
    read = kora.read_webhook(*signed("transfer.success", transfer(amount=amount)))
    assert isinstance(read, WebhookEvent)
    assert read.claim is not None
    assert read.claim.amount is not None
    assert read.claim.amount.is_nan()
