"""Stores email and password between the two sign-in steps, encrypted in a form field."""

import base64
import binascii
import time

import msgspec

from manilla.kit.crypto import Keyring, SealError

SECONDS = 300


class PendingSignIn(msgspec.Struct, frozen=True):
    email: str
    password: str
    until: float


def write(keyring: Keyring, browser: str, email: str, password: str) -> str:
    """Encrypts email and password. The ciphertext is valid for five minutes in this browser."""
    pending = PendingSignIn(email, password, time.time() + SECONDS)
    sealed = keyring.seal(msgspec.json.encode(pending), _context(browser))
    return base64.urlsafe_b64encode(sealed).decode()


def read(keyring: Keyring, browser: str, text: str) -> PendingSignIn | None:
    try:
        sealed = base64.urlsafe_b64decode(text)
        pending = msgspec.json.decode(keyring.open(sealed, _context(browser)), type=PendingSignIn)
    except (binascii.Error, ValueError, SealError, msgspec.DecodeError):
        return None
    return pending if time.time() < pending.until else None


def _context(browser: str) -> str:
    return f"sign-in:{browser}"
