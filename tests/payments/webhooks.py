"""Signs webhooks like the simulated providers, so that tests can send invalid webhooks."""

from decimal import Decimal
from typing import Any

from tests.support import kinds
from tests.support.client import Reply, Site


def paid(provider: str, reference: str, amount: str = "1000.00", currency: str = "NGN") -> Any:
    return kinds.BY_PROVIDER[provider].paid(reference, float(Decimal(amount)), currency)


async def send(site: Site, provider: str, document: Any, **changed: Any) -> Reply:
    """Sends a signed webhook.

    `signed=` signs different bytes, `secret=` uses a different key, `header=` uses a different
    header name, `to=` sends the webhook to another account's URL, and `more=` adds headers.
    """
    raw, kind = kinds.encoded(document), kinds.BY_PROVIDER[provider]
    signature = kind.signature(changed.get("signed", raw), changed.get("secret"))
    header = changed.get("header", kind.signature_header)
    headers = {header: signature, "Content-Type": "application/json"}
    headers |= changed.get("more", {})
    return await site.send("POST", f"/webhooks/{changed.get('to', provider)}", headers, raw)
