"""Verifies a payment: verify_payment.py TRX_ID. Needs Python 3.9 or newer, no packages."""

import hashlib
import hmac
import json
import os
import sys
import time
import urllib.error
import urllib.request
from decimal import Decimal


def sign(timestamp: str, method: str, target: str, body: bytes) -> str:
    signed = f"{timestamp}.{method}.{target}.".encode() + body
    return hmac.new(os.environ["MANILLA_API_SECRET"].encode(), signed, hashlib.sha256).hexdigest()


def get(target: str) -> str:
    timestamp = str(int(time.time()))
    headers = {
        "Accept": "application/json",
        "X-Environment": "sandbox",
        "X-Merchant-Key": os.environ["MANILLA_MERCHANT_KEY"],
        "X-API-Key": os.environ["MANILLA_API_KEY"],
        "X-Timestamp": timestamp,
        "X-Signature": sign(timestamp, "GET", target, b""),
    }
    request = urllib.request.Request(os.environ["MANILLA_URL"] + target, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.read().decode()
    except urllib.error.HTTPError as refusal:
        sys.exit(refusal.read().decode())


answer = get(f"/api/v1/verify-payment/{sys.argv[1]}")
payment = json.loads(answer, parse_float=Decimal)
print(answer)
# Fulfill the order only on success, and only if amount and currency match your order.
sys.exit(0 if payment["status"] == "success" else 1)
