"""Guessing is slow: attempts are counted in the database, before anything is checked.

Counting comes first, so that guesses made at the same time cannot slip through together; an attempt
that turns out well is taken back, so that only failures remain. A success forgives no other
failure, or an attacker who has one account could go on for ever from one address. Beyond a limit
the right password is refused too, because an answer would confirm the guess. What is refused does
not lengthen the window, which starts with its first failure.

A stranger must not shut anybody out. So few guesses are allowed for an account from one address,
and more from all addresses together, so that many addresses do not mean unlimited guessing. A known
device is counted by itself, and a right code together with the right password passes every limit:
wrong passwords use up none of its attempts.
"""

import hashlib
from collections.abc import Sequence
from datetime import timedelta

import msgspec

from manilla.kit.db import Database
from manilla.kit.errors import Refusal
from manilla.kit.ratelimit import SLOW, SLOW_WINDOW, address_bucket

WINDOW: timedelta = SLOW_WINDOW
PER_ADDRESS = 30  # whatever the account
PER_ACCOUNT_AND_ADDRESS = 10
PER_ACCOUNT = 50  # from all addresses but known devices
PER_DEVICE = 10
CODES_PER_PERSON = 10  # wrong ones after the right password
CODES_PER_ADDRESS = 10  # by which somebody who is over a limit tries to get past it
PER_PERSON = 10
SIGN_UPS_PER_ADDRESS = 10
RESETS_PER_EMAIL, RESETS_PER_ADDRESS = 3, 10


class TooManyAttempts(Refusal):
    status, code = 429, "TOO_MANY_ATTEMPTS"
    message = "Too many attempts. Please wait a while and try again."

    is_first = False  # whether it is the first one over its limit


class Bucket(msgspec.Struct, frozen=True):
    name: str
    limit: int


def signing_in(
    realm: str, email: str, address: str, device: str | None = None
) -> tuple[Bucket, ...]:
    """`device` is the id of a device that is known to be this person's."""
    if device is not None:
        return (Bucket(f"{SLOW}sign-in:{realm}:device:{device}", PER_DEVICE),)
    prefix, sender, account = f"{SLOW}sign-in:{realm}", address_bucket(address), _short(email)
    return (
        Bucket(f"{prefix}:address:{sender}", PER_ADDRESS),
        Bucket(f"{prefix}:both:{account}:{sender}", PER_ACCOUNT_AND_ADDRESS),
        Bucket(f"{prefix}:email:{account}", PER_ACCOUNT),
    )


def giving_code(person_id: int) -> tuple[Bucket, ...]:
    """Only for who knows the password: nobody else can use these attempts up."""
    return (Bucket(f"{SLOW}sign-in:code:{person_id}", CODES_PER_PERSON),)


def past_the_limit(realm: str, address: str) -> tuple[Bucket, ...]:
    """Password and code together, from somebody who is over a limit of signing in."""
    sender = address_bucket(address)
    return (Bucket(f"{SLOW}sign-in:{realm}:past:{sender}", CODES_PER_ADDRESS),)


def proving(person_id: int) -> tuple[Bucket, ...]:
    """Passwords and codes that somebody who is signed in gives once more."""
    return (Bucket(f"{SLOW}prove:{person_id}", PER_PERSON),)


def signing_up(address: str) -> tuple[Bucket, ...]:
    return (Bucket(f"{SLOW}sign-up:{address_bucket(address)}", SIGN_UPS_PER_ADDRESS),)


def resetting(realm: str, email: str, address: str) -> tuple[Bucket, ...]:
    return (
        Bucket(f"{SLOW}reset:{realm}:address:{address_bucket(address)}", RESETS_PER_ADDRESS),
        Bucket(f"{SLOW}reset:{realm}:email:{_short(email)}", RESETS_PER_EMAIL),
    )


async def take(db: Database, buckets: Sequence[Bucket]) -> None:
    """Counts one after the other: an address that is over its limit no longer harms an email."""
    for bucket in buckets:
        used, resets_in_seconds = await _add(db, bucket, 1)
        if used > bucket.limit:
            refusal = TooManyAttempts(retry_after_seconds=resets_in_seconds)
            refusal.is_first = used == bucket.limit + 1
            raise refusal


async def give_back(db: Database, buckets: Sequence[Bucket]) -> None:
    """The attempt was a good one."""
    for bucket in buckets:
        await _add(db, bucket, -1)


async def count(db: Database, name: str) -> int:
    """How often this was called with the name in the present window."""
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
    """Of one length and harmless, whatever was typed."""
    return hashlib.sha256(email.encode("utf-8", "replace")).hexdigest()[:32]
