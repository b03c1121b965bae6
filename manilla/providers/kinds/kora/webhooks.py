"""Verifies and parses Kora's webhooks.

Kora signs only the value of `data`, with the secret key. The event's name is not signed, so it
determines only which transaction we query.
"""

from typing import Any

import msgspec
import structlog

from manilla.ledger import trx_ids
from manilla.providers import port, reading
from manilla.providers.checks import references
from manilla.providers.kinds.kora import accounts
from manilla.providers.reading import Malformed

log = structlog.get_logger(__name__)

SIGNATURE = b"x-korapay-signature"
EVENTS: dict[str, tuple[port.WebhookSubject, port.ReportedStatus]] = {
    "charge.success": (port.WebhookSubject.CHARGE, port.ReportedChargeStatus.PAID),
    "charge.failed": (port.WebhookSubject.CHARGE, port.ReportedChargeStatus.FAILED),
    "transfer.success": (port.WebhookSubject.TRANSFER, port.TransferStatus.DELIVERED),
    "transfer.failed": (port.WebhookSubject.TRANSFER, port.TransferStatus.FAILED),
    "transfer.reversed": (
        port.WebhookSubject.TRANSFER,
        port.TransferStatus.RETURNED,
    ),  # not documented
    "refund.success": (port.WebhookSubject.REFUND, port.ReportedRefundStatus.PAID),
    "refund.failed": (port.WebhookSubject.REFUND, port.ReportedRefundStatus.FAILED),
}


class SignedData(msgspec.Struct):
    data: msgspec.Raw  # the received bytes without changes


def read(provider: str, secret_key: bytes, headers: port.Headers, raw: bytes) -> port.Webhook:
    try:
        signed = bytes(msgspec.json.decode(raw, type=SignedData).data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return port.Forged()  # no signature is possible without a valid field `data`
    if not reading.is_hex_hmac(headers, SIGNATURE, secret_key, signed):
        _log_other_signature(provider, secret_key, headers, raw, signed)
        return port.Forged()
    # The strict decoder rejects repeated keys, so it parses the same `data` that was verified.
    return reading.webhook(raw, _event)


def _event(document: Any) -> port.WebhookEvent:
    event, data = reading.text(document, "event"), reading.field(document, "data")
    if event not in EVENTS:
        raise Malformed("the event is not in the contract")
    kind, status = EVENTS[event]
    is_charge, account_reference = kind is port.WebhookSubject.CHARGE, None
    if is_charge and accounts.is_transfer(data):
        kind, is_charge = port.WebhookSubject.ACCOUNT_TRANSFER, False
        account_reference = accounts.named_account(data)
    reference = _charge_reference(data) if is_charge else reading.text(data, "reference")
    word = event.rpartition(".")[2]
    claims_status = status if data.get("status") in (None, word) else None
    claim = reading.read_claim(data)
    return port.WebhookEvent(
        kind, reference, claim, claims_status, account_reference=account_reference
    )


def _charge_reference(data: Any) -> str:
    """Returns our reference. Sources disagree on which of the two fields has our reference."""
    names = ("reference", "payment_reference")
    given = [text for name in names if (text := reading.optional_text(data, name))]
    ours = {text for text in given if _is_ours(text)}
    if not given or len(ours) > 1:
        raise Malformed("there is not exactly one reference of ours")
    return ours.pop() if ours else given[0]


def _is_ours(reference: str) -> bool:
    is_of_check = references.is_of_check(reference)
    return is_of_check or trx_ids.merchant_of(reference.partition("-")[0]) is not None


def _log_other_signature(
    provider: str, secret_key: bytes, headers: port.Headers, raw: bytes, signed: bytes
) -> None:
    """Logs which other signature matches, so that operators notice a change at Kora.

    Kora's plugin for WooCommerce verifies the whole body with SHA-512.
    """
    ways = (
        ("data without spaces, SHA-256", msgspec.json.format(signed, indent=-1), "sha256"),
        ("body, SHA-256", raw, "sha256"),
        ("body, SHA-512", raw, "sha512"),
    )
    for way, content, digest in ways:
        if reading.is_hex_hmac(headers, SIGNATURE, secret_key, content, digest):
            log.error("kora_webhook_signed_differently", provider=provider, signed=way)
