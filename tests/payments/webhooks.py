"""Signs webhooks as the simulated providers do, so that tests can send invalid ones."""

import hmac
import json
from decimal import Decimal
from typing import Any

from tests.client import Reply, Site

SIGNED_WITH = {
    "providera": ("x-providera-signature", "sim_a_webhook", "sha256"),
    "providerb": ("Providerb-Signature", "sim_b_secret", "sha512"),
    "providerc": ("X-ProviderC-Signature", "sim_c_webhook", "sha256"),
}


def paid(provider: str, reference: str, amount: str = "1000.00", currency: str = "NGN") -> Any:
    """A provider's webhook about a paid charge."""
    value = float(Decimal(amount))
    match provider:
        case "providera":
            data = {"reference": reference, "status": "success", "amount": value, "fee": 15}
            return {"event": "charge.success", "data": {**data, "currency": currency}}
        case "providerb":
            order = {"amount": value, "settlement_amount": value, "fee": 10, "currency": currency}
            return {"transaction": {"reference": reference}, "order": order, "code": "00"}
    data = {"id": 1, "tx_ref": reference, "status": "successful", "amount": value}
    return {"event": "charge.completed", "data": {**data, "currency": currency}}


async def send(site: Site, provider: str, document: Any, **changed: Any) -> Reply:
    """Sends a signed webhook.

    `signed=` signs other bytes, `secret=` uses another key, `header=` another header name.
    """
    raw = document if isinstance(document, bytes) else json.dumps(document).encode()
    header, secret, digest = SIGNED_WITH[provider]
    key = changed.get("secret", secret).encode()
    signature = hmac.digest(key, changed.get("signed", raw), digest).hex()
    headers = {changed.get("header", header): signature, "Content-Type": "application/json"}
    return await site.send("POST", f"/webhooks/{provider}", headers, raw)
