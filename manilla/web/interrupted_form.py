"""Saves a form that a user submitted after the session had ended, until the next sign-in.

The form is stored in an encrypted cookie. After the same user has signed in, the form's page is
shown with the saved values. The form is not submitted automatically: the user submits it again.
"""

import base64
import binascii
import time
import zlib

import msgspec

from manilla.kit.crypto import Keyring, SealError

COOKIE = "manilla_form"
SECONDS = 15 * 60
COOKIE_LENGTH_MAX = 3500  # browsers reject cookies larger than 4 KiB
UNPACKED_LENGTH_MAX = 100_000
_CONTEXT = "interrupted-form"


class InterruptedForm(msgspec.Struct, frozen=True):
    person_id: int
    page: str  # the path of the page that contains the form
    action: str  # the path that the form was submitted to
    pairs: list[tuple[str, str]]
    until: float = 0.0


def write(keyring: Keyring, form: InterruptedForm) -> str | None:
    """Encrypts the form for a cookie. Returns None if the form is too large for a cookie."""
    until = time.time() + SECONDS
    packed = zlib.compress(msgspec.json.encode(msgspec.structs.replace(form, until=until)))
    text = base64.urlsafe_b64encode(keyring.seal(packed, _CONTEXT)).decode()
    return text if len(text) <= COOKIE_LENGTH_MAX else None


def read(keyring: Keyring, cookie: str) -> InterruptedForm | None:
    try:
        packed = keyring.open(base64.urlsafe_b64decode(cookie), _CONTEXT)
        unpacked = zlib.decompressobj().decompress(packed, UNPACKED_LENGTH_MAX)
        form = msgspec.json.decode(unpacked, type=InterruptedForm)
    except (binascii.Error, ValueError, SealError, zlib.error, msgspec.DecodeError):
        return None
    return form if time.time() < form.until else None
