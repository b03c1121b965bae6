"""Reads and writes payments and their charges."""

from collections.abc import Sequence
from datetime import datetime

from manilla.kit.batch import SharedReads
from manilla.kit.database.connections import Connection, Database
from manilla.kit.database.rows import RowSource, columns, struct_of
from manilla.kit.environment import Environment
from manilla.kit.jobs import Job
from manilla.kit.money import Money
from manilla.ledger import trx_ids
from manilla.ledger.outcomes import ChangedRow
from manilla.ledger.scope import Tenant
from manilla.payments.payment import Charge, ChargeStatus, NewPayment, Payment, PaymentErrorCode
from manilla.providers.port import VirtualAccount

PAYMENT_COLUMNS = columns(Payment)
_PAYMENT = f"SELECT {PAYMENT_COLUMNS} FROM payment"


async def payment(
    db: Database | Connection, merchant_id: int, trx_id: str, *, lock: bool = False
) -> Payment | None:
    return await db.row(
        Payment,
        _PAYMENT + " WHERE merchant_id = $1 AND trx_id = $2" + (" FOR UPDATE" if lock else ""),
        merchant_id,
        trx_id,
    )


async def payment_about(db: Database, reference: str) -> Payment | None:
    """Returns the payment with this id, or the payment of a charge, refund or commission."""
    trx_id = reference.partition("-")[0]
    merchant_id = trx_ids.merchant_of(trx_id)
    if merchant_id is None:
        return None
    found: str | None = await db.value(
        """
        SELECT coalesce(
            (SELECT trx_id FROM payment WHERE merchant_id = $1 AND trx_id = $2),
            (SELECT payment_trx_id FROM refund WHERE merchant_id = $1 AND trx_id = $2),
            (SELECT trx_id FROM payment WHERE merchant_id = $1 AND commission_trx_id = $2))""",
        *(merchant_id, trx_id),
    )
    return None if found is None else await payment(db, merchant_id, found)


# The columns that an outcome writes.
_PAYMENT_OUTCOME = (
    *("status", "error_code", "commission_trx_id", "credited_charge", "refunded_minor"),
    *("received_minor", "disputed_minor"),
)
_CHARGE_OUTCOME = ("status", "paid_minor", "credit_minor", "reason", "error_code")


# Also written if the payment has a stored price: the customer's choice can change them.
_PRICE_OUTCOME = ("commission_minor", "tax_minor", "price")


def changed_payment(after: Payment) -> ChangedRow:
    names = _PAYMENT_OUTCOME if after.price is None else _PAYMENT_OUTCOME + _PRICE_OUTCOME
    columns = {name: getattr(after, name) for name in names}
    return ChangedRow("payment", after.trx_id, columns)


def changed_charge(after: Charge) -> ChangedRow:
    columns = {name: getattr(after, name) for name in _CHARGE_OUTCOME}
    return ChangedRow("charge", after.reference, columns)


async def set_received(connection: Connection, after: Payment) -> None:
    """Writes the amount received so far. The caller must have locked the row."""
    await connection.execute(
        """
        UPDATE payment SET received_minor = $3, updated_at = now()
         WHERE merchant_id = $1 AND trx_id = $2""",
        *(after.merchant_id, after.trx_id, after.received_minor),
    )


async def set_customer(connection: Connection, payment: Payment, reference: str) -> None:
    """Attaches the payment to a customer. The caller must have locked the row."""
    await connection.execute(
        "UPDATE payment SET customer_reference = $3 WHERE merchant_id = $1 AND trx_id = $2",
        *(payment.merchant_id, payment.trx_id, reference),
    )


async def total_of_day(connection: Connection, tenant: Tenant, currency: str, day_from: str) -> int:
    """Returns what counts in the merchant's daily limit, as in `payment_initiate`.

    The caller has locked the wallet, so nothing is added to the total meanwhile.
    """
    total: int = await connection.value(
        "SELECT coalesce(sum(amount_minor), 0)::bigint FROM payment"
        " WHERE merchant_id = $1 AND environment = $2 AND currency = $3 AND trx_id >= $4"
        " AND status IN ('pending', 'success')",
        *(tenant.merchant_id, tenant.environment, currency, day_from),
    )
    return total


async def of_customer(
    db: RowSource, merchant_id: int, environment: Environment, reference: str
) -> list[Payment]:
    """Returns all payments of a customer, oldest first."""
    return await db.rows(
        Payment,
        _PAYMENT
        + " WHERE merchant_id = $1 AND customer_reference = $3 AND environment = $2"
        + " ORDER BY trx_id",
        *(merchant_id, environment, reference),
    )


async def erase_customer(
    connection: Connection, merchant_id: int, environment: Environment, reference: str
) -> None:
    """Removes the names of a customer and of payers from its payments. Amounts and ids stay."""
    await connection.execute(
        """
        WITH erased AS (
            UPDATE payment
               SET customer_name = NULL, customer_email = NULL,
                   payer = payer || '{"name": null, "account_number": null}'
             WHERE merchant_id = $1 AND customer_reference = $3 AND environment = $2
            RETURNING trx_id)
        UPDATE charge SET account_name = NULL
         WHERE merchant_id = $1 AND trx_id IN (SELECT trx_id FROM erased)""",
        *(merchant_id, environment, reference),
    )


async def erase_ways(
    connection: Connection,
    merchant_id: int,
    environment: Environment,
    reference: str,
    label: str,
) -> None:
    """Replaces what a customer's payments show of saved ways to pay. Their ids stay."""
    await connection.execute(
        """
        UPDATE payment
           SET saved_way = jsonb_set(saved_way::jsonb, '{label}', to_jsonb($4::text))::text
         WHERE merchant_id = $1 AND customer_reference = $3 AND environment = $2
           AND saved_way IS NOT NULL""",
        *(merchant_id, environment, reference, label),
    )


# Records when and in which language checkout was opened, for many payments. A `SharedWrite` runs
# it.
SET_OPENED = """
    UPDATE payment AS p SET opened_at = coalesce(p.opened_at, now()), language = seen.language
      FROM unnest($1::integer[], $2::bigint[], $3::text[], $4::text[])
           AS seen (place, merchant_id, trx_id, language)
     WHERE p.merchant_id = ANY (ARRAY[seen.merchant_id]) AND p.trx_id = seen.trx_id
       AND (p.opened_at IS NULL OR p.language IS DISTINCT FROM seen.language)
       AND p.status = 'pending'
    RETURNING seen.place"""


_CHARGE = f"SELECT {columns(Charge)} FROM charge"


async def charge(db: Database | Connection, merchant_id: int, reference: str) -> Charge | None:
    return await db.row(
        Charge, _CHARGE + " WHERE merchant_id = $1 AND reference = $2", merchant_id, reference
    )


async def charges_of(db: Database, jobs: Sequence[Job]) -> list[Charge | None]:
    """Returns each job's charge, in the order of the jobs."""
    rows = await db.rows_by_key(
        Charge,
        f"""
        SELECT found.*
          FROM unnest($1::bigint[], $2::text[]) AS j (merchant_id, subject)
         CROSS JOIN LATERAL ({_CHARGE}
               WHERE charge.merchant_id = j.merchant_id AND charge.reference = j.subject
               LIMIT 1) AS found""",
        [job.merchant_id for job in jobs],
        [job.subject for job in jobs],
    )
    found = {(row.merchant_id, row.reference): row for row in rows}
    return [found.get((job.merchant_id, job.subject)) for job in jobs]


async def charges(db: Database | Connection, merchant_id: int, trx_id: str) -> list[Charge]:
    """Returns all charges of a payment, oldest first."""
    return await db.rows(
        Charge,
        _CHARGE + " WHERE merchant_id = $1 AND trx_id = $2 ORDER BY number",
        merchant_id,
        trx_id,
    )


_WITH_CHARGES = f"""
    SELECT place, p.*, c.*
      FROM unnest($1::integer[], $2::bigint[], $3::text[]) AS wanted (place, merchant, id)
     CROSS JOIN LATERAL (
           {_PAYMENT}
            WHERE merchant_id = wanted.merchant AND trx_id BETWEEN wanted.id AND wanted.id
            ORDER BY trx_id LIMIT 1) AS p  -- makes the planner use the primary key
      LEFT JOIN LATERAL (
           {_CHARGE}
            WHERE merchant_id = wanted.merchant AND trx_id = wanted.id
            ORDER BY number) AS c ON true"""
_PAYMENT_END = 1 + len(Payment.__struct_fields__)


async def payment_with_charges(
    reads: SharedReads, merchant_id: int, trx_id: str
) -> tuple[Payment, list[Charge]] | None:
    """Returns a payment and its charges, oldest first. Concurrent requests share a statement."""
    found = await reads.records(_WITH_CHARGES, merchant_id, trx_id)
    if not found:
        return None
    # A payment without charges has one record, in which all columns of the charge are null.
    parts = (record[_PAYMENT_END:] for record in found)
    charges = [struct_of(Charge, part) for part in parts if part[0] is not None]
    return struct_of(Payment, found[0][1:_PAYMENT_END]), charges


async def insert_payment(connection: Connection, new: NewPayment) -> None:
    names = NewPayment.__struct_fields__
    places = ", ".join(f"${number}" for number in range(1, len(names) + 1))
    await connection.execute(
        f"INSERT INTO payment ({columns(NewPayment)}) VALUES ({places})",
        *(getattr(new, name) for name in names),
    )


async def insert_transfer(connection: Connection, new: Charge) -> None:
    """Adds the charge of a transfer that arrived without a request of ours."""
    await connection.execute(
        """
        INSERT INTO charge (merchant_id, reference, trx_id, number, method_code, provider, currency,
                            amount_minor, status, bank_name, account_number, account_name,
                            their_reference)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)""",
        *(new.merchant_id, new.reference, new.trx_id, new.number, new.method_code, new.provider),
        *(new.currency, new.amount_minor, new.status, new.bank_name, new.account_number),
        *(new.account_name, new.their_reference),
    )


async def insert_charge(connection: Connection, new: Charge) -> None:
    await connection.execute(
        """
        INSERT INTO charge (merchant_id, reference, trx_id, number, method_code, provider, currency,
                            amount_minor, status, channel, way_id)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)""",
        *(new.merchant_id, new.reference, new.trx_id, new.number, new.method_code, new.provider),
        *(new.currency, new.amount_minor, new.status, new.channel, new.way_id),
    )


# Saves the URLs of the providers' pages for many charges that are being created.
# Returns the charges that are open now. A `SharedWrite` runs it.
SET_CHECKOUT_URL = f"""
    WITH opened AS (
        UPDATE charge AS c SET status = 'open', checkout_url = given.url, updated_at = now()
          FROM unnest($1::integer[], $2::bigint[], $3::text[], $4::text[])
               AS given (place, merchant, id, url)
         WHERE c.merchant_id = ANY (ARRAY[given.merchant]) AND c.reference = given.id
           AND c.status = 'opening'
        RETURNING given.place, c.*)
    SELECT place, {columns(Charge)} FROM opened"""


async def set_account(db: Database, opened: Charge, account: VirtualAccount) -> Charge | None:
    """Returns the open charge, or None if the charge is no longer being created."""
    return await db.row(
        Charge,
        f"""
        UPDATE charge
           SET status = 'open', bank_name = $3, account_number = $4, account_name = $5,
               account_expires_at = $6, updated_at = now()
         WHERE merchant_id = $1 AND reference = $2 AND status = 'opening'
        RETURNING {columns(Charge)}""",
        *(opened.merchant_id, opened.reference, account.bank_name, account.account_number),
        *(account.account_name, account.expires_at),
    )


async def abandon_charge(
    connection: Connection, opened: Charge, status: ChargeStatus, reason: str
) -> None:
    """Records why the customer was not shown a charge that is still being created."""
    await connection.execute(
        """
        UPDATE charge SET status = $3, reason = $4, updated_at = now()
         WHERE merchant_id = $1 AND reference = $2 AND status = 'opening'""",
        *(opened.merchant_id, opened.reference, status, reason),
    )


async def conclude_charge(
    connection: Connection,
    concluded: Charge,
    status: ChargeStatus,
    *,
    paid_minor: int | None = None,
    credit_minor: int = 0,
    reason: str | None = None,
    error_code: PaymentErrorCode | None = None,
) -> None:
    """Writes the final status of a charge. The caller must have locked the payment's row."""
    await connection.execute(
        """
        UPDATE charge
           SET status = $3, paid_minor = $4, reason = $5, error_code = $6, credit_minor = $7,
               updated_at = now()
         WHERE merchant_id = $1 AND reference = $2""",
        *(concluded.merchant_id, concluded.reference, status, paid_minor, reason, error_code),
        credit_minor,
    )


async def add_excess(connection: Connection, changed: Charge, excess: Money) -> None:
    """Records money above the accepted amount. The caller must have locked the payment's row."""
    await connection.execute(
        """
        UPDATE charge SET excess_minor = excess_minor + $3, updated_at = now()
         WHERE merchant_id = $1 AND reference = $2""",
        *(changed.merchant_id, changed.reference, excess.minor),
    )


async def set_credit(connection: Connection, changed: Charge, credit_minor: int) -> None:
    """Writes a charge's customer credit. The caller must have locked the payment's row."""
    await connection.execute(
        """
        UPDATE charge SET credit_minor = $3, updated_at = now()
         WHERE merchant_id = $1 AND reference = $2""",
        *(changed.merchant_id, changed.reference, credit_minor),
    )


async def save_provider_reference(
    connection: Connection, paid: Charge, provider_reference: str
) -> None:
    """Saves the provider's reference for a charge, because provider statements may contain it."""
    await connection.execute(
        "UPDATE charge SET provider_reference = $3 WHERE merchant_id = $1 AND reference = $2",
        *(paid.merchant_id, paid.reference, provider_reference),
    )


async def set_way(connection: Connection, payment: Payment, way_id: str | None) -> None:
    """Writes which way the payment's open charges save. The caller must have locked the payment."""
    await connection.execute(
        "UPDATE charge SET way_id = $3 WHERE merchant_id = $1 AND trx_id = $2"
        " AND status IN ('opening', 'open')",
        *(payment.merchant_id, payment.trx_id, way_id),
    )


async def set_saved_way(
    connection: Connection, merchant_id: int, trx_id: str, saved_way: str
) -> None:
    """Writes the way that the payment has saved. The caller must have locked the payment."""
    await connection.execute(
        "UPDATE payment SET saved_way = $3 WHERE merchant_id = $1 AND trx_id = $2",
        *(merchant_id, trx_id, saved_way),
    )


async def declines_of_way(
    db: Database | Connection, merchant_id: int, way_id: str, since: datetime
) -> int:
    """Returns how many charges of a saved way were declined since then."""
    count: int = await db.value(
        """
        SELECT count(*) FROM charge
         WHERE merchant_id = $1 AND way_id = $2 AND status = 'failed' AND created_at >= $3""",
        *(merchant_id, way_id, since),
    )
    return count


async def last_decline(
    connection: Connection, merchant_id: int, trx_id: str
) -> PaymentErrorCode | None:
    """Returns the error code of the last declined charge, or None if no charge was declined."""
    code: str | None = await connection.value(
        """
        SELECT error_code FROM charge
         WHERE merchant_id = $1 AND trx_id = $2 AND status = 'failed' AND error_code IS NOT NULL
         ORDER BY updated_at DESC, number DESC LIMIT 1""",
        *(merchant_id, trx_id),
    )
    return None if code is None else PaymentErrorCode(code)
