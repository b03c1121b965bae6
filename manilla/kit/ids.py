"""Ids of transactions, notifications and requests, and random keys."""

import secrets
import time
from datetime import UTC, datetime, timedelta

# Crockford's base 32 has no I, L, O or U, so an id can be read out over the phone.
ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
TIME_CHARACTERS, MERCHANT_CHARACTERS, RANDOM_CHARACTERS = 10, 7, 13
MERCHANT_ID_MAX = 32**MERCHANT_CHARACTERS - 1
MICROSECOND_CHARACTERS = 12
NOTIFICATION = "msg_"
TRX_ID_LENGTH = 3 + TIME_CHARACTERS + MERCHANT_CHARACTERS + RANDOM_CHARACTERS

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND, _MICROSECOND = timedelta(milliseconds=1), timedelta(microseconds=1)

# Encoding two digits at a time halves the number of steps.
_PAIRS = [first + second for first in ALPHABET for second in ALPHABET]


def base32(number: int, characters: int) -> str:
    pairs = range(10 * ((characters + 1) // 2 - 1), -1, -10)
    return "".join([_PAIRS[(number >> shift) & 1023] for shift in pairs])[characters & 1 :]


def new_trx_id(merchant_id: int) -> str:
    """`TXN`, milliseconds, merchant, 65 random bits. Sorts by time and reveals its merchant."""
    assert 0 <= merchant_id <= MERCHANT_ID_MAX
    return (
        "TXN"
        + base32(time.time_ns() // 1_000_000, TIME_CHARACTERS)
        + base32(merchant_id, MERCHANT_CHARACTERS)
        + base32(secrets.randbits(5 * RANDOM_CHARACTERS), RANDOM_CHARACTERS)
    )


def merchant_of(trx_id: str) -> int | None:
    """Returns the merchant encoded in a transaction id, or None if the id is invalid."""
    if len(trx_id) != TRX_ID_LENGTH or not trx_id.startswith("TXN"):
        return None
    if any(character not in ALPHABET for character in trx_id[3:]):
        return None
    start = 3 + TIME_CHARACTERS
    return _number(trx_id[start : start + MERCHANT_CHARACTERS])


def trx_id_floor(moment: datetime) -> str:
    """Sorts before every transaction id of this moment or later, and after all earlier ones."""
    return "TXN" + base32(_since_epoch(moment, _MILLISECOND), TIME_CHARACTERS)


def moment_of(trx_id: str) -> datetime | None:
    """Returns the time of a transaction id or `trx_id_floor`; None if the text is neither."""
    return _moment(trx_id, "TXN", TIME_CHARACTERS, _MILLISECOND)


def notification_id_floor(moment: datetime) -> str:
    return NOTIFICATION + base32(_since_epoch(moment, _MICROSECOND), MICROSECOND_CHARACTERS)


def moment_of_notification(notification_id: str) -> datetime | None:
    return _moment(notification_id, NOTIFICATION, MICROSECOND_CHARACTERS, _MICROSECOND)


def _since_epoch(moment: datetime, unit: timedelta) -> int:
    return max(0, (moment - _EPOCH) // unit)


def _moment(text: str, prefix: str, characters: int, unit: timedelta) -> datetime | None:
    digits = text[len(prefix) : len(prefix) + characters]
    number = _number(digits) if text.startswith(prefix) and len(digits) == characters else None
    try:
        return None if number is None else _EPOCH + number * unit
    except OverflowError:
        return None


def new_notification_id(merchant_id: int) -> str:
    """Has microseconds, so that the notifications of one transaction sort in order of events."""
    return (
        NOTIFICATION
        + base32(time.time_ns() // 1_000, MICROSECOND_CHARACTERS)
        + base32(merchant_id, MERCHANT_CHARACTERS)
        + base32(secrets.randbits(5 * RANDOM_CHARACTERS), RANDOM_CHARACTERS)
    )


def merchant_of_notification(notification_id: str) -> int | None:
    length = MICROSECOND_CHARACTERS + MERCHANT_CHARACTERS + RANDOM_CHARACTERS
    text = notification_id.removeprefix(NOTIFICATION)
    if text == notification_id or len(text) != length:
        return None
    return _number(text[MICROSECOND_CHARACTERS : MICROSECOND_CHARACTERS + MERCHANT_CHARACTERS])


def _number(text: str) -> int | None:
    """Decodes what `base32` encoded; None if the text is invalid."""
    number = 0
    for character in text:
        if character not in ALPHABET:
            return None
        number = number * 32 + ALPHABET.index(character)
    return number


def new_request_id() -> str:
    return secrets.token_hex(12)


def new_key(prefix: str = "") -> str:
    """Returns 160 random bits as text that a double click selects completely."""
    return prefix + base32(secrets.randbits(160), 32).lower()
