"""Limits password guessing. Attempts are counted in the database before anything is checked.

Because of this order, concurrent guesses cannot exceed the limit. A successful attempt is
subtracted again, so that only failures remain. A success does not clear earlier failures, because
otherwise an attacker with one account could guess forever from one IP address. Above a limit the
correct password is rejected too, because accepting it would confirm the guess. A rejected attempt
does not extend the window, which starts with its first failure.

An attacker must not be able to lock out a user. Therefore an account has few attempts per IP
address, and a higher limit for all addresses together. A known device has a separate count. A
correct code together with the correct password passes every limit, because wrong passwords do not
use up the attempts for codes.
"""

import hashlib
from collections.abc import Sequence
from datetime import timedelta

import msgspec

from manilla.kit.database.connections import Database
from manilla.kit.errors import Refusal
from manilla.kit.ratelimit import SLOW, SLOW_WINDOW, address_bucket

WINDOW: timedelta = SLOW_WINDOW
PER_ADDRESS = 30  # sign-in attempts per IP address, for all accounts
PER_ACCOUNT_AND_ADDRESS = 10
PER_ACCOUNT = 50  # sign-in attempts per account, not counting known devices
PER_DEVICE = 10
CODES_PER_PERSON = 10  # wrong codes per user, after a correct password
CODES_PER_ADDRESS = 10  # sign-ins with a code after the normal limit is exceeded
PER_PERSON = 10
SIGN_UPS_PER_ADDRESS = 10
RESETS_PER_EMAIL, RESETS_PER_ADDRESS = 3, 10
INVITATIONS_PER_EMAIL, INVITATIONS_PER_MERCHANT = 3, 30
TEST_NOTIFICATIONS_PER_MERCHANT = 20


class TooManyAttempts(Refusal):
    status, code = 429, "TOO_MANY_ATTEMPTS"
    message = "Too many attempts. Please wait a while and try again."

    is_first = False  # whether this attempt is the first above the limit


class Bucket(msgspec.Struct, frozen=True):
    name: str
    limit: int


def signing_in(
    realm: str, email: str, address: str, device: str | None = None
) -> tuple[Bucket, ...]:
    """Returns the limits for a sign-in. `device` is the id of the user's known browser, or None."""
    if device is not None:
        return (Bucket(f"{SLOW}sign-in:{realm}:device:{device}", PER_DEVICE),)
    prefix, sender, account = f"{SLOW}sign-in:{realm}", address_bucket(address), _short(email)
    return (
        Bucket(f"{prefix}:address:{sender}", PER_ADDRESS),
        Bucket(f"{prefix}:both:{account}:{sender}", PER_ACCOUNT_AND_ADDRESS),
        Bucket(f"{prefix}:email:{account}", PER_ACCOUNT),
    )


def giving_code(person_id: int) -> tuple[Bucket, ...]:
    """Returns the limit for codes at sign-in.

    Only attempts with the correct password count toward this limit.
    """
    return (Bucket(f"{SLOW}sign-in:code:{person_id}", CODES_PER_PERSON),)


def using_provider(realm: str, address: str) -> tuple[Bucket, ...]:
    """Returns the limit for company sign-ins, which call the provider before they are verified."""
    return (Bucket(f"{SLOW}sign-in:{realm}:company:{address_bucket(address)}", PER_ADDRESS),)


def ending_sessions(merchant_id: int, address: str) -> tuple[Bucket, ...]:
    """Returns the limit for a provider's logout tokens. Merchants share a provider's addresses."""
    return (Bucket(f"{SLOW}sign-out:{merchant_id}:{address_bucket(address)}", PER_ADDRESS),)


def past_the_limit(realm: str, address: str) -> tuple[Bucket, ...]:
    """Returns the limit for sign-ins with a code after the normal limit is exceeded."""
    sender = address_bucket(address)
    return (Bucket(f"{SLOW}sign-in:{realm}:past:{sender}", CODES_PER_ADDRESS),)


def proving(person_id: int) -> tuple[Bucket, ...]:
    """Returns the limit for passwords and codes by which signed-in users confirm their identity."""
    return (Bucket(f"{SLOW}prove:{person_id}", PER_PERSON),)


def signing_up(address: str) -> tuple[Bucket, ...]:
    return (Bucket(f"{SLOW}sign-up:{address_bucket(address)}", SIGN_UPS_PER_ADDRESS),)


def resetting(realm: str, email: str, address: str) -> tuple[Bucket, ...]:
    return (
        Bucket(f"{SLOW}reset:{realm}:address:{address_bucket(address)}", RESETS_PER_ADDRESS),
        Bucket(f"{SLOW}reset:{realm}:email:{_short(email)}", RESETS_PER_EMAIL),
    )


def inviting(merchant_id: int, email: str) -> tuple[Bucket, ...]:
    """Returns the limits for invitations, which send emails to people who did not ask for them.

    All merchants share the limit for an email address, because anybody can sign up as a merchant.
    """
    return (
        Bucket(f"{SLOW}invite:{merchant_id}", INVITATIONS_PER_MERCHANT),
        Bucket(f"{SLOW}invite:email:{_short(email)}", INVITATIONS_PER_EMAIL),
    )


def sending_test_notifications(merchant_id: int) -> tuple[Bucket, ...]:
    name = f"{SLOW}test-notification:{merchant_id}"
    return (Bucket(name, TEST_NOTIFICATIONS_PER_MERCHANT),)


async def take(db: Database, buckets: Sequence[Bucket]) -> None:
    """Counts an attempt in each bucket in order, and stops at the first exceeded limit.

    After an IP address exceeds its limit, its attempts do not count for the email address.
    """
    for bucket in buckets:
        used, resets_in_seconds = await _add(db, bucket, 1)
        if used > bucket.limit:
            refusal = TooManyAttempts(retry_after_seconds=resets_in_seconds)
            refusal.is_first = used == bucket.limit + 1
            raise refusal


async def give_back(db: Database, buckets: Sequence[Bucket]) -> None:
    """Subtracts a successful attempt from the buckets' counts."""
    for bucket in buckets:
        await _add(db, bucket, -1)


async def count(db: Database, name: str) -> int:
    """Increments the counter with this name, and returns its count in the current window."""
    used, _ = await _add(db, Bucket(SLOW + name, 0), 1)
    return used


async def _add(db: Database, bucket: Bucket, cost: int) -> tuple[int, int]:
    row = await db.record(
        "SELECT used, resets_in_seconds FROM rate_take(ARRAY[$1::text], ARRAY[$2::bigint], $3)",
        bucket.name,
        cost,
        WINDOW,
    )
    return row["used"], row["resets_in_seconds"]


def _short(email: str) -> str:
    """Returns a hash of the email address, for use in a bucket's name."""
    return hashlib.sha256(email.encode("utf-8", "replace")).hexdigest()[:32]
