"""Signing up: a business, pending until an administrator approves it, and its first owner.

An email address that is known in the dashboard cannot sign up again, and the refusal tells so to
whoever guesses. Hiding it would mean to answer every sign-up with "look into your mail", which an
installation without a mail hook cannot do. So the text says as little as it can, and a sender's
address has few tries.
"""

import msgspec

from manilla.kit.crypto import Keyring
from manilla.kit.db import Database
from manilla.kit.errors import Refusal
from manilla.merchants import merchants
from manilla.merchants.merchants import NewMerchant
from manilla.people import member_queries, passwords, persons, queries, sessions, throttle
from manilla.people.roles import Realm, Role
from manilla.people.sessions import NewSession


class SignUpRefused(Refusal):
    status, code = 409, "SIGN_UP_REFUSED"
    message = (
        "This address cannot be used to sign up; if it is yours, sign in or reset the password."
    )


class SignedUp(msgspec.Struct, frozen=True):
    session: NewSession
    merchant: NewMerchant  # with its keys and secrets, shown this once


async def sign_up(
    db: Database,
    keyring: Keyring,
    *,
    business_name: str,
    name: str,
    email: str,
    password: str,
    address: str,
    user_agent: str,
) -> SignedUp:
    """One transaction: the merchant with keys of both environments, the person, the session."""
    email, name = persons.read_email(email), persons.read_name(name)
    passwords.check(password, email=email, name=name)
    await throttle.take(db, throttle.signing_up(address))
    password_hash = await passwords.hash_of(password)
    async with db.transaction() as connection:
        person_id = await queries.insert_person(
            connection, Realm.DASHBOARD, email, name, password_hash=password_hash
        )
        if person_id is None:
            raise SignUpRefused
        merchant = await merchants.create(connection, keyring, name=business_name, email=email)
        await member_queries.insert_membership(connection, merchant.id, person_id, Role.OWNER)
        session = await sessions.begin(
            connection,
            person_id,
            Realm.DASHBOARD,
            merchant_id=merchant.id,
            second_factor=False,
            address=address,
            user_agent=user_agent,
        )
    return SignedUp(session, merchant)
