"""The signature as the specification has it, written apart from the product's own."""

import hashlib
import hmac


def sign(secret: str, timestamp: str, method: str, target: str, body: bytes) -> str:
    string = f"{timestamp}.{method}.{target}.".encode() + body
    return hmac.new(secret.encode(), string, hashlib.sha256).hexdigest()
