"""Hashes passwords with argon2id in a thread pool, and rejects weak passwords.

The parameters are OWASP's recommendation: 19 MiB, two passes, one lane. RFC 9106's low-memory
profile (64 MiB, three passes, four lanes) takes seven times the CPU time, and the hosts also
process payments. Four concurrent hashes need 76 MiB, and each takes about 30 ms of CPU time. The
module `throttle` prevents online guessing.
"""

import unicodedata
from functools import cache
from importlib import resources

import argon2
import msgspec
from argon2.exceptions import Argon2Error, InvalidHashError

from manilla.audit import audit
from manilla.kit.database.connections import Database
from manilla.kit.errors import Refusal
from manilla.kit.threads import LimitedThreads
from manilla.people import queries, throttle
from manilla.people.visitor import Visitor

LENGTH_MIN, LENGTH_MAX = 12, 256
DIFFERENT_CHARACTERS_MIN = 5

# If these parameters change, a user's old hash stays valid until the next sign-in replaces it.
hasher = argon2.PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)
# A dummy hash that no known password matches. Verifying it takes as long as verifying a user's.
NOBODYS = (
    f"$argon2id$v=19$m={hasher.memory_cost},t={hasher.time_cost},p={hasher.parallelism}"
    f"${'A' * 22}${'A' * 43}"
)


class WeakPassword(Refusal):
    status, code = 422, "WEAK_PASSWORD"
    message = f"A password must have {LENGTH_MIN} to {LENGTH_MAX} characters."


class WrongPassword(Refusal):
    status, code = 401, "WRONG_PASSWORD"
    message = "The password is wrong."


_threads = LimitedThreads("passwords", at_once=4, waiting_max=60)


class PasswordCheck(msgspec.Struct, frozen=True):
    is_right: bool
    # True if the stored hash was created with outdated parameters.
    is_outdated: bool = False


def check(password: str, *, email: str, name: str) -> None:
    """Raises WeakPassword if the password is too short, too long or easily guessed."""
    plain = _normal(password)
    if not LENGTH_MIN <= len(plain) <= LENGTH_MAX:
        raise WeakPassword
    folded = plain.casefold().strip()
    if folded in common() or len(set(folded)) < DIFFERENT_CHARACTERS_MIN:
        raise WeakPassword("This password is too easy to guess.")
    known = {email.casefold(), email.partition("@")[0].casefold(), name.casefold()}
    if folded in known or folded.replace(" ", "") in known:
        raise WeakPassword("The password must not be the email address or the name.")


@cache
def common() -> frozenset[str]:
    """Returns the 3,000 most common leaked passwords that are long enough, and some more.

    The source is Mark Burnett's list of ten million passwords, which is in the public domain.
    """
    file = resources.files("manilla.people").joinpath("common_passwords.txt")
    return frozenset(file.read_text().split())


async def hash_of(password: str) -> str:
    """Hashes a password that `check` has accepted."""
    plain = _normal(password)
    assert len(plain) <= LENGTH_MAX
    return await _threads.run(lambda: hasher.hash(plain))


async def verify(password_hash: str | None, password: str) -> PasswordCheck:
    """Verifies a password. If there is no hash, fails after the same time as a wrong password."""
    plain = _normal(password)
    if len(plain) > LENGTH_MAX:
        # No password is that long. The beginning must not be accepted in its place.
        password_hash, plain = None, ""
    return await _threads.run(lambda: _verify(password_hash, plain))


async def change(db: Database, visitor: Visitor, old: str, new: str) -> None:
    """Changes the user's password and ends the user's other sessions.

    Raises `WrongPassword` if the old password is wrong.
    """
    check(new, email=visitor.email, name=visitor.name)
    buckets = throttle.proving(visitor.person_id)
    await throttle.take(db, buckets)
    person = await queries.credentials(db, visitor.person_id)
    if person is None or not (await verify(person.password_hash, old)).is_right:
        raise WrongPassword
    await throttle.give_back(db, buckets)
    new_hash = await hash_of(new)
    async with db.transaction() as connection:
        # A reset may have replaced the password that was verified. Lock the user and compare again.
        await queries.lock_person(connection, visitor.person_id)
        now = await queries.credentials(connection, visitor.person_id)
        if now is None or now.password_hash != person.password_hash:
            raise WrongPassword
        await queries.set_password(connection, visitor.person_id, new_hash)
        await queries.delete_resets(connection, visitor.person_id)
        ended = await queries.end_sessions(connection, visitor.person_id, but=visitor.session_id)
        await audit.record(
            connection,
            "person.password",
            f"person:{visitor.person_id}",
            realm=visitor.realm,
            email=visitor.email,
            how="by themselves",
            sessions_ended=ended,
        )


def _verify(password_hash: str | None, plain: str) -> PasswordCheck:
    try:
        hasher.verify(password_hash or NOBODYS, plain)
    except (Argon2Error, InvalidHashError):
        return PasswordCheck(is_right=False)
    return PasswordCheck(
        is_right=password_hash is not None,
        is_outdated=hasher.check_needs_rehash(password_hash or NOBODYS),
    )


def _normal(password: str) -> str:
    """Normalizes Unicode characters, and replaces characters that cannot be encoded."""
    return unicodedata.normalize("NFKC", password.encode("utf-8", "replace").decode())
