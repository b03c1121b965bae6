"""Passwords: argon2id, in threads of its own, and what is too easily guessed.

The cost is OWASP's: 19 MiB, two passes, one lane. RFC 9106's low-memory profile (64 MiB, three
passes, four lanes) was measured to take seven times the CPU, on hosts that also take payments. Four
of ours at once need 76 MiB and some 30 ms of CPU each; guessing online is stopped by the throttle.
"""

import asyncio
import unicodedata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from typing import TypeVar

import argon2
import msgspec
from argon2.exceptions import Argon2Error, InvalidHashError

from manilla.audit import audit
from manilla.kit.db import Database
from manilla.kit.errors import Refusal, Unavailable
from manilla.people import queries, reset_queries, session_queries, throttle
from manilla.people.visitor import Visitor

LENGTH_MIN, LENGTH_MAX = 12, 256
AT_ONCE, WAITING_MAX = 4, 64
DIFFERENT_CHARACTERS_MIN = 5
# Those of at least twelve characters that leaked lists have most often.
COMMON = frozenset(
    resources.files("manilla.people").joinpath("common_passwords.txt").read_text().split()
)

Result = TypeVar("Result")

_HASHER = argon2.PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)
# As costly to verify as a true one, and true for no password that anybody will find.
NOBODYS = (
    f"$argon2id$v=19$m={_HASHER.memory_cost},t={_HASHER.time_cost},p={_HASHER.parallelism}"
    f"${'A' * 22}${'A' * 43}"
)


class WeakPassword(Refusal):
    status, code = 422, "WEAK_PASSWORD"
    message = f"A password has {LENGTH_MIN} to {LENGTH_MAX} characters."


class WrongPassword(Refusal):
    status, code = 401, "WRONG_PASSWORD"
    message = "The password is not right."


class _Threads:
    """At most four at once, so that sign-ins cannot take the whole machine."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="passwords")
        self._waiting = 0

    async def run(self, work: Callable[[], Result]) -> Result:
        if self._waiting >= WAITING_MAX:
            raise Unavailable
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        finally:
            self._waiting -= 1


_threads = _Threads()


class Verdict(msgspec.Struct, frozen=True):
    is_right: bool
    is_outdated: bool = False  # hashed at another cost than today's


def check(password: str, *, email: str, name: str) -> None:
    """Refuses what is too short, too long or among the first guesses."""
    plain = _normal(password)
    if not LENGTH_MIN <= len(plain) <= LENGTH_MAX:
        raise WeakPassword
    folded = plain.casefold().strip()
    if folded in COMMON or len(set(folded)) < DIFFERENT_CHARACTERS_MIN:
        raise WeakPassword("This password is among those that are guessed first.")
    known = {email.casefold(), email.partition("@")[0].casefold(), name.casefold()}
    if folded in known or folded.replace(" ", "") in known:
        raise WeakPassword("The password must not be the email address or the name.")


async def hash_of(password: str) -> str:
    """Of a password that was checked."""
    plain = _normal(password)
    assert len(plain) <= LENGTH_MAX
    return await _threads.run(lambda: _HASHER.hash(plain))


async def verify(password_hash: str | None, password: str) -> Verdict:
    """Without a hash (nobody has this email address) it takes as long, and is wrong."""
    plain = _normal(password)[:LENGTH_MAX]
    return await _threads.run(lambda: _verify(password_hash, plain))


async def change(db: Database, visitor: Visitor, old: str, new: str) -> None:
    """Needs the old one, and ends all other sessions."""
    check(new, email=visitor.email, name=visitor.name)
    buckets = throttle.proving(visitor.person_id)
    await throttle.take(db, buckets)
    person = await queries.door(db, visitor.person_id)
    if person is None or not (await verify(person.password_hash, old)).is_right:
        raise WrongPassword
    await throttle.give_back(db, buckets)
    new_hash = await hash_of(new)
    async with db.transaction() as connection:
        await queries.set_password(connection, visitor.person_id, new_hash)
        await reset_queries.delete_unused(connection, visitor.person_id)
        ended = await session_queries.delete_of_person(
            connection, visitor.person_id, but=visitor.session_id
        )
        await audit.record(
            connection,
            "person.password",
            f"person:{visitor.person_id}",
            realm=visitor.realm,
            email=visitor.email,
            how="by themselves",
            sessions_ended=ended,
        )


def _verify(password_hash: str | None, plain: str) -> Verdict:
    try:
        _HASHER.verify(password_hash or NOBODYS, plain)
    except (Argon2Error, InvalidHashError):
        return Verdict(is_right=False)
    return Verdict(
        is_right=password_hash is not None,
        is_outdated=_HASHER.check_needs_rehash(password_hash or NOBODYS),
    )


def _normal(password: str) -> str:
    """The same characters however a keyboard composes them; never what cannot be encoded."""
    return unicodedata.normalize("NFKC", password.encode("utf-8", "replace").decode())
