"""Finds a method and sends a payout. Needs Python 3.9 or newer, standard library only."""

import hashlib
import hmac
import json
import os
import sys
import time
import urllib.error
import urllib.request
import uuid


def sign(timestamp: str, method: str, target: str, body: bytes) -> str:
    signed = f"{timestamp}.{method}.{target}.".encode() + body
    return hmac.new(os.environ["MANILLA_API_SECRET"].encode(), signed, hashlib.sha256).hexdigest()


def call(method: str, target: str, body: bytes = b"", **more: str) -> str:
    timestamp = str(int(time.time()))
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json",
        "X-Environment": "sandbox",
        "X-Merchant-Key": os.environ["MANILLA_MERCHANT_KEY"],
        "X-API-Key": os.environ["MANILLA_API_KEY"],
        "X-Timestamp": timestamp,
        "X-Signature": sign(timestamp, method, target, body),
        **more,
    }
    url = os.environ["MANILLA_URL"] + target
    request = urllib.request.Request(url, body or None, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.read().decode()
    except urllib.error.HTTPError as refusal:
        sys.exit(refusal.read().decode())


# Identify methods by their code, because ids differ between installations.
methods = json.loads(call("GET", "/api/v1/payout-methods?currency=NGN"))["methods"]
ids = {method["method_code"]: method["id"] for method in methods}

shop = os.environ.get("SHOP_URL", "https://shop.example")
amount = "5000.25"  # from your books, as text or Decimal: a float would round large amounts
order = {
    "currency_code": "NGN",
    "ref_trx": f"PAYOUT-{uuid.uuid4().hex}",
    "ipn_url": f"{shop}/ipn",
    "withdraw_method_id": ids["providera_ngn_transfer"],
    "beneficiary": {"bank_code": "058", "account_number": "0000000000"},
}
# The json module cannot write exact decimals, so the amount is inserted as text.
body = f'{{"payout_amount": {amount}, {json.dumps(order)[1:]}'.encode()
# The Idempotency-Key makes it safe to retry this request after a timeout.
print(call("POST", "/api/v1/initiate-payout", body, **{"Idempotency-Key": order["ref_trx"]}))
