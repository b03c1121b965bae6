import hashlib
import hmac
import os
import sys


def verify(raw_body: bytes, signature_header: str, secret: str) -> bool:
    """Verifies that a notification is from Manilla. Pass the raw bytes of the body."""
    if not secret:
        return False
    expected = hmac.new(secret.encode(), raw_body, hashlib.sha256).hexdigest()
    given = (signature_header or "").removeprefix("sha256=")
    return hmac.compare_digest(expected.encode(), given.encode(errors="replace"))


if __name__ == "__main__":
    with open(sys.argv[1], "rb") as file:
        secret = os.environ["MANILLA_API_SECRET"]
        sys.exit(0 if verify(file.read(), sys.argv[2], secret) else 1)
