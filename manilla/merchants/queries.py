"""SQL queries for merchants, credentials and wallets."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Annotated

import msgspec

from manilla.kit.database.connections import Connection, Database
from manilla.kit.database.rows import columns
from manilla.kit.environment import Environment
from manilla.transaction_types import TYPES


class MerchantRow(msgspec.Struct, frozen=True):
    id: int
    name: str
    email: str
    status: str
    status_reason: str | None  # why the merchant was rejected or disabled
    commission_percent: Decimal
    commission_bearer: str
    gateways: list[str] | None
    payouts_enabled: bool
    accounts_locked: bool  # whether payouts can only go to saved accounts
    kyc_verified: bool
    phone_verified: bool
    level: str
    has_bvn: bool
    currencies: list[str]
    sends_receipts: bool  # whether customers get a receipt by email
    overpaid: str  # rule for bank transfers of more than the amount due
    underpaid: str
    created_at: datetime
    updated_at: datetime


class CredentialRow(msgspec.Struct, frozen=True):
    environment: str
    merchant_key: str
    generation: int
    api_key_hash: bytes
    secret_sealed: bytes
    expires_at: datetime | None
    created_at: datetime
    last_used_at: datetime | None


# Another cell reports these texts, and a proxy reads them as parts of its configuration.
RoutedKey = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9_-]+\Z")]


class RoutedMerchant(msgspec.Struct, frozen=True):
    """A merchant, with the keys by which a proxy finds the merchant's cell."""

    id: int
    name: str
    status: str
    keys: list[RoutedKey]  # merchant keys
    # Hashes of main API keys that do not start with the merchant's number, in uppercase hex digits.
    api_key_hashes: list[RoutedKey]


class WalletRow(msgspec.Struct, frozen=True):
    environment: str
    currency: str
    balance_minor: int
    status: str
    short_minor: int = 0  # what the merchant owes; credits pay it first
    accept_disputes_below_minor: int = 0  # smaller new disputes are accepted automatically


MERCHANT = """
    SELECT id, name, email, status, status_reason, commission_percent, commission_bearer, gateways,
           payouts_enabled, accounts_locked, kyc_verified, phone_verified, level,
           bvn_sealed IS NOT NULL AS has_bvn, currencies, sends_receipts, overpaid, underpaid,
           created_at, updated_at
      FROM merchant"""


def receipt_terms_of(merchant_id: str) -> str:
    """Returns the SQL that selects a name, and whether the customers get receipts by email.

    `merchant_id` is an SQL expression.
    """
    return f"SELECT name, sends_receipts FROM merchant WHERE id = {merchant_id} LIMIT 1"


async def merchant(db: Database | Connection, merchant_id: int) -> MerchantRow | None:
    return await db.row(MerchantRow, MERCHANT + " WHERE id = $1", merchant_id)


async def routed_merchants(db: Database, after: int, limit: int) -> list[RoutedMerchant]:
    """Returns the merchants after the given number, in the order of their numbers."""
    return await db.rows(
        RoutedMerchant,
        """
        SELECT m.id, m.name, m.status,
               array(SELECT k.merchant_key FROM merchant_key k
                      WHERE k.merchant_id = m.id ORDER BY k.environment) AS keys,
               array(SELECT upper(encode(c.api_key_hash, 'hex')) FROM credential c
                      WHERE c.merchant_id = m.id AND NOT c.has_number
                        AND (c.expires_at IS NULL OR c.expires_at > now())) AS api_key_hashes
          FROM merchant m WHERE m.id > $1 ORDER BY m.id LIMIT $2""",
        *(after, limit),
    )


async def sends_receipts(db: Database | Connection, merchant_id: int) -> bool:
    return bool(await db.value("SELECT sends_receipts FROM merchant WHERE id = $1", merchant_id))


class WrongAmountRules(msgspec.Struct, frozen=True):
    overpaid: str
    underpaid: str


async def wrong_amount_rules(db: Database | Connection, merchant_id: int) -> WrongAmountRules:
    rules = await db.row(
        WrongAmountRules, "SELECT overpaid, underpaid FROM merchant WHERE id = $1", merchant_id
    )
    assert rules is not None
    return rules


async def merchant_id_by_key(
    db: Database, environment: Environment, merchant_key: str
) -> int | None:
    found: int | None = await db.value(
        "SELECT merchant_id FROM merchant_key WHERE merchant_key = $1 AND environment = $2",
        merchant_key,
        environment,
    )
    return found


async def merchant_id_by_api_key(
    db: Database, environment: Environment, api_key_hash: bytes
) -> int | None:
    found: int | None = await db.value(
        "SELECT merchant_id FROM credential WHERE api_key_hash = $1 AND environment = $2",
        api_key_hash,
        environment,
    )
    return found


async def first_outside(connection: Connection, first: int, last: int) -> int | None:
    """Returns the lowest merchant number outside the range, or None if there is no such number."""
    found: int | None = await connection.value(
        "SELECT min(id) FROM merchant WHERE id NOT BETWEEN $1 AND $2", first, last
    )
    return found


async def has_numbers_left(connection: Connection) -> bool:
    """Returns whether another merchant can be created. A cell has a limited range of numbers."""
    found: bool = await connection.value(
        """
        SELECT coalesce(pg_sequence_last_value(seqrelid) < seqmax, true) FROM pg_sequence
         WHERE seqrelid = pg_get_serial_sequence('merchant', 'id')::regclass"""
    )
    return found


async def insert_merchant(
    connection: Connection,
    *,
    name: str,
    email: str,
    status: str,
    currencies: Sequence[str],
    rules: WrongAmountRules,
    version: int,
) -> int:
    return await connection.number(
        """
        INSERT INTO merchant (name, email, status, currencies, version, overpaid, underpaid)
        VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING id""",
        *(name, email, status, list(currencies), version, rules.overpaid, rules.underpaid),
    )


async def set_parent(connection: Connection, merchant_id: int, parent_id: int) -> None:
    """Makes a new merchant a sub-account. Triggers copy the parent's team, now and later."""
    await connection.execute(
        "UPDATE merchant SET parent_id = $2 WHERE id = $1", merchant_id, parent_id
    )


async def default_split(db: Database, merchant_id: int, environment: Environment) -> str | None:
    """Returns the id of the rule that divides the merchant's payments, if it has one."""
    found: str | None = await db.value(
        """
        SELECT id FROM split_rule
         WHERE merchant_id = $1 AND environment = $2 AND status = 'active' AND is_default""",
        *(merchant_id, environment),
    )
    return found


async def update_merchant(
    connection: Connection,
    row: MerchantRow,
    *,
    bvn_sealed: bytes | None,
    version: int,
) -> None:
    """Writes all fields that can change. If `bvn_sealed` is None, the stored BVN stays."""
    await connection.execute(
        """
        UPDATE merchant
           SET status = $2, commission_percent = $3, commission_bearer = $4, gateways = $5,
               payouts_enabled = $6, kyc_verified = $7, phone_verified = $8, currencies = $9,
               bvn_sealed = coalesce($10, bvn_sealed), version = $11, status_reason = $12,
               sends_receipts = $13, level = $14, overpaid = $15, underpaid = $16,
               updated_at = now()
         WHERE id = $1""",
        row.id,
        row.status,
        row.commission_percent,
        row.commission_bearer,
        row.gateways,
        row.payouts_enabled,
        row.kyc_verified,
        row.phone_verified,
        row.currencies,
        bvn_sealed,
        version,
        row.status_reason,
        row.sends_receipts,
        row.level,
        row.overpaid,
        row.underpaid,
    )


async def touch_merchant(connection: Connection, merchant_id: int, version: int) -> bool:
    """Marks the merchant as changed. Returns False if the merchant does not exist."""
    return await connection.has_row(
        "UPDATE merchant SET version = $2, updated_at = now() WHERE id = $1 RETURNING true",
        merchant_id,
        version,
    )


async def insert_merchant_key(
    connection: Connection, merchant_id: int, environment: Environment, merchant_key: str
) -> None:
    await connection.execute(
        "INSERT INTO merchant_key (merchant_key, environment, merchant_id) VALUES ($1, $2, $3)",
        merchant_key,
        environment,
        merchant_id,
    )


async def merchant_key(connection: Connection, merchant_id: int, environment: Environment) -> str:
    key: str = await connection.value(
        "SELECT merchant_key FROM merchant_key WHERE merchant_id = $1 AND environment = $2",
        *(merchant_id, environment),
    )
    return key


async def changed_since(db: Database, version: int) -> list[int]:
    records = await db.records("SELECT id FROM merchant WHERE version > $1", version)
    return [record["id"] for record in records]


async def credentials(
    db: Database | Connection, merchant_id: int, environment: Environment
) -> list[CredentialRow]:
    """Returns the valid generations of credentials, newest first."""
    return await db.rows(
        CredentialRow,
        """
        SELECT c.environment, k.merchant_key, c.generation, c.api_key_hash, c.secret_sealed,
               c.expires_at, c.created_at, c.last_used_at
          FROM credential c
          JOIN merchant_key k USING (merchant_id, environment)
         WHERE c.merchant_id = $1 AND c.environment = $2
           AND (c.expires_at IS NULL OR c.expires_at > now())
         ORDER BY c.generation DESC""",
        merchant_id,
        environment,
    )


async def pending_events(
    db: Database, merchant_id: int, environment: Environment
) -> frozenset[str]:
    """Returns the transaction types for which an endpoint is subscribed to `pending` events."""
    records = await db.records(
        """
        SELECT kind FROM unnest($3::text[]) AS kind
         WHERE EXISTS (
               SELECT FROM webhook_endpoint
                WHERE merchant_id = $1 AND environment = $2
                  AND disabled_at IS NULL AND deleted_at IS NULL
                  AND events && ARRAY['*', kind || '.*', kind || '.pending'])""",
        *(merchant_id, environment, [each.name for each in TYPES]),
    )
    return frozenset(record["kind"] for record in records)


async def delete_expired_credentials(db: Database) -> None:
    """Deletes expired credentials, because their secrets are no longer needed."""
    await db.execute("DELETE FROM credential WHERE expires_at < now() - interval '1 day'")


async def open_wallets(
    connection: Connection,
    merchant_id: int,
    environment: Environment,
    currencies: Sequence[str],
) -> list[str]:
    """Creates missing wallets, and returns the currencies of the created wallets."""
    records = await connection.records(
        """
        INSERT INTO wallet (merchant_id, environment, currency)
        SELECT $1, $2, currency FROM unnest($3::text[]) AS currency
            ON CONFLICT DO NOTHING
        RETURNING currency""",
        merchant_id,
        environment,
        list(currencies),
    )
    return [record["currency"] for record in records]


async def wallets(db: Database | Connection, merchant_id: int) -> list[WalletRow]:
    return await db.rows(
        WalletRow,
        f"""
        SELECT {columns(WalletRow)} FROM wallet
         WHERE merchant_id = $1 ORDER BY environment, currency""",
        merchant_id,
    )


async def wallet(
    db: Database | Connection, merchant_id: int, environment: Environment, currency: str
) -> WalletRow | None:
    return await db.row(
        WalletRow,
        f"""
        SELECT {columns(WalletRow)} FROM wallet
         WHERE merchant_id = $1 AND environment = $2 AND currency = $3""",
        merchant_id,
        environment,
        currency,
    )
