"""Refunds a payment and verifies the refund: refund.py TRX_ID. Needs Python 3.9 or newer."""

import hashlib
import hmac
import json
import os
import sys
import time
import urllib.error
import urllib.request


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


payment = sys.argv[1]
reference = f"REFUND-{payment}"  # unique per refund, so a retry does not refund twice
# If `amount` is omitted, the remaining amount is refunded.
body = json.dumps({"trx_id": payment, "ref_trx": reference}).encode()
refund = json.loads(call("POST", "/api/v1/initiate-refund", body, **{"Idempotency-Key": reference}))

answer = call("GET", f"/api/v1/verify-refund/{refund['trx_id']}")
print(answer)
# If the refund is still pending, wait for the notification, or verify it again later.
sys.exit(1 if json.loads(answer)["status"] == "failed" else 0)
