"""The demonstration's people: in development mode alone, let in by a click.

Their password follows from the master key, so it is another one in every installation.
"""

import msgspec

from manilla.kit.crypto import Keyring

EMAIL = "demo@example.com"


class Show(msgspec.Struct, frozen=True):
    email: str
    password: str


def of(keyring: Keyring) -> Show:
    return Show(EMAIL, keyring.derive("demo:password").hex()[:24])
