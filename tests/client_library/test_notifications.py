"""Which notifications the client library accepts and which it rejects."""

import hashlib
import hmac
import json
import time
from decimal import Decimal
from typing import Any

import pytest
from manilla_client import (
    BadNotification,
    NotificationTooOld,
    SignatureMismatch,
    sign_ipn,
    verify_ipn,
)

from manilla.notify import signing

SECRET = "test_8agexnprjqkqk1mb4syas8cq43q2qe0m"


def document(**changed: Any) -> bytes:
    data = {
        "ref_trx": "ORDER-1001",
        "trx_id": "TXN1",
        "description": "Owó ₦43 🎉",
        "currency_code": "NGN",
        "environment": "sandbox",
        "amount": "@",
    }
    notified = {
        "event": "payment",
        "data": data,
        "message": "Payment Completed",
        "status": "completed",
    }
    whole = {**notified, "timestamp": int(time.time()), **changed}
    return json.dumps(whole, ensure_ascii=False).replace('"@"', "90071992547409.93").encode()


def sent(body: bytes, *, age_seconds: int = 0, secret: str = SECRET) -> dict[str, str]:
    """The HTTP headers that Manilla sends with a notification."""
    return signing.headers(
        secret.encode(),
        notification_id="msg_1",
        environment="sandbox",
        body=body,
        now=int(time.time()) - age_seconds,
    )


def plain(body: bytes, prefix: str = "") -> dict[str, str]:
    return {"x-signature": prefix + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()}


def test_notifications_from_the_service_are_accepted() -> None:
    body = document()
    notified = verify_ipn(body, sent(body), SECRET)
    assert (notified.event, notified.status, notified.trx_id) == ("payment", "completed", "TXN1")
    assert (notified.id, notified.ref_trx, notified.currency_code) == ("msg_1", "ORDER-1001", "NGN")
    assert notified.amount == notified.data["amount"] == Decimal("90071992547409.93")
    assert notified.is_sandbox
    assert notified.handled_once_by == ("payment", "TXN1", "completed", "")
    assert verify_ipn(body, sent(body), signing.standard_key(SECRET.encode())) == notified


@pytest.mark.parametrize("prefix", ["", "sha256="])
def test_the_plain_signature_alone_is_sufficient(prefix: str) -> None:
    body = document()
    notified = verify_ipn(body, plain(body, prefix), SECRET)
    assert (notified.id, notified.trx_id) == (None, "TXN1")


def test_any_of_several_signatures_may_match_with_header_names_in_any_case() -> None:
    body = document()
    headers = sent(body)
    signature = headers.pop("webhook-signature")
    headers["WEBHOOK-SIGNATURE"] = f"v1,AAAA {signature} v2,what"
    assert verify_ipn(body, headers, SECRET).id == "msg_1"


def test_legacy_notifications_are_read_too() -> None:
    flat = {"event": "payment.success", "trx_id": "TXN2", "amount": 1500, "currency": "NGN"}
    body = json.dumps({**flat, "status": "completed"}).encode()
    notified = verify_ipn(body, sent(body), SECRET)
    assert (notified.event, notified.trx_id, notified.amount) == (
        *("payment.success", "TXN2", Decimal(1500)),
    )
    assert (notified.currency_code, notified.environment) == ("NGN", "sandbox")
    with pytest.raises(NotificationTooOld):
        verify_ipn(body, plain(body), SECRET)
    assert verify_ipn(body, plain(body), SECRET, tolerance_seconds=None).trx_id == "TXN2"


def test_changed_bytes_or_another_secret_do_not_match() -> None:
    body = document()
    for headers in (sent(body), plain(body)):
        for altered in (body + b"\n", body.replace(b"TXN1", b"TXN2"), b""):
            with pytest.raises(SignatureMismatch):
                verify_ipn(altered, headers, SECRET)
        with pytest.raises(SignatureMismatch):
            verify_ipn(body, headers, SECRET + "x")


@pytest.mark.parametrize(
    "signature", ["", "sha256=", "0" * 64, "sha256=sha256=", "ẹ" * 64, "\ud800"]
)
def test_a_malformed_signature_does_not_match(signature: str) -> None:
    for name in ("X-Signature", "webhook-signature"):
        with pytest.raises(SignatureMismatch):
            verify_ipn(document(), {name: signature}, SECRET)
    with pytest.raises(SignatureMismatch):
        verify_ipn(document(), {}, SECRET)


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp"])
def test_the_id_and_the_timestamp_are_signed(name: str) -> None:
    body = document()
    for other in ({name: "1"}, {}):
        headers = {key: value for key, value in sent(body).items() if key != name}
        with pytest.raises(SignatureMismatch):
            verify_ipn(body, headers | other, SECRET)


@pytest.mark.parametrize("age_seconds", [3600, -3600])
def test_a_replayed_notification_is_rejected_with_and_without_its_timestamp(
    age_seconds: int,
) -> None:
    body = document(timestamp=int(time.time()) - age_seconds)
    for headers in (sent(body, age_seconds=age_seconds), plain(body)):
        with pytest.raises(NotificationTooOld):
            verify_ipn(body, headers, SECRET)
        assert verify_ipn(body, headers, SECRET, tolerance_seconds=7200).trx_id == "TXN1"
        assert verify_ipn(body, headers, SECRET, tolerance_seconds=None).trx_id == "TXN1"


def test_a_notification_redelivered_much_later_is_accepted() -> None:
    body = document(timestamp=1767323045)
    assert verify_ipn(body, sent(body), SECRET).timestamp == 1767323045


@pytest.mark.parametrize("secret", ["", "whsec_"])
def test_an_empty_secret_verifies_nothing(secret: str) -> None:
    body = document()
    with pytest.raises(ValueError, match="empty"):
        verify_ipn(body, {"X-Signature": hmac.new(b"", body, hashlib.sha256).hexdigest()}, secret)


@pytest.mark.parametrize(
    "body",
    [b"", b"\xff", b"[]", b"{}", b'{"event": 1}', b'{"event": "x", "status": "y", "data": []}'],
)
def test_a_signed_body_that_is_not_a_notification_is_rejected(body: bytes) -> None:
    with pytest.raises(BadNotification):
        verify_ipn(body, sent(body), SECRET)


def test_notifications_can_be_signed_to_test_a_receiver() -> None:
    body = document()
    made = sign_ipn(body, SECRET, id="msg_1", environment="sandbox")
    now = int(made["X-Timestamp"])
    assert made == signing.headers(
        SECRET.encode(), notification_id="msg_1", environment="sandbox", body=body, now=now
    )
    assert verify_ipn(body, made, SECRET).id == "msg_1"
