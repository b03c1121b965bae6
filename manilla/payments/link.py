"""Signed, expiring links to checkout."""

import hmac
import time
from datetime import datetime
from enum import StrEnum
from urllib.parse import urlencode, urlsplit, urlunsplit

from manilla.kit.crypto import Keyring
from manilla.payments.payment import Payment, PaymentStatus


class LinkState(StrEnum):
    GOOD = "good"
    EXPIRED = "expired"
    ALTERED = "altered"


class CheckoutLinks:
    def __init__(self, keyring: Keyring, base_url: str) -> None:
        self._keys = keyring.derive_all("checkout link")
        self._base_url = base_url

    def url(self, trx_id: str, expires_at: datetime, page: str = "") -> str:
        return f"{self._base_url}/checkout/{trx_id}{page}?{self.query(trx_id, expires_at)}"

    def query(self, trx_id: str, expires_at: datetime) -> str:
        expires = int(expires_at.timestamp())
        return f"expires={expires}&signature={_sign(self._keys[0], trx_id, str(expires))}"

    def check(self, trx_id: str, expires: str, signature: str) -> LinkState:
        given = signature.encode(errors="replace")
        # Links signed with a previous master key stay valid while the master key is rotated.
        if not any(
            hmac.compare_digest(_sign(key, trx_id, expires).encode(), given) for key in self._keys
        ):
            return LinkState.ALTERED
        return LinkState.GOOD if time.time() < int(expires) else LinkState.EXPIRED


def way_back(payment: Payment) -> str | None:
    """Returns the merchant's redirect URL with the payment's outcome as query parameters.

    The URL is stored with the payment, so this is not an open redirect.
    """
    target = (
        payment.success_redirect
        if payment.status is PaymentStatus.SUCCESS
        else payment.cancel_redirect
    )
    if target is None:
        return None
    added = urlencode(
        {"trx_id": payment.trx_id, "ref_trx": payment.ref_trx, "status": payment.status.value}
    )
    parts = urlsplit(target)
    query = f"{parts.query}&{added}" if parts.query else added
    return urlunsplit(parts._replace(query=query))


def _sign(key: bytes, trx_id: str, expires: str) -> str:
    return hmac.digest(key, f"{trx_id}.{expires}".encode(errors="replace"), "sha256").hex()
