"""SQL queries for disputes and their files."""

from collections.abc import Sequence
from datetime import datetime

from manilla.disputes.dispute import (
    DISPUTE_IDS,
    STATEMENT_PREFIX,
    AnswerState,
    Dispute,
    DisputeFile,
)
from manilla.kit.database.connections import Connection, Database
from manilla.kit.database.rows import RowSource, columns
from manilla.kit.money import Money
from manilla.ledger.scope import Tenant
from manilla.ledger.transactions import TransactionNotFound
from manilla.payments.payment import Payment
from manilla.providers.port import DisputeState
from manilla.refunds import store as refunds
from manilla.refunds.refund import Refund, RefundStatus

DISPUTE_COLUMNS = columns(Dispute)
_DISPUTE = f"SELECT {DISPUTE_COLUMNS} FROM dispute"
_FILE = f"SELECT {columns(DisputeFile)} FROM dispute_file"


async def dispute(db: RowSource, merchant_id: int, trx_id: str) -> Dispute | None:
    return await db.row(
        Dispute, _DISPUTE + " WHERE merchant_id = $1 AND trx_id = $2", merchant_id, trx_id
    )


async def of_tenant(db: RowSource, tenant: Tenant, trx_id: str) -> Dispute:
    """Returns the dispute. The id of another merchant or environment is unknown."""
    is_own = DISPUTE_IDS.owner_of(trx_id) == tenant.merchant_id
    found = await dispute(db, tenant.merchant_id, trx_id) if is_own else None
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


async def find_reported(
    connection: Connection, payment: Payment, provider: str, state: DisputeState
) -> Dispute | None:
    """Returns the dispute that a report is about. The caller has locked its payment.

    A dispute that only a statement showed gets the provider's id of it.
    """
    key = payment.merchant_id, provider, state.provider_reference
    found = await by_provider_reference(connection, *key)
    if found is not None or state.amount is None:
        return found
    await connection.execute(
        """
        UPDATE dispute SET provider_reference = $3, updated_at = now()
         WHERE merchant_id = $1
           AND trx_id = (SELECT min(trx_id) FROM dispute
                          WHERE merchant_id = $1 AND provider = $2 AND payment_trx_id = $4
                            AND amount_minor = $5 AND starts_with(provider_reference, $6))""",
        *(*key, payment.trx_id, state.amount.minor, STATEMENT_PREFIX),
    )
    return await by_provider_reference(connection, *key)


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
                             opened_at, respond_by, reported_at, updated_at, traceparent,
                             price)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
                $19, $20, $21)""",
        *(new.merchant_id, new.trx_id, new.payment_trx_id, new.environment, new.ref_trx),
        *(new.charge_reference, new.provider, new.provider_reference, new.currency),
        *(new.amount_minor, new.status, new.stage, new.category, new.reason, new.created_at),
        *(new.opened_at, new.respond_by, new.reported_at, new.updated_at, new.traceparent),
        new.price,
    )


async def files_of(db: RowSource, merchant_id: int, trx_id: str) -> list[DisputeFile]:
    return await db.rows(
        DisputeFile,
        _FILE + " WHERE merchant_id = $1 AND trx_id = $2 ORDER BY number",
        *(merchant_id, trx_id),
    )


async def files_by_dispute(
    db: Database, merchant_id: int, trx_ids: Sequence[str]
) -> dict[str, list[DisputeFile]]:
    """Maps the ids of these disputes of one merchant to their files."""
    found: dict[str, list[DisputeFile]] = {trx_id: [] for trx_id in trx_ids}
    sql = _FILE + " WHERE merchant_id = $1 AND trx_id = ANY($2) ORDER BY trx_id, number"
    for file in await db.rows_by_key(DisputeFile, sql, merchant_id, list(trx_ids)):
        found[file.trx_id].append(file)
    return found


async def refunds_beside(db: Database | Connection, dispute_: Dispute) -> list[Refund]:
    """Returns the refunds of the disputed payment that did not fail, oldest first.

    The person who answers must know them. One with a `sent_at` is at the provider already.
    """
    refunds_ = await refunds.refunds_of(db, dispute_.merchant_id, dispute_.payment_trx_id)
    return [each for each in refunds_ if each.status is not RefundStatus.FAILED]


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


async def by_id(db: RowSource, trx_id: str) -> Dispute:
    """Returns a dispute of any merchant, for administrators."""
    merchant_id = DISPUTE_IDS.owner_of(trx_id)
    found = None if merchant_id is None else await dispute(db, merchant_id, trx_id)
    if found is None:
        raise TransactionNotFound(f"There is no dispute {trx_id}.")
    return found


async def set_answer(connection: Connection, changed: Dispute, answer: AnswerState) -> None:
    """Writes where the answer is. The caller must have locked the payment's row."""
    await connection.execute(
        "UPDATE dispute SET answer = $3, updated_at = now() WHERE merchant_id = $1 AND trx_id = $2",
        *(changed.merchant_id, changed.trx_id, answer),
    )


async def set_reported(connection: Connection, changed: Dispute, asked_at: datetime) -> None:
    """Writes when the latest report was requested, so that an older one changes nothing."""
    await connection.execute(
        "UPDATE dispute SET reported_at = $3 WHERE merchant_id = $1 AND trx_id = $2",
        *(changed.merchant_id, changed.trx_id, asked_at),
    )


async def set_reminders(connection: Connection, changed: Dispute, reminders: int) -> None:
    """Writes the number of reminders. The caller must have locked the payment's row."""
    await connection.execute(
        "UPDATE dispute SET reminders = $3 WHERE merchant_id = $1 AND trx_id = $2",
        *(changed.merchant_id, changed.trx_id, reminders),
    )
