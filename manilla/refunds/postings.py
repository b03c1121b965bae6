"""Ledger postings for refunds."""

from collections.abc import Iterable

from manilla.kit.database.connections import Connection
from manilla.kit.database.rows import RowSource
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.ledger import posting
from manilla.ledger.posting import Line, Posting, PostingOutcome
from manilla.merchants.merchants import CommissionBearer
from manilla.merchants.outgoing import OutgoingHold
from manilla.payments.payment import Payment
from manilla.posting_kinds import PostingKind
from manilla.prices.price import NO_PRICE, ChargedTax, TaxBase, TaxBearer
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


def commission_of(payment: Payment, refund: Refund) -> list[Posting]:
    """Returns what a completed refund changes about the commission and the taxes on it.

    If the refund contains what the customer paid on top, the platform owes no tax on it. If the
    payment's plan returns the commission, the wallet gets its part back, rounded down.
    """
    price = payment.transaction_price
    if refund.is_of_customer_credit or price == NO_PRICE:
        return []
    minor, taxes = 0, list[tuple[ChargedTax, int]]()
    if refund.commission_minor:
        taxes += [(tax, tax.minor) for tax in _returned(payment, TaxBearer.CUSTOMER)]
    is_borne = payment.commission_bearer is CommissionBearer.MERCHANT and not payment.is_sandbox
    if price.returns_commission and is_borne:
        part, whole = refund.from_wallet_minor, payment.amount_minor
        of_wallet = [
            (tax, tax.minor * part // whole) for tax in _returned(payment, TaxBearer.MERCHANT)
        ]
        minor = payment.commission_minor * part // whole
        minor += sum(tax_minor for tax, tax_minor in of_wallet if tax.is_added)
        taxes += of_wallet
    owed = [Line(posting.tax(tax.name), -tax_minor) for tax, tax_minor in taxes]
    earned = Line(posting.COMMISSION, -minor - sum(line.minor for line in owed))
    lines = posting.nonzero(earned, *owed)
    return [_of_commission(refund, minor, lines)] if lines else []


def _of_commission(refund: Refund, minor: int, lines: tuple[Line, ...]) -> Posting:
    return Posting(
        merchant_id=refund.merchant_id,
        trx_id=refund.trx_id,
        kind=PostingKind.REFUND_COMMISSION,
        environment=refund.environment,
        wallet=Money(refund.currency, minor),
        lines=lines,
    )


def _returned(payment: Payment, bearer: TaxBearer) -> Iterable[ChargedTax]:
    """Yields the taxes on the fee that are owed no more if the bearer gets its payment back.

    A tax that the fee contains, or that the platform bears, belongs to who paid the fee.
    """
    is_payer = TaxBearer(payment.commission_bearer) is bearer
    for tax in payment.transaction_price.owed:
        is_paid = tax.borne_by is bearer if tax.is_added else is_payer
        if tax.base is TaxBase.FEE and tax.returned and is_paid:
            yield tax


async def find_return(connection: Connection, refund: Refund) -> Posting:
    """Returns the posting that reverses the refund's debit."""
    debit = await posting.find(connection, refund.merchant_id, refund.trx_id, PostingKind.REFUND)
    assert debit is not None, "every refund was debited"
    return debit.reversed(PostingKind.REFUND_RETURNED, reason=refund.reason)
