"""SQL queries for refunds."""

from datetime import timedelta

from manilla.kit.database.connections import Connection, Database
from manilla.kit.database.rows import columns
from manilla.ledger.scope import Scope, Tenant, scope_conditions
from manilla.payments import store as payments
from manilla.providers.port import KnownAs
from manilla.refunds.refund import Refund

REFUND_COLUMNS = columns(Refund)
_REFUND = f"SELECT {REFUND_COLUMNS} FROM refund"


async def refund(db: Database | Connection, merchant_id: int, trx_id: str) -> Refund | None:
    return await db.row(
        Refund, _REFUND + " WHERE merchant_id = $1 AND trx_id = $2", merchant_id, trx_id
    )


async def waiting(db: Database, scope: Scope, limit: int) -> list[Refund]:
    """Returns pending refunds that an administrator must pay, oldest first."""
    conditions = scope_conditions(scope).add("by_operator AND status = 'pending'")
    return await db.rows(
        Refund,
        f"{_REFUND} WHERE {conditions.sql} ORDER BY trx_id LIMIT {limit}",
        *conditions.values,
    )


async def refunds_of(
    db: Database | Connection, merchant_id: int, payment_trx_id: str
) -> list[Refund]:
    """Returns all refunds of a payment, oldest first."""
    return await db.rows(
        Refund,
        _REFUND + " WHERE merchant_id = $1 AND payment_trx_id = $2 ORDER BY trx_id",
        *(merchant_id, payment_trx_id),
    )


async def refund_by_reference(
    connection: Connection, tenant: Tenant, ref_trx: str
) -> Refund | None:
    # BETWEEN and ORDER BY make the planner use the unique index.
    return await connection.row(
        Refund,
        _REFUND
        + """
         WHERE merchant_id = $1 AND environment = $2 AND ref_trx BETWEEN $3 AND $3
         ORDER BY ref_trx LIMIT 1""",
        *(tenant.merchant_id, tenant.environment, ref_trx),
    )


async def insert(connection: Connection, new: Refund) -> bool:
    """Adds a refund. Returns False if the merchant's reference was used before."""
    return await connection.has_row(
        """
        INSERT INTO refund (merchant_id, trx_id, payment_trx_id, environment, currency,
                            amount_minor, reason, provider, charge_reference, on_behalf,
                            commission_minor, ref_trx, scenario, created_at, by_operator, detail,
                            customer_credit_minor, traceparent)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)
            ON CONFLICT (merchant_id, environment, ref_trx) WHERE ref_trx IS NOT NULL DO NOTHING
        RETURNING true""",
        *(new.merchant_id, new.trx_id, new.payment_trx_id, new.environment, new.currency),
        *(new.amount_minor, new.reason, new.provider, new.charge_reference),
        *(new.on_behalf, new.commission_minor, new.ref_trx, new.scenario, new.created_at),
        *(new.by_operator, new.detail, new.customer_credit_minor, new.traceparent),
    )


async def lock_unsent(connection: Connection, wanted: Refund) -> bool:
    """Locks an unsent refund, so that no worker sends it before the database transaction ends."""
    return await connection.has_row(
        """
        SELECT true FROM refund
         WHERE merchant_id = $1 AND trx_id = $2 AND status = 'pending' AND sent_at IS NULL
           FOR UPDATE""",
        *(wanted.merchant_id, wanted.trx_id),
    )


async def was_sent_within(db: Database, refund_: Refund, age: timedelta) -> bool:
    was_sent: bool | None = await db.value(
        """
        SELECT sent_at > now() - $3::interval FROM refund
         WHERE merchant_id = $1 AND trx_id = $2""",
        *(refund_.merchant_id, refund_.trx_id, age),
    )
    return bool(was_sent)


async def save_provider_reference(db: Database, refund_: Refund, reference: str) -> None:
    await db.execute(
        """
        UPDATE refund SET provider_reference = $3, updated_at = now()
         WHERE merchant_id = $1 AND trx_id = $2""",
        *(refund_.merchant_id, refund_.trx_id, reference),
    )


async def known_as(db: Database, refund_: Refund) -> KnownAs:
    """Returns the values, besides our reference, that identify the refund at the provider."""
    return KnownAs(
        provider_reference=refund_.provider_reference,
        charge_reference=await charge_at_provider(db, refund_),
        amount=refund_.amount,
        sent_at=refund_.first_sent_at,
        others=await references_of_others(db, refund_),
    )


async def charge_at_provider(db: Database, refund_: Refund) -> str | None:
    """Returns the reference by which the provider knows the refunded charge."""
    if refund_.charge_reference is None:
        return None
    charge = await payments.charge(db, refund_.merchant_id, refund_.charge_reference)
    return refund_.charge_reference if charge is None else charge.at_provider


async def references_of_others(db: Database, refund_: Refund) -> frozenset[str]:
    """Returns the provider's references for the other refunds of the same payment."""
    if refund_.provider_reference is not None:
        return frozenset()
    refunds = await refunds_of(db, refund_.merchant_id, refund_.payment_trx_id)
    return frozenset(each.provider_reference for each in refunds if each.provider_reference)


async def leave_to_administrator(db: Database, merchant_id: int, trx_id: str, detail: str) -> None:
    """Assigns the refund to the administrators. From then on, no worker sends it."""
    await db.execute(
        """
        UPDATE refund SET by_operator = true, detail = $3, updated_at = now()
         WHERE merchant_id = $1 AND trx_id = $2 AND status = 'pending'""",
        *(merchant_id, trx_id, detail),
    )
