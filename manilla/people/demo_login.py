"""The demo user, who can sign in with one click. Exists only in development mode.

The password is derived from the master key, so it differs between installations.
"""

import msgspec

from manilla.kit.crypto import Keyring

EMAIL = "demo@example.com"


class DemoLogin(msgspec.Struct, frozen=True):
    email: str
    password: str


def of(keyring: Keyring) -> DemoLogin:
    return DemoLogin(EMAIL, keyring.derive("demo:password").hex()[:24])
