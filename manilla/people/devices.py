"""Known devices: browsers that a user has signed in with before.

An attacker who tries passwords can use up an account's attempts. The user must not be locked out by
that, so a browser that sends the device cookie has a separate count of attempts. The cookie does
not sign the user in. It is signed, bound to the realm and the user, and allows no more attempts
than a browser without the cookie has.
"""

import hashlib
import hmac
import secrets
import time
from datetime import timedelta

from manilla.kit.crypto import Keyring
from manilla.people.roles import Realm

LASTS = timedelta(days=365)
LENGTH_MAX = 200


def issue(keyring: Keyring, realm: Realm, person_id: int) -> str:
    expires_at = int(time.time() + LASTS.total_seconds())
    body = f"{person_id}.{expires_at}.{secrets.token_hex(12)}"
    return f"{body}.{_macs(keyring, realm, body)[0]}"


def read(keyring: Keyring, realm: Realm, person_id: int, cookie: str) -> str | None:
    """Returns the device's id, or None if the cookie is invalid or belongs to another user."""
    body, _, mac = cookie[:LENGTH_MAX].rpartition(".")
    given = mac.encode("utf-8", "replace")
    if not any(hmac.compare_digest(each.encode(), given) for each in _macs(keyring, realm, body)):
        return None
    owner, expires_at, device = body.split(".")
    if int(owner) != person_id or int(expires_at) < time.time():
        return None
    return device


def _macs(keyring: Keyring, realm: Realm, body: str) -> list[str]:
    return [
        hmac.digest(key, body.encode("utf-8", "replace"), hashlib.sha256).hex()
        for key in keyring.derive_all(f"known-device:{realm}")
    ]
