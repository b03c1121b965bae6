"""Signing in: password first, then the second factor where there is one."""

import msgspec

from manilla.kit.crypto import Keyring
from manilla.kit.db import Connection, Database
from manilla.kit.errors import Refusal
from manilla.people import (
    member_queries,
    passwords,
    persons,
    queries,
    second_factor,
    sessions,
    throttle,
)
from manilla.people.queries import Door
from manilla.people.roles import Realm


class SignInRefused(Refusal):
    """One and the same text, whether the address is unknown, disabled, or the password wrong."""

    status, code = 401, "SIGN_IN_REFUSED"
    message = "The email address or the password is not right."


class SignedIn(msgspec.Struct, frozen=True):
    session: sessions.NewSession


class NeedsCode(msgspec.Struct, frozen=True):
    """The password is right. Sign in again, with a code too: nothing is remembered until then."""


async def sign_in(
    db: Database,
    keyring: Keyring,
    realm: Realm,
    email: str,
    password: str,
    code: str | None,
    address: str,
    user_agent: str,
) -> SignedIn | NeedsCode:
    """Counted before it is checked; see `throttle`."""
    normal = persons.normal_email(email)
    buckets = throttle.signing_in(realm, normal or email, address)
    await throttle.take(db, buckets)
    person = normal and await queries.door_by_email(db, realm, normal)
    verdict = await passwords.verify(person.password_hash if person else None, password)
    if not person or not verdict.is_right or person.status != "active":
        raise SignInRefused
    if person.has_totp:
        if not code:
            await throttle.give_back(db, buckets)
            return NeedsCode()
        await second_factor.accept(db, keyring, person, code)
    new_hash = await passwords.hash_of(password) if verdict.is_outdated else None
    async with db.transaction() as connection:
        session = await _enter(connection, realm, person, new_hash, address, user_agent)
    await throttle.give_back(db, buckets)
    return SignedIn(session)


async def _enter(
    connection: Connection,
    realm: Realm,
    person: Door,
    new_hash: str | None,
    address: str,
    user_agent: str,
) -> sessions.NewSession:
    assert person.password_hash is not None
    # Between our look at the password and now it may have been reset, and all sessions ended.
    if not await queries.enter(
        connection, person.id, person.password_hash, new_hash, has_totp=person.has_totp
    ):
        raise SignInRefused
    belongings = await member_queries.belongings(connection, person.id)
    return await sessions.begin(
        connection,
        person.id,
        realm,
        merchant_id=belongings[0].merchant_id if belongings else None,
        second_factor=person.has_totp,
        address=address,
        user_agent=user_agent,
    )
