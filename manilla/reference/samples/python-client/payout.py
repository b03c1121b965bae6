"""Finds a method and sends a payout with the client. Needs manilla-client."""

import os
import sys
import uuid
from decimal import Decimal

from manilla_client import ApiError, Client

shop = os.environ.get("SHOP_URL", "https://shop.example")
with Client.from_environment() as client:
    try:
        method = client.payout_methods("NGN").by_code("providera_ngn_transfer")
        payout = client.initiate_payout(
            payout_amount=Decimal("5000.25"),
            currency_code="NGN",
            ref_trx=f"PAYOUT-{uuid.uuid4().hex}",
            ipn_url=f"{shop}/ipn",
            withdraw_method_id=method.id,
            beneficiary={"bank_code": "058", "account_number": "0000000000"},
        )
    except ApiError as refusal:
        sys.exit(str(refusal))
print(payout.trx_id, payout.status)
