"""Signs a request and creates a payment. Needs Python 3.9 or newer, standard library only."""

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


def post(target: str, body: bytes, idempotency_key: str) -> str:
    timestamp = str(int(time.time()))
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json",
        "X-Environment": "sandbox",
        "X-Merchant-Key": os.environ["MANILLA_MERCHANT_KEY"],
        "X-API-Key": os.environ["MANILLA_API_KEY"],
        "X-Timestamp": timestamp,
        "X-Signature": sign(timestamp, "POST", target, body),
        "Idempotency-Key": idempotency_key,  # makes a retry safe
    }
    request = urllib.request.Request(os.environ["MANILLA_URL"] + target, body, headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.read().decode()
    except urllib.error.HTTPError as refusal:
        sys.exit(refusal.read().decode())


shop = os.environ.get("SHOP_URL", "https://shop.example")
amount = "1500.50"  # from your books, as text or Decimal: a float would round large amounts
order = {
    "currency_code": "NGN",
    "ref_trx": f"ORDER-{uuid.uuid4().hex}",
    "success_redirect": f"{shop}/paid",
    "cancel_redirect": f"{shop}/basket",
    "ipn_url": f"{shop}/ipn",
}
# The json module cannot write exact decimals, so the amount is inserted as text.
body = f'{{"payment_amount": {amount}, {json.dumps(order)[1:]}'.encode()
print(post("/api/v1/initiate-payment", body, order["ref_trx"]))
