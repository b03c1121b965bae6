"""The OpenID Connect providers with which users sign in: one for the console, one per merchant.

A merchant controls what its own provider asserts. A session that it began therefore works only at
this merchant, and a provider replaces the password, but never a code of the second factor.
"""

import re
import secrets
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import msgspec

from manilla.audit import audit
from manilla.kit.crypto import Keyring, SealedColumn
from manilla.kit.database.connections import Connection, Database
from manilla.kit.database.rows import columns
from manilla.kit.errors import Refusal
from manilla.kit.http import is_web_address
from manilla.kit.texts import is_line
from manilla.mail import outbox
from manilla.mail.kinds import MailKind
from manilla.people import members, persons
from manilla.people.roles import ConsoleRole, Permission, Realm, Role, permissions_of

CONSOLE = 0  # in place of a merchant's id
TEXT_LENGTH_MAX, GROUPS_MAX = 255, 50
DEFAULT_CLAIM = "groups"
_KEY = re.compile(r"[A-Za-z0-9_-]{16}")
# What a second person guards. A group never grants a role with one of these permissions, because
# whoever manages the provider could otherwise approve their own requests as another user.
GUARDED = frozenset({Permission.MOVE_MONEY, Permission.PAYOUT_DESK})


class BadProvider(Refusal):
    code = "BAD_SIGN_IN_PROVIDER"
    message = "The settings of company sign-in are not valid."


class NoProvider(Refusal):
    status, code = 404, "NO_SIGN_IN_PROVIDER"
    message = "Company sign-in is not set up here. Ask your administrator for the sign-in link."


class SignInProvider(msgspec.Struct, frozen=True):
    merchant_id: int  # CONSOLE for the console's provider
    key: str
    issuer: str
    client_id: str
    groups_claim: str
    roles: dict[str, str]
    is_required: bool
    break_glass: str
    updated_at: datetime

    @property
    def realm(self) -> Realm:
        return realm_of(self.merchant_id)

    @property
    def host(self) -> str:
        return urlsplit(self.issuer).hostname or ""


class SignInProviderChange(msgspec.Struct, frozen=True, kw_only=True, tag="sign_in_provider"):
    """Sets up, changes or removes company sign-in. An empty issuer removes it."""

    merchant_id: int
    key: str = ""  # of a new provider
    issuer: str = ""
    client_id: str = ""
    secret: str | None = None  # None keeps the stored secret
    groups_claim: str = DEFAULT_CLAIM
    roles: dict[str, str] = {}
    is_required: bool = False
    break_glass: str = ""

    @property
    def subject(self) -> str:
        return f"sign_in:{self.merchant_id or Realm.CONSOLE}"

    def describe(self) -> dict[str, Any]:
        """Returns the settings for display, without the secret."""
        if not self.issuer:
            return {"company_sign_in": "removed"}
        shown = msgspec.structs.asdict(self) | {"secret": "set" if self.secret else "unchanged"}
        shown["roles"] = ", ".join(f"{group}: {role}" for group, role in self.roles.items())
        return {name: value for name, value in shown.items() if name not in ("merchant_id", "key")}


def new_key() -> str:
    """Returns the key of a new provider, which is part of its URLs, and hard to guess."""
    return secrets.token_urlsafe(12)


def realm_of(merchant_id: int) -> Realm:
    return Realm.DASHBOARD if merchant_id else Realm.CONSOLE


def granted_roles(realm: Realm) -> list[str]:
    """Returns the roles that groups may grant."""
    roles = ConsoleRole if realm is Realm.CONSOLE else Role
    return [role.value for role in roles if not permissions_of(role) & GUARDED]


def context(row: Any) -> str:
    return f"sign_in_provider:{row['merchant_id']}"


SEALED = SealedColumn("sign_in_provider", "secret_sealed", ("merchant_id",), context)


async def find(db: Database | Connection, merchant_id: int) -> SignInProvider | None:
    return await _find(db, "merchant_id", merchant_id)


async def of_key(db: Database, realm: Realm, key: str) -> SignInProvider:
    """Returns the provider of a sign-in link."""
    found = await _find(db, "key", key)
    if found is None or found.realm is not realm:
        raise NoProvider
    return found


async def _find(db: Database | Connection, column: str, value: object) -> SignInProvider | None:
    sql = f"SELECT {columns(SignInProvider)} FROM sign_in_provider WHERE {column} = $1"
    record = await db.record(sql, value)
    if record is None:
        return None
    return SignInProvider(**{**dict(record), "roles": msgspec.json.decode(record["roles"])})


async def lock(connection: Connection, provider: SignInProvider) -> bool:
    """Delays changes of the provider. Returns False if it has changed since it was loaded."""
    return await connection.has_row(
        "SELECT true FROM sign_in_provider WHERE merchant_id = $1 AND updated_at = $2 FOR SHARE",
        *(provider.merchant_id, provider.updated_at),
    )


async def secret(db: Database, keyring: Keyring, provider: SignInProvider) -> str:
    """Returns the client secret for this issuer, but not for one that has replaced it since."""
    sealed = await db.value(
        "SELECT secret_sealed FROM sign_in_provider WHERE merchant_id = $1 AND issuer = $2",
        *(provider.merchant_id, provider.issuer),
    )
    if sealed is None:
        raise NoProvider
    return keyring.open(sealed, context({"merchant_id": provider.merchant_id})).decode()


async def check(
    db: Database | Connection, change: SignInProviderChange, *, is_production_mode: bool
) -> None:
    """Rejects settings that cannot work, or with which everybody could be locked out."""
    before = await find(db, change.merchant_id)
    if not change.issuer:
        if before is None:
            raise NoProvider
        return
    check_url(change.issuer, is_production_mode=is_production_mode)
    is_new = before is None or before.issuer != change.issuer
    if change.secret is None and is_new:
        raise BadProvider.at("secret", "Enter the client secret of this issuer.")
    for name, value in (("client_id", change.client_id), ("groups_claim", change.groups_claim)):
        if not is_line(value, TEXT_LENGTH_MAX):
            raise BadProvider.at(name, f"Use 1 to {TEXT_LENGTH_MAX} printable characters.")
    if before is None and (not _KEY.fullmatch(change.key) or await _find(db, "key", change.key)):
        raise BadProvider("Reload the page, and enter the URLs again at your provider.")
    _check_roles(change.roles, realm_of(change.merchant_id))
    if change.is_required:
        await _check_break_glass(db, change)


def check_url(url: str, *, is_production_mode: bool) -> None:
    is_valid = is_web_address(url) and not urlsplit(url).query and not urlsplit(url).fragment
    if not is_valid or (is_production_mode and urlsplit(url).scheme != "https"):
        raise BadProvider.at("issuer", "Enter the issuer's https URL, without a query.")


def _check_roles(roles: Mapping[str, str], realm: Realm) -> None:
    allowed = granted_roles(realm)
    if len(roles) > GROUPS_MAX or not all(is_line(group, TEXT_LENGTH_MAX) for group in roles):
        raise BadProvider.at("roles", f"Enter at most {GROUPS_MAX} groups, one in each line.")
    for role in roles.values():
        if role not in allowed:
            text = f"A group can grant {' or '.join(allowed)}. People grant roles that move money."
            raise BadProvider.at("roles", text)


async def _check_break_glass(db: Database | Connection, change: SignInProviderChange) -> None:
    """Checks that somebody can still sign in while the provider does not respond."""
    realm, who = realm_of(change.merchant_id), change.break_glass
    try:
        person = await persons.find(db, realm, who)
    except persons.PersonNotFound:
        person = None
    if realm is Realm.CONSOLE:
        is_top = person is not None and person.console_role == ConsoleRole.ADMINISTRATOR
    else:
        found = await members.list_of(db, change.merchant_id)
        is_top = any(each.email == who and each.role == Role.OWNER for each in found)
    if person is None or not is_top or not person.has_password or person.status != "active":
        kind = "an administrator" if realm is Realm.CONSOLE else "an owner"
        raise BadProvider.at("break_glass", f"Enter the email address of {kind} with a password.")


async def save(connection: Connection, keyring: Keyring, change: SignInProviderChange) -> None:
    """Applies a change that `check` has accepted, and ends the sessions of another provider."""
    before = await find(connection, change.merchant_id)
    if change.issuer:
        await _store(connection, keyring, change)
    else:
        await connection.execute(
            "DELETE FROM sign_in_provider WHERE merchant_id = $1", change.merchant_id
        )
    wanted = change.issuer, change.client_id
    is_other = before is not None and (before.issuer, before.client_id) != wanted
    ended = await end_sessions(connection, change.merchant_id) if is_other else 0
    await _report(connection, change, ended)


async def make_optional(db: Database, merchant_id: int) -> None:
    """Lets users sign in with passwords again, if nobody can sign in to change the settings."""
    async with db.transaction() as connection:
        if not await connection.has_row(
            """
            UPDATE sign_in_provider SET is_required = false, updated_at = now()
             WHERE merchant_id = $1 AND is_required
            RETURNING key""",
            merchant_id,
        ):
            raise NoProvider("Company sign-in is not required there.")
        change = SignInProviderChange(merchant_id=merchant_id)
        if merchant_id:
            await members.report(connection, merchant_id, "made company sign-in optional")
        await audit.record(
            connection, "sign_in.optional", change.subject, merchant_id=merchant_id or None
        )


async def end_sessions(connection: Connection, merchant_id: int) -> int:
    rows = await connection.records(
        "DELETE FROM session WHERE provider_merchant_id = $1 RETURNING id", merchant_id
    )
    return len(rows)


async def _store(connection: Connection, keyring: Keyring, change: SignInProviderChange) -> None:
    """Stores the settings. An existing provider keeps its key, and its secret if none is given."""
    merchant_id, sealed = change.merchant_id, None
    if change.secret is not None:
        sealed = keyring.seal(change.secret.encode(), context({"merchant_id": merchant_id}))
    await connection.execute(
        """
        INSERT INTO sign_in_provider AS old (merchant_id, issuer, client_id, groups_claim, roles,
                                             is_required, break_glass, key, secret_sealed)
        VALUES ($1, $2, $3, $4, $5::json, $6, $7, $8, coalesce($9, (
            SELECT secret_sealed FROM sign_in_provider WHERE merchant_id = $1)))
            ON CONFLICT (merchant_id) DO UPDATE
           SET issuer = $2, client_id = $3, groups_claim = $4, roles = $5::json, is_required = $6,
               break_glass = $7, secret_sealed = coalesce($9, old.secret_sealed), updated_at = now()
        """,
        *(merchant_id, change.issuer, change.client_id, change.groups_claim),
        *(msgspec.json.encode(change.roles).decode(), change.is_required, change.break_glass),
        *(change.key, sealed),
    )


async def _report(connection: Connection, change: SignInProviderChange, ended: int) -> None:
    merchant_id = change.merchant_id or None
    if merchant_id is not None:
        await members.report(connection, merchant_id, "changed company sign-in")
    await audit.record(
        *(connection, "sign_in.provider", change.subject),
        merchant_id=merchant_id,
        **change.describe(),
        sessions_ended=ended,
    )


async def report_password(
    connection: Connection, merchant_id: int, person_id: int, email: str
) -> bool:
    """Reports a password sign-in with the break-glass account. Must be last in the transaction.

    Returns False for other users, and where company sign-in is not required.
    """
    provider = await find(connection, merchant_id)
    if provider is None or not provider.is_required or provider.break_glass != email:
        return False
    if provider.realm is Realm.CONSOLE:
        await outbox.put(connection, MailKind.BREAK_GLASS, {"by": email}, path="/console/audit")
    else:
        await members.report(
            connection, merchant_id, "signed in with the break-glass account", by=email
        )
    await audit.record(
        *(connection, "sign_in.break_glass", f"person:{person_id}"),
        merchant_id=merchant_id or None,
        email=email,
        realm=provider.realm,
    )
    return True
