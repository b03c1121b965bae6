"""The demo users, who can sign in with one click. They exist only in development mode.

The password is derived from the master key, so it differs between installations.
"""

import msgspec

from manilla.kit.crypto import Keyring

EMAIL = "demo@example.com"
# The second member of the demo merchant's team, who approves what the owner requests.
SECOND_EMAIL = "demo-finance@example.com"


class DemoLogin(msgspec.Struct, frozen=True):
    email: str
    password: str
    second_email: str = SECOND_EMAIL


def of(keyring: Keyring) -> DemoLogin:
    return DemoLogin(EMAIL, keyring.derive("demo:password").hex()[:24])
