import base64
import hashlib
import hmac
import os
import sys
import time


def verify(raw_body: bytes, id: str, timestamp: str, signatures: str, secret: str) -> bool:
    """Verifies that a webhook is from Manilla. Pass the raw body and the three webhook- headers."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    if not key:
        return False
    signed = f"{id}.{timestamp}.".encode(errors="replace") + raw_body
    expected = b"v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())
    given = signatures.encode(errors="replace").split(b" ")  # two signatures after a rotation
    if not any(hmac.compare_digest(expected, each) for each in given):
        return False
    return abs(time.time() - int(timestamp)) <= 300  # an older webhook may be a replay


if __name__ == "__main__":
    with open(sys.argv[1], "rb") as file:
        secret = os.environ["MANILLA_WEBHOOK_SECRET"]
        sys.exit(0 if verify(file.read(), *sys.argv[2:5], secret) else 1)
