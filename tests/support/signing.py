"""The API signature as specified, implemented independently of Manilla."""

import hashlib
import hmac


def sign(secret: str, timestamp: str, method: str, target: str, body: bytes) -> str:
    string = f"{timestamp}.{method}.{target}.".encode() + body
    return hmac.new(secret.encode(), string, hashlib.sha256).hexdigest()
