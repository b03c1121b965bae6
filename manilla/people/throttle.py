"""Guessing is slow: attempts are counted in the database, before anything is checked.

Counting comes first, so that guesses made at the same time cannot slip through together; an attempt
that turns out well is taken back, so that only failures remain. A success forgives no other
failure, or an attacker who has one account could go on for ever from one address. While an email
address is over its limit the right password is refused too, because an answer would confirm the
guess. That lets a stranger shut somebody out, but never for longer than the window: it begins with
its first failure, and what is refused does not lengthen it.
"""

import hashlib
from collections.abc import Sequence
from datetime import timedelta

import msgspec

from manilla.kit.db import Database
from manilla.kit.errors import Refusal
from manilla.kit.ratelimit import SLOW, SLOW_WINDOW, address_bucket

WINDOW: timedelta = SLOW_WINDOW
PER_EMAIL, PER_ADDRESS, PER_PERSON = 10, 30, 10
SIGN_UPS_PER_ADDRESS = 10
RESETS_PER_EMAIL, RESETS_PER_ADDRESS = 3, 10


class TooManyAttempts(Refusal):
    status, code = 429, "TOO_MANY_ATTEMPTS"
    message = "Too many attempts. Please wait a while and try again."


class Bucket(msgspec.Struct, frozen=True):
    name: str
    limit: int


def signing_in(realm: str, email: str, address: str) -> tuple[Bucket, ...]:
    return (
        Bucket(f"{SLOW}sign-in:{realm}:address:{address_bucket(address)}", PER_ADDRESS),
        Bucket(f"{SLOW}sign-in:{realm}:email:{_short(email)}", PER_EMAIL),
    )


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
            raise TooManyAttempts(retry_after_seconds=resets_in_seconds)


async def give_back(db: Database, buckets: Sequence[Bucket]) -> None:
    """The attempt was a good one."""
    for bucket in buckets:
        await _add(db, bucket, -1)


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
