"""Ledger postings for refunds."""

from manilla.kit.database.connections import Connection
from manilla.kit.database.rows import RowSource
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.ledger import posting
from manilla.ledger.posting import Line, Posting, PostingOutcome
from manilla.merchants.outgoing import OutgoingHold
from manilla.posting_kinds import PostingKind
from manilla.refunds.refund import Refund

WALLET_INACTIVE = "wallet_inactive"  # a result of the SQL function `refund_withdraw`


class RefundRefused(Refusal):
    code = "refund_failed"
    message = "This amount of the payment cannot be refunded."


class RefundBlocked(RefundRefused):
    message = "Refunds are not possible right now. Nothing was refunded."


class RefundNotCovered(Refusal):
    code = "insufficient_balance"
    message = "The merchant's wallet cannot cover the refund."


async def debit(connection: Connection, refund: Refund) -> None:
    """Debits the accounts that the refund is paid from, if the merchant may refund now."""
    outcome: str = await connection.value(
        "SELECT refund_withdraw($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        *(refund.merchant_id, refund.trx_id, refund.environment, refund.currency),
        *(refund.amount_minor, refund.commission_minor, refund.customer_credit_minor),
        *(refund.reason, refund.on_behalf),
    )
    if outcome == PostingOutcome.INSUFFICIENT_BALANCE:
        raise RefundNotCovered
    if outcome == WALLET_INACTIVE:
        raise RefundBlocked("This payment's wallet is not active. Nothing was refunded.")
    if outcome in set(OutgoingHold):
        raise RefundBlocked(f"{OutgoingHold(outcome).text} Nothing was refunded.")
    assert outcome == PostingOutcome.POSTED, outcome


def payment_of(refund: Refund, *, from_bank: bool) -> Posting:
    """Returns the refund's payment from the provider's clearing account, or from our own bank."""
    account = posting.BANK if from_bank else posting.clearing(refund.payer)
    return Posting(
        merchant_id=refund.merchant_id,
        trx_id=refund.trx_id,
        kind=PostingKind.REFUND_PAID,
        environment=refund.environment,
        wallet=Money(refund.currency, 0),
        lines=(
            Line(posting.IN_FLIGHT, -refund.amount_minor),
            Line(account, refund.amount_minor),
        ),
        reason=refund.reason,
    )


async def is_from_bank(db: RowSource, refund: Refund) -> bool:
    """Whether a completed refund was paid from our bank instead of by the provider."""
    return await db.has_row(
        """
        SELECT true FROM posting g
          JOIN entry e ON e.merchant_id = g.merchant_id AND e.posting_id = g.id
         WHERE g.merchant_id = $1 AND g.trx_id = $2 AND g.kind = $4
           AND e.account = $3""",
        *(refund.merchant_id, refund.trx_id, posting.BANK, PostingKind.REFUND_PAID),
    )


async def find_return(connection: Connection, refund: Refund) -> Posting:
    """Returns the posting that reverses the refund's debit."""
    debit = await posting.find(connection, refund.merchant_id, refund.trx_id, PostingKind.REFUND)
    assert debit is not None, "every refund was debited"
    return debit.reversed(PostingKind.REFUND_RETURNED, reason=refund.reason)
