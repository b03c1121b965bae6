import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manilla.kit import crypto
from manilla.kit.crypto import Keyring, SealError
from tests.support.strategies import texts

OLD, NEW = os.urandom(32), os.urandom(32)


@given(st.binary(max_size=300), texts(max_size=50))
def test_a_secret_can_be_decrypted_for_its_row(secret: bytes, context: str) -> None:
    keyring = Keyring([NEW])
    sealed = keyring.seal(secret, context)
    assert keyring.open(sealed, context) == secret


def test_a_secret_cannot_be_decrypted_with_another_row_key_or_bytes() -> None:
    sealed = Keyring([OLD]).seal(b"secret", "credential:1")
    with pytest.raises(SealError):
        Keyring([OLD]).open(sealed, "credential:2")
    with pytest.raises(SealError):
        Keyring([NEW]).open(sealed, "credential:1")
    for place in range(len(sealed)):
        changed = bytearray(sealed)
        changed[place] ^= 1
        with pytest.raises(SealError):
            Keyring([OLD]).open(bytes(changed), "credential:1")
    with pytest.raises(SealError):
        Keyring([OLD]).open(sealed[:40], "credential:1")


def test_rewrapping_moves_a_secret_to_the_new_master_key() -> None:
    sealed = Keyring([OLD]).seal(b"secret", "row")
    both = Keyring([NEW, OLD])
    assert not both.is_current(sealed)
    rewrapped = both.rewrap(sealed, "row")
    assert both.is_current(rewrapped)
    assert Keyring([NEW]).open(rewrapped, "row") == b"secret"


def test_encrypting_a_secret_twice_gives_unrelated_bytes() -> None:
    keyring = Keyring([NEW])
    assert keyring.seal(b"secret", "row")[9:] != keyring.seal(b"secret", "row")[9:]


@pytest.mark.parametrize("text", ["", "short", "!!!!", "A" * 43, "A" * 44 + "=="])
def test_an_invalid_master_key_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="32 random bytes"):
        crypto.decode_key(text)
