"""Users' identities at a provider: its issuer and its id for the user, never an email address."""

from typing import Any

import msgspec

from manilla.audit.actor import Actor, ActorKind, acting, address
from manilla.kit.database.connections import Connection, Database
from manilla.kit.errors import Refusal
from manilla.kit.texts import is_email, is_line
from manilla.people import console_people, members, persons, queries
from manilla.people.company.providers import SignInProvider
from manilla.people.queries import Person
from manilla.people.roles import ConsoleRole, Realm, Role

ACTOR = Actor(ActorKind.SYSTEM, None, "company sign-in")


class CompanySignInRefused(Refusal):
    status, code = 403, "COMPANY_SIGN_IN_REFUSED"
    message = "Your company account has no access here. Ask your administrator."


class IdentityNotConnected(CompanySignInRefused):
    message = (
        "An account with your email address exists, but it is not connected with your company"
        " account. Sign in with your password, then connect it under Your account."
    )


class AlreadyConnected(Refusal):
    status, code = 409, "IDENTITY_TAKEN"
    message = "This company account, or your account, is already connected with another account."


class CompanyIdentity(msgspec.Struct, frozen=True):
    person_id: int
    granted_role: str | None  # None if the user connected the account themselves


async def find(db: Database, provider: SignInProvider, subject: str) -> CompanyIdentity | None:
    return await db.row(
        CompanyIdentity,
        """
        SELECT person_id, granted_role FROM company_identity
         WHERE merchant_id = $1 AND issuer = $2 AND subject = $3""",
        *(provider.merchant_id, provider.issuer, subject),
    )


async def is_connected(db: Database, provider: SignInProvider, person_id: int) -> bool:
    return await db.has_row(
        """
        SELECT true FROM company_identity
         WHERE merchant_id = $1 AND issuer = $2 AND person_id = $3""",
        *(provider.merchant_id, provider.issuer, person_id),
    )


async def connect(db: Database, provider: SignInProvider, subject: str, person_id: int) -> None:
    """Connects a signed-in user's account, so that they can sign in with the provider."""
    async with db.transaction() as connection:
        if not await _insert(connection, provider, subject, person_id, None):
            raise AlreadyConnected
        person = await persons.get(connection, person_id)
        await persons.record(connection, "person.connect", person, issuer=provider.issuer)


async def disconnect(db: Database, provider: SignInProvider, person_id: int) -> None:
    """Disconnects the account of a user with a password, and ends the sessions of the provider."""
    async with db.transaction() as connection:
        person = await persons.get(connection, person_id)
        if not person.has_password:
            raise CompanySignInRefused("Choose a password first. Then you can disconnect.")
        if await gets_role_from_groups(connection, provider.merchant_id, person_id):
            raise CompanySignInRefused("Your role comes from your company's groups.")
        await connection.execute(
            """
            WITH ended AS (
                DELETE FROM session WHERE person_id = $1 AND provider_merchant_id = $2)
            DELETE FROM company_identity WHERE person_id = $1 AND merchant_id = $2""",
            *(person_id, provider.merchant_id),
        )
        await persons.record(connection, "person.disconnect", person, issuer=provider.issuer)


async def gets_role_from_groups(
    db: Database | Connection, merchant_id: int, person_id: int
) -> bool:
    """Whether a provider's groups granted the user's role, so that a password would bypass them."""
    return await db.has_row(
        """
        SELECT true FROM company_identity
         WHERE merchant_id = $1 AND person_id = $2 AND granted_role IS NOT NULL""",
        *(merchant_id, person_id),
    )


async def _insert(
    connection: Connection,
    provider: SignInProvider,
    subject: str,
    person_id: int,
    granted_role: str | None,
) -> bool:
    return await connection.has_row(
        """
        INSERT INTO company_identity (merchant_id, issuer, subject, person_id, granted_role)
        VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING RETURNING person_id""",
        *(provider.merchant_id, provider.issuer, subject, person_id, granted_role),
    )


async def person_of(
    db: Database, provider: SignInProvider, subject: str, claims: dict[str, Any]
) -> Person:
    """Returns the user with this identity, with the role that their groups grant now.

    A user whose role was granted by other people keeps it, whatever their groups are.
    """
    granted = _granted(provider, claims)
    with acting(ACTOR, address.get()):
        known = await find(db, provider, subject)
        if known is None:
            person_id = await _create(db, provider, subject, claims, granted)
        else:
            person_id = known.person_id
            if (await persons.get(db, person_id)).status != "active":
                raise CompanySignInRefused
            await _update(db, provider, known, granted)
    return await persons.get(db, person_id)


def _granted(provider: SignInProvider, claims: dict[str, Any]) -> str | None:
    """Returns the first role in the settings whose group the user has."""
    value = claims.get(provider.groups_claim)
    groups = value if isinstance(value, list) else [value]
    return next((role for group, role in provider.roles.items() if group in groups), None)


async def _create(
    db: Database, provider: SignInProvider, subject: str, claims: dict[str, Any], role: str | None
) -> int:
    email = persons.normal_email(str(claims.get("email", "")))
    if email is not None and await queries.person_by_email(db, provider.realm, email):
        raise IdentityNotConnected
    if role is None:
        raise CompanySignInRefused
    if email is None or not is_email(email):
        raise CompanySignInRefused("Your company's sign-in sent no valid email address.")
    name = str(claims.get("name", "")).strip()
    name = name if is_line(name, persons.NAME_LENGTH_MAX) else email[: persons.NAME_LENGTH_MAX]
    async with db.transaction() as connection:
        person_id = await queries.insert_person(
            *(connection, provider.realm, email, name),
            password_hash=None,
            console_role=None if provider.merchant_id else role,
        )
        # If a new user signs in twice at the same time, one of the two must start again.
        if person_id is None or not await _insert(connection, provider, subject, person_id, role):
            raise IdentityNotConnected
        if provider.merchant_id:
            await _join(connection, provider, person_id, email, role)
        else:
            person = await persons.get(connection, person_id)
            await persons.record(connection, "person.create", person, role=role)
    return person_id


async def _join(
    connection: Connection, provider: SignInProvider, person_id: int, email: str, role: str
) -> None:
    await members.join(connection, provider.merchant_id, person_id, Role(role))
    await members.report(connection, provider.merchant_id, f"added {email} as {role}")
    await members.record(
        *(connection, "member.add", provider.merchant_id, person_id), email=email, role=role
    )


async def _update(
    db: Database, provider: SignInProvider, known: CompanyIdentity, granted: str | None
) -> None:
    """Applies the groups of a user whose role they granted. Access ends with the last group."""
    person = await persons.get(db, known.person_id)
    role = await _role(db, provider, person)
    is_managed = known.granted_role is not None and role in (known.granted_role, None)
    if not is_managed:
        if role is None:
            raise CompanySignInRefused
        return
    if granted is None:
        await _end_access(db, provider, person, role)
        raise CompanySignInRefused
    if role is None:
        async with db.transaction() as connection:
            await _join(connection, provider, person.id, person.email, granted)
    elif provider.realm is Realm.CONSOLE:
        await console_people.change_role(db, person.id, ConsoleRole(granted))
    else:
        await members.change_role(db, provider.merchant_id, person.id, Role(granted))
    await db.execute(
        """
        UPDATE company_identity SET granted_role = $4
         WHERE merchant_id = $1 AND issuer = $2 AND person_id = $3""",
        *(provider.merchant_id, provider.issuer, person.id, granted),
    )


async def _role(db: Database, provider: SignInProvider, person: Person) -> str | None:
    if provider.realm is Realm.CONSOLE:
        return person.console_role
    found = await members.merchants_of(db, person.id)
    return next((each.role for each in found if each.merchant_id == provider.merchant_id), None)


async def _end_access(
    db: Database, provider: SignInProvider, person: Person, role: str | None
) -> None:
    if provider.realm is Realm.CONSOLE:
        await persons.disable(db, person.id)
    elif role is not None:
        await members.remove(db, provider.merchant_id, person.id)
