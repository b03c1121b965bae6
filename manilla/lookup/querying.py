"""Status queries that a user requests. The jobs that query by themselves run earlier.

The jobs follow their usual rules, so a query cannot pay a transfer twice or credit a payment twice.
"""

from datetime import UTC, datetime

from manilla.audit import audit
from manilla.job_kinds import JobKind
from manilla.kit import jobs
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.ledger.transactions import TransactionNotFound
from manilla.payments import store as payments
from manilla.payments.payment import Payment
from manilla.payouts import store as payouts
from manilla.payouts.payout import Payout
from manilla.refunds import store as refunds
from manilla.refunds.refund import Refund

# A transfer that the provider does not know is sent again. The first request must have ended by
# then: a call to a provider takes at most 15 seconds.
SENT_AT_LEAST_SECONDS = 20.0


class NothingToQuery(Refusal):
    status, code = 409, "NOTHING_TO_QUERY"
    message = "There is nothing to query at the provider now."


async def query_now(
    db: Database, merchant_id: int, trx_id: str, *, environment: Environment | None = None
) -> None:
    """Makes the status queries of a payment, payout or refund due now.

    Raises NothingToQuery if the provider does not have the transaction, or can no longer change it.
    `environment` limits the query to transactions of this environment.
    """
    queried = await _find(db, merchant_id, trx_id)
    if queried is None or environment not in (None, queried.environment):
        raise TransactionNotFound
    subjects = await _subjects(db, queried)
    if not subjects:
        raise NothingToQuery
    async with db.transaction() as connection:
        for kind, subject, wait in subjects:
            await jobs.put(connection, merchant_id, kind, subject, in_seconds=wait)
        what = type(queried).__name__.lower()
        await audit.record(connection, f"{what}.query", f"{what}:{trx_id}", merchant_id=merchant_id)


async def _find(db: Database, merchant_id: int, trx_id: str) -> Payment | Payout | Refund | None:
    return (
        await payments.payment(db, merchant_id, trx_id)
        or await payouts.payout(db, merchant_id, trx_id)
        or await refunds.refund(db, merchant_id, trx_id)
    )


async def _subjects(
    db: Database, queried: Payment | Payout | Refund
) -> list[tuple[JobKind, str, float]]:
    """Returns the jobs that query the transaction: kind, subject and the seconds until they run."""
    if queried.environment is Environment.SANDBOX:
        return []
    if isinstance(queried, Payment):
        charges = await payments.charges(db, queried.merchant_id, queried.trx_id)
        return [(JobKind.CHARGE, each.reference, 0) for each in charges if not each.has_arrived]
    if not queried.is_open or queried.sent_at is None:
        return []
    age = (datetime.now(UTC) - queried.sent_at).total_seconds()
    kind = JobKind.REFUND if isinstance(queried, Refund) else JobKind.TRANSFER
    return [(kind, queried.trx_id, max(0.0, SENT_AT_LEAST_SECONDS - age))]
