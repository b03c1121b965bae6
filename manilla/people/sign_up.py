"""Sign-up: creates a merchant that is pending until an administrator approves it, and its owner.

An email address that already has a dashboard account is rejected. This reveals the account to
anyone who guesses addresses. To hide it, every sign-up would have to be confirmed by email, but
some installations cannot send email. Therefore the text reveals as little as possible, and the
number of sign-ups per IP address is limited.
"""

import msgspec

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.errors import Refusal
from manilla.merchants import merchants
from manilla.merchants.merchants import NewMerchant
from manilla.people import members, passwords, persons, queries, sessions, throttle
from manilla.people.roles import Realm, Role
from manilla.people.sessions import NewSession


class SignUpRefused(Refusal):
    status, code = 409, "SIGN_UP_REFUSED"
    message = (
        "This email address cannot be used to sign up. "
        "If it is yours, sign in or reset the password."
    )


class SignedUp(msgspec.Struct, frozen=True):
    session: NewSession
    merchant: NewMerchant  # the merchant with its new keys and secrets


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
    """Creates a merchant with keys for both environments, its owner, and a session.

    All of them are created in one transaction.
    """
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
        await members.join(connection, merchant.id, person_id, Role.OWNER)
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
