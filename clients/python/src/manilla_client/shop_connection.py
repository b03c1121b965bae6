"""Reads the text of "Connect a shop" in the dashboard."""

import base64
import json
from dataclasses import dataclass, field

from manilla_client.credentials import Credentials

PREFIX = "manilla_shop_1_"
_NAMES = (
    *("url", "environment", "merchant_key", "api_key", "api_secret"),
    *("webhook_endpoint", "webhook_secret"),
)


@dataclass(frozen=True, slots=True)
class ShopConnection:
    """What a shop needs to take payments. Treat its text like a password."""

    url: str
    credentials: Credentials
    webhook_endpoint: str
    webhook_secret: str = field(repr=False)  # for `verify_webhook`

    @classmethod
    def read(cls, text: str) -> "ShopConnection":
        """Raises ValueError if the text is incomplete or something else."""
        url, environment, *keys, endpoint, secret = _read(text.strip())
        credentials = Credentials(*keys)
        if credentials.environment != environment:
            raise ValueError("The credentials belong to another environment.")
        return cls(url, credentials, endpoint, secret)


def _read(text: str) -> list[str]:
    encoded = text.removeprefix(PREFIX)
    try:
        padded = encoded + "=" * (-len(encoded) % 4)
        found = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        values = [found[name] for name in _NAMES]
    except (ValueError, KeyError, TypeError):
        values = []
    is_complete = encoded != text and values
    if not is_complete or not all(isinstance(each, str) and each for each in values):
        # The message must not contain the text.
        raise ValueError("This is not the whole text of a shop's connection.") from None
    return values
