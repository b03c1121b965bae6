"""Lists payments page by page: list_payments.py QUERY, e.g. limit=100. Requires Python 3.9."""

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


target = f"/api/v1/payments?{sys.argv[1]}"
cursor = ""
while cursor is not None:  # on the last page, next_cursor is null
    page = json.loads(get(target + (cursor and f"&cursor={cursor}")), parse_float=Decimal)
    for payment in page["data"]:
        print(payment["created_at"], payment["trx_id"], payment["status"])
    cursor = page["next_cursor"]
