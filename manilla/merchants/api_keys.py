"""A merchant's additional API keys, each with its permissions, allowed addresses and expiry.

The merchant's main API key and secret have all permissions. They are in `credentials.py`.
"""

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from manilla.audit import audit
from manilla.audit.actor import current
from manilla.kit import http
from manilla.kit.crypto import Keyring, SealedColumn
from manilla.kit.database.connections import Connection, Database
from manilla.kit.database.rows import columns
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.http import Network
from manilla.kit.texts import is_line
from manilla.ledger.scope import Tenant
from manilla.merchants import credentials, merchants, networks, notices, queries
from manilla.merchants.credentials import InvalidCredentials, NewCredentials
from manilla.merchants.rights import FIRST, GRANTABLE, Right

LIVE_MAX = 50  # maximum number of active keys per merchant and environment
NAME_LENGTH_MAX = 60
SHOWN_FOR = timedelta(days=30)  # how long revoked and expired keys are still listed
SHOWN_MAX = 200

KEY_ENDED = "Its API key was revoked or has expired."
_RIGHTS = "rights || further_rights"
LIVE = "revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())"


class BadApiKey(Refusal):
    status, code = 400, "VALIDATION_FAILED"
    message = "The API key's data is not valid."


class TooManyApiKeys(Refusal):
    status, code = 422, "TOO_MANY_API_KEYS"
    message = f"There are {LIVE_MAX} active keys, which is the maximum. Revoke one of them first."


class ApiKeyNotFound(Refusal):
    status, code = 404, "API_KEY_NOT_FOUND"
    message = "There is no such active API key."


class ApiKeyTerms(msgspec.Struct, frozen=True, kw_only=True):
    """An API key's name, permissions, allowed IP addresses and expiry."""

    name: str
    rights: Sequence[Right]
    networks: Sequence[str] = ()  # allowed IP addresses and networks; empty if all are allowed
    expires_at: datetime | None = None


class LiveKey(msgspec.Struct, frozen=True):
    """An API key in the merchant cache, which may have expired since it was cached."""

    number: int
    name: str
    api_key_hash: bytes
    secret: bytes
    rights: frozenset[Right]
    networks: tuple[Network, ...]
    expires_at: datetime | None

    def is_live(self, moment: datetime) -> bool:
        return self.expires_at is None or moment < self.expires_at

    def allows(self, address: str) -> bool:
        return not self.networks or http.is_within(address, self.networks)


class ApiKeyRow(msgspec.Struct, frozen=True):
    environment: str
    number: int
    name: str
    rights: list[str]
    networks: list[str]
    expires_at: datetime | None
    created_at: datetime
    created_by: str
    last_used_at: datetime | None
    revoked_at: datetime | None
    revoked_by: str | None

    @property
    def status(self) -> str:
        if self.revoked_at is not None:
            return "revoked"
        is_over = self.expires_at is not None and self.expires_at <= datetime.now(UTC)
        return "expired" if is_over else "active"


class _SealedKey(msgspec.Struct, frozen=True):
    number: int
    name: str
    api_key_hash: bytes
    secret_sealed: bytes
    rights: list[str]
    networks: list[str]
    expires_at: datetime | None


def secret_context(merchant_id: int, environment: str, number: int) -> str:
    """Returns the associated data that binds an encrypted secret to its row."""
    return f"api_key:{merchant_id}:{environment}:{number}"


SEALED = SealedColumn(
    "api_key",
    "secret_sealed",
    ("merchant_id", "environment", "number"),
    lambda row: secret_context(row["merchant_id"], row["environment"], row["number"]),
)


async def create(
    db: Database,
    keyring: Keyring,
    merchant_id: int,
    environment: Environment,
    terms: ApiKeyTerms,
) -> NewCredentials:
    """Creates an API key and its secret, which are shown only once. Emails the owners."""
    async with db.transaction() as connection:
        _, new = await add(connection, keyring, Tenant(merchant_id, environment), terms)
    return new


async def add(
    connection: Connection, keyring: Keyring, tenant: Tenant, terms: ApiKeyTerms
) -> tuple[int, NewCredentials]:
    """Creates an API key. Returns its number, its key and its secret."""
    terms = _checked(terms)
    merchant_id, environment = tenant.merchant_id, tenant.environment
    await merchants.touch(connection, merchant_id)
    number = await _next_number(connection, merchant_id, environment, terms.name)
    merchant_key = await queries.merchant_key(connection, merchant_id, environment)
    new = credentials.generate(environment, merchant_id, merchant_key)
    context = secret_context(merchant_id, environment, number)
    await connection.execute(
        """
        INSERT INTO api_key (merchant_id, environment, number, name, api_key_hash,
               secret_sealed, rights, further_rights, networks, expires_at, created_by)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)""",
        *(merchant_id, environment, number, terms.name),
        *(
            credentials.hash_api_key(new.api_key),
            keyring.seal(new.api_secret.encode(), context),
        ),
        [right for right in terms.rights if right in FIRST],
        [right for right in terms.rights if right not in FIRST],
        *(list(terms.networks), terms.expires_at),
        current.get().public_name,
    )
    await notices.report_key(connection, merchant_id, environment, terms.name, terms.rights)
    detail = {**msgspec.structs.asdict(terms), "environment": environment, "number": number}
    await _record(connection, "merchant.key_create", merchant_id, detail)
    return number, new


async def revoke(db: Database, merchant_id: int, environment: Environment, number: int) -> str:
    """Revokes an active key, and disables its webhook endpoints.

    The key stops working for payouts and refunds immediately, and for other requests within a
    second. Returns the key's name.
    """
    async with db.transaction() as connection:
        await merchants.touch(connection, merchant_id)
        name: str | None = await connection.value(
            f"""
            UPDATE api_key SET revoked_at = now(), revoked_by = $4, secret_sealed = NULL
             WHERE merchant_id = $1 AND environment = $2 AND number = $3::bigint AND {LIVE}
            RETURNING name""",
            *(merchant_id, environment, number, current.get().public_name),
        )
        if name is None:
            raise ApiKeyNotFound
        await connection.execute(
            f"""
            UPDATE webhook_endpoint SET disabled_at = now(), disabled_reason = '{KEY_ENDED}'
             WHERE merchant_id = $1 AND environment = $2 AND api_key = $3::bigint
               AND disabled_at IS NULL AND deleted_at IS NULL""",
            *(merchant_id, environment, number),
        )
        await notices.report_key(connection, merchant_id, environment, name, rights=())
        detail = {"environment": environment, "number": number, "name": name}
        await _record(connection, "merchant.key_revoke", merchant_id, detail)
    return name


async def live(
    db: Database, keyring: Keyring, merchant_id: int, environment: Environment
) -> tuple[LiveKey, ...]:
    """Returns the active API keys with their secrets, for the merchant cache."""
    rows = await db.rows(
        _SealedKey,
        f"""
        SELECT {columns(_SealedKey, rights=_RIGHTS)} FROM api_key
         WHERE merchant_id = $1 AND environment = $2 AND secret_sealed IS NOT NULL AND {LIVE}
         ORDER BY number""",
        *(merchant_id, environment),
    )
    return tuple(
        LiveKey(
            row.number,
            row.name,
            row.api_key_hash,
            keyring.open(row.secret_sealed, secret_context(merchant_id, environment, row.number)),
            frozenset(map(Right, row.rights)),
            tuple(ipaddress.ip_network(network) for network in row.networks),
            row.expires_at,
        )
        for row in rows
    )


async def check_active(connection: Connection, tenant: Tenant, number: int) -> None:
    """Raises an error for a revoked or expired key. The caller has already debited the wallet."""
    if not await connection.has_row(
        f"""
        SELECT true FROM api_key
         WHERE merchant_id = $1 AND environment = $2 AND number = $3 AND {LIVE}""",
        *(tenant.merchant_id, tenant.environment, number),
    ):
        raise InvalidCredentials


async def list_keys(db: Database, merchant_id: int, environment: Environment) -> list[ApiKeyRow]:
    """Returns active keys, and keys that ended in the last 30 days, newest first."""
    return await db.rows(
        ApiKeyRow,
        f"""
        SELECT {columns(ApiKeyRow, rights=_RIGHTS)} FROM api_key
         WHERE merchant_id = $1 AND environment = $2
           AND least(revoked_at, expires_at, 'infinity') > now() - $3::interval
         ORDER BY ({LIVE}) DESC, number DESC LIMIT $4""",
        *(merchant_id, environment, SHOWN_FOR, SHOWN_MAX),
    )


async def delete_expired(db: Database) -> None:
    """Deletes the secrets of expired keys, and disables the webhook endpoints of these keys."""
    await db.execute(
        f"""
        WITH expired AS (
            UPDATE api_key SET secret_sealed = NULL
             WHERE secret_sealed IS NOT NULL AND expires_at < now() - interval '1 day'
               AND NOT lives_elsewhere(merchant_id)
            RETURNING merchant_id, environment, number)
        UPDATE webhook_endpoint AS e SET disabled_at = now(), disabled_reason = '{KEY_ENDED}'
          FROM expired k
         WHERE e.merchant_id = k.merchant_id AND e.environment = k.environment
           AND e.api_key = k.number AND e.disabled_at IS NULL AND e.deleted_at IS NULL"""
    )


async def _next_number(
    connection: Connection, merchant_id: int, environment: Environment, name: str
) -> int:
    """Returns the number for the next API key. The caller must hold the merchant's lock."""
    names = await connection.records(
        f"SELECT name FROM api_key WHERE merchant_id = $1 AND environment = $2 AND {LIVE}",
        *(merchant_id, environment),
    )
    if len(names) >= LIVE_MAX:
        raise TooManyApiKeys
    if name in {record["name"] for record in names}:
        raise BadApiKey.at("name", "An active key has this name. Choose another name.")
    return 1 + await connection.number(
        """
        SELECT coalesce(max(number), 0) FROM api_key WHERE merchant_id = $1 AND environment = $2""",
        *(merchant_id, environment),
    )


async def _record(
    connection: Connection, action: str, merchant_id: int, detail: dict[str, object]
) -> None:
    await audit.record(
        connection, action, f"merchant:{merchant_id}", merchant_id=merchant_id, **detail
    )


def _checked(terms: ApiKeyTerms) -> ApiKeyTerms:
    name = terms.name.strip()
    if not is_line(name, NAME_LENGTH_MAX):
        text = f"A name has 1 to {NAME_LENGTH_MAX} printable characters."
        raise BadApiKey.at("name", text)
    if not terms.rights or not set(terms.rights) <= set(GRANTABLE):
        raise BadApiKey.at("rights", f"Choose at least one of: {', '.join(GRANTABLE)}.")
    if terms.expires_at is not None and terms.expires_at <= datetime.now(UTC):
        raise BadApiKey.at("expires_at", "Choose a time in the future.")
    return ApiKeyTerms(
        name=name,
        rights=[right for right in GRANTABLE if right in terms.rights],
        networks=networks.read(terms.networks),
        expires_at=terms.expires_at,
    )
