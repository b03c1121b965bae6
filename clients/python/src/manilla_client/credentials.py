"""Credentials and request signing."""

import hmac
import os
import re
from dataclasses import dataclass, field

SANDBOX_PREFIX = "test_"
_VALID = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True)
class Credentials:
    """A merchant key, API key and API secret. Their prefix identifies the environment."""

    merchant_key: str
    api_key: str = field(repr=False)
    api_secret: str = field(repr=False)

    def __post_init__(self) -> None:
        given = (self.merchant_key, self.api_key, self.api_secret)
        for name, value in zip(("merchant_key", "api_key", "api_secret"), given, strict=True):
            if not _VALID.fullmatch(value):  # The message must not contain the value.
                raise ValueError(f"{name} must be printable ASCII characters without spaces.")
        if len({each.startswith(SANDBOX_PREFIX) for each in given}) != 1:
            raise ValueError("The credentials belong to different environments.")

    @classmethod
    def from_environment(cls) -> "Credentials":
        """Reads MANILLA_MERCHANT_KEY, MANILLA_API_KEY and MANILLA_API_SECRET."""
        return cls(
            _set("MANILLA_MERCHANT_KEY"), _set("MANILLA_API_KEY"), _set("MANILLA_API_SECRET")
        )

    @property
    def environment(self) -> str:
        is_sandbox = self.merchant_key.startswith(SANDBOX_PREFIX)
        return "sandbox" if is_sandbox else "production"

    def headers(self, timestamp: int, method: str, target: str, body: bytes) -> dict[str, str]:
        return {
            "X-Environment": self.environment,
            "X-Merchant-Key": self.merchant_key,
            "X-API-Key": self.api_key,
            "X-Timestamp": str(timestamp),
            "X-Signature": sign(self.api_secret, timestamp, method, target, body),
        }


def url_of_environment() -> str:
    return _set("MANILLA_URL")


def _set(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise ValueError(f"{name} is not set in the environment.")
    return value


def sign(secret: str, timestamp: int, method: str, target: str, body: bytes) -> str:
    """Signs the exact bytes that are sent: the path with its query string, and the body."""
    signed = f"{timestamp}.{method}.{target}.".encode() + body
    return hmac.digest(secret.encode(), signed, "sha256").hex()
