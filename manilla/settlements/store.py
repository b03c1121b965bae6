"""Reads and writes settlements. A balance has at most one open settlement."""

from datetime import date, datetime
from enum import StrEnum

import msgspec

from manilla.kit import listing
from manilla.kit.database.connections import Connection, Database
from manilla.kit.database.rows import Reads, columns
from manilla.kit.environment import Environment
from manilla.kit.fields import Fields
from manilla.kit.listing import PAGE_ROWS, Page
from manilla.kit.listing.sorting import (
    NUMBERED,
    AmountFilter,
    Selection,
    SortKeys,
    SortOrder,
    Totals,
    read_as,
)
from manilla.kit.money import Money
from manilla.ledger.scope import Tenant, scope_conditions

REFERENCE = "SETTLEMENT-"  # prefix of each settlement's reference, followed by its number


class SettlementState(StrEnum):
    OPEN = "open"  # the payout is being created, or it is pending
    PAID = "paid"
    FAILED = "failed"  # the payout was rejected, or it failed and was refunded


class SettlementOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The values of a settlement that are fixed before its payout is created."""

    merchant_id: int
    environment: Environment
    currency: str
    day: date
    attempt: int  # number of the settlement attempt on this day, starting with 1
    amount_minor: int
    is_partial: bool = False  # whether limits left part of the balance in the wallet
    # Id of the settlement account that a user confirmed, or None for the current account.
    account_id: int | None = None
    ordered_by: str  # a user's name, or AUTOMATIC


class Settlement(SettlementOrder, frozen=True, kw_only=True):
    id: int
    state: SettlementState
    trx_id: str | None  # the payout's id
    batch_id: str | None  # the batch that a second person must approve, or None
    remark: str | None  # why the settlement failed
    created_at: datetime
    ended_at: datetime | None

    @property
    def tenant(self) -> Tenant:
        return Tenant(self.merchant_id, self.environment)

    @property
    def amount(self) -> Money:
        return Money(self.currency, self.amount_minor)

    @property
    def ref_trx(self) -> str:
        return f"{REFERENCE}{self.id}"

    @property
    def is_open(self) -> bool:
        return self.state is SettlementState.OPEN

    @property
    def is_asked(self) -> bool:
        """Whether the settlement is waiting for a second person's approval."""
        return self.is_open and self.batch_id is not None and self.trx_id is None


class SettlementFilter(AmountFilter, frozen=True, kw_only=True):
    state: SettlementState | None = None
    currency: str | None = None
    search: str | None = None  # the settlement's number, or its payout's id


_ORDERS = {
    **NUMBERED,
    SortOrder.LARGEST: SortKeys(("amount_minor", "id"), tuple[int, int]),
    SortOrder.SMALLEST: SortKeys(("amount_minor", "id"), tuple[int, int], False),
    SortOrder.STATUS: SortKeys(("state", "id"), tuple[str, int]),
}
AUTOMATIC = "automatic settlement"
SETTLEMENT_FIELDS = Fields(Settlement, time="created_at")
_COLUMNS = columns(Settlement)
_SETTLEMENT = f"SELECT {_COLUMNS} FROM settlement WHERE merchant_id = $1 AND environment = $2"


async def newest(db: Database | Connection, tenant: Tenant, currency: str) -> Settlement | None:
    return await db.row(
        Settlement,
        _SETTLEMENT + " AND currency = $3 ORDER BY id DESC LIMIT 1",
        *(tenant.merchant_id, tenant.environment, currency),
    )


async def find(db: Database, tenant: Tenant, settlement_id: int) -> Settlement | None:
    return await db.row(
        Settlement,
        _SETTLEMENT + " AND id = $3",
        *(tenant.merchant_id, tenant.environment, settlement_id),
    )


async def find_by_reference(db: Database, tenant: Tenant, ref_trx: str) -> Settlement | None:
    return await find(db, tenant, int(ref_trx.removeprefix(REFERENCE)))


async def before(db: Database | Connection, settlement: Settlement) -> Settlement | None:
    """Returns the previous paid settlement.

    This settlement's statement starts where that one ends.
    """
    return await db.row(
        Settlement,
        _SETTLEMENT + " AND currency = $3 AND id < $4 AND state = 'paid' ORDER BY id DESC LIMIT 1",
        *(settlement.merchant_id, settlement.environment, settlement.currency, settlement.id),
    )


async def count_failed(db: Reads, tenant: Tenant, since: datetime) -> int:
    """Counts the currencies whose most recent settlement since this time failed."""
    return await db.number(
        """
        SELECT count(*)
          FROM (SELECT DISTINCT ON (currency) state FROM settlement
                 WHERE merchant_id = $1 AND environment = $2 AND created_at >= $3
                 ORDER BY currency, id DESC) AS newest
         WHERE state = 'failed'""",
        *(tenant.merchant_id, tenant.environment, since),
    )


async def page(
    db: Reads,
    tenant: Tenant,
    wanted: SettlementFilter,
    *,
    after: str | None = None,
    limit: int = PAGE_ROWS,
) -> Page[Settlement]:
    return await _selected(tenant, wanted).page(db, read_as(Settlement), wanted.sort, after, limit)


async def totals(db: Reads, tenant: Tenant, wanted: SettlementFilter) -> Totals:
    return await _selected(tenant, wanted).totals(db)


def _selected(tenant: Tenant, wanted: SettlementFilter) -> Selection:
    conditions = (
        scope_conditions(tenant)
        .add_given("state = {}", wanted.state)
        .add_given("currency = {}", wanted.currency)
        .add_given("amount_minor >= {}", wanted.min_minor)
        .add_given("amount_minor <= {}", wanted.max_minor)
        .add_given("created_at >= {}", wanted.since)
        .add_given("created_at < {}", wanted.until)
        .add_given("{} IN (trx_id, id::text)", listing.search_text(wanted.search))
    )
    return Selection("settlement", _COLUMNS, _ORDERS, conditions, status="state")


async def start(connection: Connection, order: SettlementOrder) -> Settlement | None:
    """Creates a settlement. Returns None if one is open, or if this attempt already exists."""
    return await connection.row(
        Settlement,
        f"""
        INSERT INTO settlement (merchant_id, environment, currency, day, attempt, amount_minor,
               is_partial, account_id, ordered_by)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
            ON CONFLICT DO NOTHING
        RETURNING {_COLUMNS}""",
        *(order.merchant_id, order.environment, order.currency, order.day, order.attempt),
        *(order.amount_minor, order.is_partial, order.account_id, order.ordered_by),
    )


async def set_payout(db: Database, settlement: Settlement, trx_id: str) -> None:
    await db.execute(
        "UPDATE settlement SET trx_id = $3 WHERE merchant_id = $1 AND id = $2",
        *(settlement.merchant_id, settlement.id, trx_id),
    )


async def set_account(db: Database, settlement: Settlement, account_id: int) -> None:
    """Stores the account for the payout that is about to be created."""
    await db.execute(
        "UPDATE settlement SET account_id = $3 WHERE merchant_id = $1 AND id = $2",
        *(settlement.merchant_id, settlement.id, account_id),
    )


async def count_failures(db: Database, of: Settlement) -> int:
    """Counts the failed settlements of this balance on the same day."""
    return await db.number(
        """
        SELECT count(*) FROM settlement
         WHERE merchant_id = $1 AND environment = $2 AND currency = $3 AND day = $4
           AND state = 'failed'""",
        *(of.merchant_id, of.environment, of.currency, of.day),
    )


async def set_request(connection: Connection, settlement: Settlement, batch_id: str) -> None:
    await connection.execute(
        "UPDATE settlement SET batch_id = $3 WHERE merchant_id = $1 AND id = $2",
        *(settlement.merchant_id, settlement.id, batch_id),
    )


async def of_request(db: Database, tenant: Tenant, batch_id: str) -> Settlement | None:
    """Returns the open settlement that is waiting for this batch's approval."""
    return await db.row(
        Settlement,
        _SETTLEMENT + " AND state = 'open' AND batch_id = $3",
        *(tenant.merchant_id, tenant.environment, batch_id),
    )


async def end(
    connection: Connection, settlement: Settlement, state: SettlementState, remark: str | None
) -> bool:
    """Ends an open settlement. Returns False if it has ended already."""
    return await connection.has_row(
        """
        UPDATE settlement SET state = $3, remark = $4, ended_at = now()
         WHERE merchant_id = $1 AND id = $2 AND state = 'open'
        RETURNING id""",
        *(settlement.merchant_id, settlement.id, state, remark),
    )
