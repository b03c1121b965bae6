"""The demo user, whom one click signs in; in development mode only.

The password is derived from the master key, so it differs between installations.
"""

import msgspec

from manilla.kit.crypto import Keyring

EMAIL = "demo@example.com"


class Show(msgspec.Struct, frozen=True):
    email: str
    password: str


def of(keyring: Keyring) -> Show:
    return Show(EMAIL, keyring.derive("demo:password").hex()[:24])
