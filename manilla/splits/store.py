"""SQL queries for rules, partners and shares."""

from collections.abc import Sequence

import msgspec

from manilla.kit.database.connections import Connection, Database
from manilla.kit.database.rows import RowSource, columns
from manilla.kit.listing import Page
from manilla.kit.listing.sorting import KeyIndex, Selection, SortOrder, read_as
from manilla.ledger import transaction_lists
from manilla.ledger.scope import Tenant, merchant_condition, scope_conditions
from manilla.splits.rule import RULE_IDS, SplitTerms
from manilla.splits.share import DividedPayment, Share

WRITTEN = (
    *("owner_id", "payment_trx_id", "amount_minor", "status", "withheld_minor"),
    *("returned_minor", "short_minor", "hold_until", "released_at", "traceparent"),
)
SHARE_COLUMNS = columns(Share)
_SHARE = f"SELECT {SHARE_COLUMNS} FROM split"


class StoredRule(msgspec.Struct, frozen=True, kw_only=True):
    merchant_id: int
    id: str
    version: int
    environment: str
    name: str
    terms: str
    status: str
    is_default: bool

    @property
    def decoded(self) -> SplitTerms:
        return msgspec.json.decode(self.terms, type=SplitTerms)


class PossibleReceiver(msgspec.Struct, frozen=True):
    """What decides whether a merchant can receive shares of another merchant's payments."""

    id: int
    status: str
    is_sub_account: bool  # of the owner
    has_accepted: bool
    currencies: list[str]  # of its active wallets in this environment
    lives_elsewhere: bool


_ORDERS = transaction_lists.newest_by("id", RULE_IDS)
_RULE = f"SELECT {columns(StoredRule)} FROM split_rule WHERE merchant_id = $1 AND environment = $2"


async def rule(db: RowSource, tenant: Tenant, rule_id: str) -> StoredRule | None:
    """Returns the latest version of a rule of this merchant and environment."""
    if RULE_IDS.owner_of(rule_id) != tenant.merchant_id:
        return None
    sql = _RULE + " AND id = $3 AND status <> 'replaced'"
    return await db.row(StoredRule, sql, tenant.merchant_id, tenant.environment, rule_id)


async def rules(db: Database, tenant: Tenant, after: str | None, limit: int) -> Page[StoredRule]:
    """Returns the latest version of each rule, newest first."""
    index = KeyIndex(merchant_condition(tenant))
    wanted = scope_conditions(tenant).add("status <> 'replaced'")
    steps = Selection("split_rule", columns(StoredRule), _ORDERS, wanted, index)
    return await steps.page(db, read_as(StoredRule), SortOrder.NEWEST, after, limit)


async def write_rule(connection: Connection, new: StoredRule) -> None:
    """Writes a version of a rule, and replaces the version before it."""
    key = new.merchant_id, new.id
    await connection.execute(
        """
        UPDATE split_rule SET status = 'replaced'
         WHERE merchant_id = $1 AND id = $2 AND status <> 'replaced'""",
        *key,
    )
    if new.is_default:
        await connection.execute(
            """
            UPDATE split_rule SET is_default = false
             WHERE merchant_id = $1 AND environment = $2 AND is_default""",
            *(new.merchant_id, new.environment),
        )
    await connection.execute(
        f"""
        INSERT INTO split_rule ({columns(StoredRule)})
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)""",
        *(getattr(new, name) for name in StoredRule.__struct_fields__),
    )


def new_rule(tenant: Tenant, name: str, terms: SplitTerms, *, is_default: bool) -> StoredRule:
    return StoredRule(
        merchant_id=tenant.merchant_id,
        id=RULE_IDS.new(tenant.merchant_id),
        version=1,
        environment=tenant.environment,
        name=name,
        terms=msgspec.json.encode(terms).decode(),
        status="active",
        is_default=is_default,
    )


async def candidates(
    db: Database | Connection, tenant: Tenant, numbers: Sequence[int]
) -> dict[int, PossibleReceiver]:
    found = await db.rows(
        PossibleReceiver,
        """
        SELECT m.id, m.status, coalesce(m.parent_id = $1, false) AS is_sub_account,
               EXISTS (SELECT FROM split_partner p
                        WHERE p.merchant_id = m.id AND p.owner_id = $1
                          AND p.status = 'accepted') AS has_accepted,
               ARRAY(SELECT w.currency::text FROM wallet w
                      WHERE w.merchant_id = m.id AND w.environment = $2
                        AND w.status = 'active') AS currencies,
               lives_elsewhere(m.id) AS lives_elsewhere
          FROM merchant m WHERE m.id = ANY ($3)""",
        *(tenant.merchant_id, tenant.environment, list(numbers)),
    )
    return {each.id: each for each in found}


async def payment(connection: Connection, merchant_id: int, trx_id: str) -> DividedPayment | None:
    """Locks a payment that is divided."""
    return await connection.row(
        DividedPayment,
        f"""
        SELECT {columns(DividedPayment)} FROM payment
         WHERE merchant_id = $1 AND trx_id = $2 AND split IS NOT NULL FOR UPDATE""",
        *(merchant_id, trx_id),
    )


async def lock(connection: Connection, divided: DividedPayment) -> list[Share]:
    """Locks the wallets of the owner and of all receivers, and returns the payment's shares.

    The caller has locked the payment. Wallets are locked in sorted order, as everywhere.
    """
    numbers = {divided.merchant_id, *(each.merchant_id for each in divided.division.shares)}
    await connection.execute(
        """
        SELECT FROM wallet WHERE merchant_id = ANY ($1) AND environment = $2 AND currency = $3
         ORDER BY merchant_id FOR NO KEY UPDATE""",
        *(sorted(numbers), divided.environment, divided.currency),
    )
    return await shares_of(connection, divided.merchant_id, divided.trx_id)


async def shares_of(db: RowSource, owner_id: int, payment_trx_id: str) -> list[Share]:
    sql = _SHARE + " WHERE payment_trx_id = $1 AND owner_id = $2 ORDER BY merchant_id"
    return await db.rows(Share, sql, payment_trx_id, owner_id)


async def share(db: RowSource, merchant_id: int, trx_id: str) -> Share | None:
    sql = _SHARE + " WHERE merchant_id = $1 AND trx_id = $2"
    return await db.row(Share, sql, merchant_id, trx_id)


async def debt(connection: Connection, short: Share) -> tuple[int, int]:
    """Returns what the receiver owes, and what owners claim of it. Its wallet is locked."""
    record = await connection.record(
        """
        SELECT w.short_minor, (SELECT coalesce(sum(s.short_minor), 0)::bigint FROM split s
                 WHERE s.merchant_id = w.merchant_id AND s.environment = w.environment
                   AND s.currency = w.currency AND s.status IN ('held', 'short'))
          FROM wallet w WHERE w.merchant_id = $1 AND w.environment = $2 AND w.currency = $3""",
        *(short.merchant_id, short.environment, short.currency),
    )
    return record[0], record[1]


async def set_partner(
    connection: Connection, receiver_id: int, owner_id: int, status: str, *before: str
) -> bool:
    """Sets whether a receiver consents. Returns False if the status before is another one."""
    return await connection.has_row(
        """
        UPDATE split_partner SET status = $3, updated_at = now()
         WHERE merchant_id = $1 AND owner_id = $2 AND status = ANY ($4::text[])
        RETURNING true""",
        *(receiver_id, owner_id, status, before),
    )


class Partner(msgspec.Struct, frozen=True):
    merchant_id: int  # the receiver
    owner_id: int
    receiver: str
    owner: str
    status: str


async def add_partner(connection: Connection, receiver_id: int, owner_id: int) -> bool:
    """Adds an invitation. Returns False if the merchant is invited, or consents."""
    return await connection.has_row(
        """
        INSERT INTO split_partner AS p (merchant_id, owner_id, status) VALUES ($1, $2, 'invited')
            ON CONFLICT (merchant_id, owner_id) DO UPDATE SET status = 'invited', updated_at = now()
         WHERE p.status = 'ended'
        RETURNING true""",
        *(receiver_id, owner_id),
    )


async def partners(db: RowSource, merchant_id: int) -> list[Partner]:
    """Returns the receivers and the owners with which the merchant has or had a consent."""
    return await db.rows(
        Partner,
        """
        SELECT p.merchant_id, p.owner_id, r.name AS receiver, o.name AS owner, p.status
          FROM split_partner p
          JOIN merchant r ON r.id = p.merchant_id JOIN merchant o ON o.id = p.owner_id
         WHERE p.merchant_id = $1 OR p.owner_id = $1
         ORDER BY p.updated_at DESC LIMIT 200""",
        merchant_id,
    )


class SubAccount(msgspec.Struct, frozen=True):
    merchant_id: int
    name: str
    status: str


async def sub_accounts(db: RowSource, parent_id: int) -> list[SubAccount]:
    return await db.rows(
        SubAccount,
        "SELECT id AS merchant_id, name, status FROM merchant WHERE parent_id = $1 ORDER BY id",
        parent_id,
    )


async def is_sub_account(db: RowSource, merchant_id: int) -> bool:
    return await db.has_row(
        "SELECT true FROM merchant WHERE id = $1 AND parent_id IS NOT NULL", merchant_id
    )
