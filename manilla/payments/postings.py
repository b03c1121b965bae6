"""Ledger postings for payments. Each posting is written exactly once."""

from collections.abc import Sequence

from manilla.kit.database.connections import Connection
from manilla.kit.money import Money
from manilla.ledger import posting
from manilla.ledger.posting import Line, Posting, PostingOutcome
from manilla.merchants.merchants import CommissionBearer
from manilla.payments.payment import Charge, Payment
from manilla.posting_kinds import PostingKind
from manilla.prices.price import TaxBearer


class WalletLimitReached(Exception):
    """The wallet would exceed its maximum balance. The caller must roll back the transaction."""


def credit_postings(payment: Payment, payer: str) -> list[Posting]:
    """Returns the postings that credit the wallet and the platform's commission.

    Either the customer or the wallet pays the commission.
    """
    if payment.commission_trx_id is None:
        return [_credit_with_commission(payment, payer)]
    return [_credit(payment, payer), _commission(payment, payment.commission_trx_id, payer)]


def _credit_with_commission(payment: Payment, payer: str) -> Posting:
    """Returns one posting for amount and commission, for a payment without a commission id.

    Payments in the sandbox, or without a commission, have no commission id.
    """
    quote = payment.quote
    added = quote.customer_pays.minor - quote.merchant_receives.minor
    taxes = _tax_lines(payment)
    return _posting(
        payment,
        payment.trx_id,
        PostingKind.PAYMENT,
        quote.merchant_receives,
        Line(posting.clearing(payer), -quote.customer_pays.minor),
        Line(posting.COMMISSION, added - sum(line.minor for line in taxes)),
        *taxes,
    )


def _credit(payment: Payment, payer: str) -> Posting:
    received = payment.quote.merchant_receives
    paid = Line(posting.clearing(payer), -received.minor)
    return _posting(payment, payment.trx_id, PostingKind.PAYMENT, received, paid)


def _commission(payment: Payment, trx_id: str, payer: str) -> Posting:
    """Returns the posting of commission and taxes, under the commission's transaction id.

    The customer paid its part on top of the amount, and the wallet pays the rest.
    """
    quote, taxes = payment.quote, _tax_lines(payment)
    deducted = quote.deducted_later(payment.environment)
    paid = quote.customer_pays - quote.amount
    owed_minor = sum(line.minor for line in taxes)
    return _posting(
        payment,
        trx_id,
        PostingKind.COMMISSION,
        Money(deducted.currency, -deducted.minor),
        Line(posting.clearing(payer), -paid.minor),
        Line(posting.COMMISSION, deducted.minor + paid.minor - owed_minor),
        *taxes,
    )


def _tax_lines(payment: Payment) -> list[Line]:
    """Returns the lines of the taxes that the platform owes.

    The sandbox deducts nothing from wallets, so it owes only taxes that the customer has paid.
    """
    owed = payment.transaction_price.owed
    if payment.is_sandbox:
        is_paid = payment.commission_bearer is CommissionBearer.CUSTOMER
        owed = tuple(
            tax
            for tax in owed
            if tax.borne_by is TaxBearer.CUSTOMER or (is_paid and not tax.is_added)
        )
    return [Line(posting.tax(tax.name), tax.minor) for tax in owed]


async def suspend(connection: Connection, payment: Payment, charge: Charge, paid: Money) -> None:
    """Posts received money to the suspense account until an administrator decides who owns it."""
    if paid.minor:
        clearing = Line(posting.clearing(charge.provider), -paid.minor)
        held = Line(posting.SUSPENSE, paid.minor)
        nothing, kind = Money(paid.currency, 0), PostingKind.SUSPENSE
        suspended = _posting(payment, charge.reference, kind, nothing, clearing, held)
        await _post(connection, [await posting.with_number(connection, suspended)])


async def keep_credit(
    connection: Connection, payment: Payment, charge: Charge, amount: Money, kind: PostingKind
) -> None:
    """Posts a received partial payment or surplus to customer credit."""
    received = Line(posting.clearing(charge.provider), -amount.minor)
    await _post(connection, [_credit_posting(payment, charge, amount.minor, kind, received)])


async def use_credit(
    connection: Connection, payment: Payment, charge: Charge, amount: Money, payer: str
) -> None:
    """Moves a partial payment from customer credit to the clearing account on completion."""
    used = Line(posting.clearing(payer), amount.minor)
    kind = PostingKind.PART_USED
    await _post(connection, [_credit_posting(payment, charge, -amount.minor, kind, used)])


async def suspend_credit(
    connection: Connection, payment: Payment, charge: Charge, amount: Money
) -> None:
    """Moves customer credit to the suspense account, because its refund failed."""
    held = Line(posting.SUSPENSE, amount.minor)
    suspended = _credit_posting(payment, charge, -amount.minor, PostingKind.SUSPENSE, held)
    await _post(connection, [await posting.with_number(connection, suspended)])


def _credit_posting(
    payment: Payment, charge: Charge, minor: int, kind: PostingKind, other: Line
) -> Posting:
    credit = Line(posting.CUSTOMER_CREDIT, minor)
    nothing = Money(charge.currency, 0)
    return _posting(payment, charge.reference, kind, nothing, other, credit)


async def keep_provider_fee(
    connection: Connection, payment: Payment, charge: Charge, fee: Money | None
) -> None:
    """Posts the provider's fee for a charge, so that our ledger matches the provider's balance."""
    postings = provider_fee_postings(payment, charge, fee)
    if postings:
        await _post(connection, postings)


def provider_fee_postings(payment: Payment, charge: Charge, fee: Money | None) -> list[Posting]:
    if fee is None or fee.minor <= 0:
        return []
    clearing = Line(posting.clearing(charge.provider), fee.minor)
    kept = Line(posting.provider_fee(charge.provider), -fee.minor)
    nothing, kind = Money(fee.currency, 0), PostingKind.PROVIDER_FEE
    return [_posting(payment, charge.reference, kind, nothing, clearing, kept)]


def _posting(
    payment: Payment,
    trx_id: str,
    kind: PostingKind,
    wallet: Money,
    first: Line,
    *others: Line,
) -> Posting:
    return Posting(
        merchant_id=payment.merchant_id,
        trx_id=trx_id,
        kind=kind,
        environment=payment.environment,
        wallet=wallet,
        lines=posting.nonzero(first, *others),
    )


async def _post(connection: Connection, postings: Sequence[Posting]) -> None:
    for posted in await posting.post(connection, postings):
        if posted.outcome is PostingOutcome.BALANCE_LIMIT:
            raise WalletLimitReached
        # The payment is locked, and its status shows that this posting was not written before.
        assert posted.outcome is PostingOutcome.POSTED, posted.outcome
