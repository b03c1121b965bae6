"""Creates a payment with manilla-client, which signs requests and retries them."""

import os
import sys
import uuid
from decimal import Decimal

from manilla_client import ApiError, Client

shop = os.environ.get("SHOP_URL", "https://shop.example")
with Client.from_environment() as client:
    try:
        session = client.initiate_payment(
            payment_amount=Decimal("1500.50"),
            currency_code="NGN",
            ref_trx=f"ORDER-{uuid.uuid4().hex}",
            success_redirect=f"{shop}/paid",
            cancel_redirect=f"{shop}/basket",
            ipn_url=f"{shop}/ipn",
        )
    except ApiError as refusal:
        sys.exit(str(refusal))
print(session.trx_id, session.payment_url)
