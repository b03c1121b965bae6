"""SQL queries for disputes and their files."""

from datetime import datetime

import msgspec

from manilla.disputes.dispute import Dispute, DisputeFile
from manilla.kit.database.connections import Connection, Database
from manilla.kit.database.rows import Reads, RowSource, columns
from manilla.kit.money import Money
from manilla.ledger.scope import Tenant
from manilla.ledger.transactions import TransactionNotFound

DISPUTE_COLUMNS = columns(Dispute)
_DISPUTE = f"SELECT {DISPUTE_COLUMNS} FROM dispute"
_FILE = f"SELECT {columns(DisputeFile)} FROM dispute_file"


async def dispute(db: RowSource, merchant_id: int, trx_id: str) -> Dispute | None:
    return await db.row(
        Dispute, _DISPUTE + " WHERE merchant_id = $1 AND trx_id = $2", merchant_id, trx_id
    )


async def of_tenant(db: RowSource, tenant: Tenant, trx_id: str) -> Dispute:
    """Returns the dispute. The id of another merchant or environment is unknown."""
    found = await dispute(db, tenant.merchant_id, trx_id)
    if found is None or found.environment is not tenant.environment:
        raise TransactionNotFound("There is no such dispute.")
    return found


async def disputes_of(db: RowSource, merchant_id: int, payment_trx_id: str) -> list[Dispute]:
    """Returns all disputes of a payment, oldest first."""
    return await db.rows(
        Dispute,
        _DISPUTE + " WHERE merchant_id = $1 AND payment_trx_id = $2 ORDER BY trx_id",
        *(merchant_id, payment_trx_id),
    )


async def by_provider_reference(
    db: RowSource, merchant_id: int, provider: str, reference: str
) -> Dispute | None:
    return await db.row(
        Dispute,
        _DISPUTE + " WHERE merchant_id = $1 AND provider = $2 AND provider_reference = $3",
        *(merchant_id, provider, reference),
    )


async def charges_of_dispute(db: RowSource, provider: str, reference: str) -> list[tuple[int, str]]:
    """Returns the charges whose dispute has this id at the provider."""
    records = await db.records(
        """
        SELECT merchant_id, charge_reference FROM dispute
         WHERE provider_reference = $2 AND provider = $1 AND charge_reference IS NOT NULL""",
        *(provider, reference),
    )
    return [tuple(record) for record in records]


async def charges_of_provider(
    db: RowSource, provider: str, reference: str
) -> list[tuple[int, str]]:
    """Returns the charges that have this reference of the provider."""
    records = await db.records(
        """
        SELECT merchant_id, reference FROM charge
         WHERE provider_reference = $2 AND provider = $1 LIMIT 2""",
        *(provider, reference),
    )
    return [tuple(record) for record in records]


async def insert(connection: Connection, new: Dispute) -> None:
    """Adds a dispute. The caller has locked its payment, and has found no dispute with its key."""
    await connection.execute(
        """
        INSERT INTO dispute (merchant_id, trx_id, payment_trx_id, environment, ref_trx,
                             charge_reference, provider, provider_reference, currency,
                             amount_minor, status, stage, category, reason, created_at,
                             opened_at, respond_by, reported_at, updated_at, traceparent)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
                $19, $20)""",
        *(new.merchant_id, new.trx_id, new.payment_trx_id, new.environment, new.ref_trx),
        *(new.charge_reference, new.provider, new.provider_reference, new.currency),
        *(new.amount_minor, new.status, new.stage, new.category, new.reason, new.created_at),
        *(new.opened_at, new.respond_by, new.reported_at, new.updated_at, new.traceparent),
    )


async def files_of(db: RowSource, merchant_id: int, trx_id: str) -> list[DisputeFile]:
    return await db.rows(
        DisputeFile,
        _FILE + " WHERE merchant_id = $1 AND trx_id = $2 ORDER BY number",
        *(merchant_id, trx_id),
    )


class RefundBeside(msgspec.Struct, frozen=True):
    """A refund of the disputed payment, which the person who answers must know."""

    trx_id: str
    status: str
    currency: str
    amount_minor: int
    customer_credit_minor: int  # a returned surplus, which was not part of the price
    sent_at: datetime | None  # None if the refund was not sent to the provider yet

    @property
    def amount(self) -> Money:
        return Money(self.currency, self.amount_minor)

    @property
    def is_with_provider(self) -> bool:
        return self.status == "pending" and self.sent_at is not None


async def refunds_beside(
    db: Reads | Database | Connection, dispute_: Dispute
) -> list[RefundBeside]:
    """Returns the refunds of the disputed payment that did not fail, oldest first."""
    return await db.rows(
        RefundBeside,
        f"""
        SELECT {columns(RefundBeside)} FROM refund
         WHERE merchant_id = $1 AND payment_trx_id = $2 AND status <> 'failed'
         ORDER BY trx_id""",
        *(dispute_.merchant_id, dispute_.payment_trx_id),
    )


async def withheld(db: RowSource, tenant: Tenant) -> dict[str, Money]:
    """Maps each currency to what open disputes withhold from the merchant's wallet."""
    records = await db.records(
        """
        SELECT currency, sum(withheld_minor)::bigint AS minor FROM dispute
         WHERE merchant_id = $1 AND environment = $2
           AND status IN ('needs_response', 'submitted')
         GROUP BY currency""",
        *(tenant.merchant_id, tenant.environment),
    )
    return {each["currency"]: Money(each["currency"], each["minor"]) for each in records}
