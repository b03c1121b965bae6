"""What a payment moves in the books. Each posting is there once, whoever asks for it."""

from collections.abc import Sequence

from manilla.kit.db import Connection
from manilla.kit.money import Money
from manilla.ledger import posting
from manilla.ledger import queries as ledger
from manilla.ledger.posting import Line, Outcome, Posting
from manilla.merchants.merchants import Bearer
from manilla.payments.payment import Charge, Payment


async def credit(connection: Connection, payment: Payment, payer: str) -> None:
    """The wallet gets the amount; the platform its commission, from the customer or the wallet."""
    quote = payment.quote
    added = quote.commission.minor if quote.bearer is Bearer.CUSTOMER else 0
    postings = [
        _posting(
            payment,
            payment.trx_id,
            "payment",
            quote.merchant_receives,
            Line(posting.clearing(payer), -quote.customer_pays.minor),
            Line(posting.COMMISSION, added) if added else None,
        )
    ]
    deducted = quote.deducted_later(payment.environment)
    if deducted.minor:
        assert payment.commission_trx_id is not None
        postings.append(
            _posting(
                payment,
                payment.commission_trx_id,
                "commission",
                Money(deducted.currency, -deducted.minor),
                Line(posting.COMMISSION, deducted.minor),
            )
        )
    await _post(connection, postings)


async def suspend(connection: Connection, payment: Payment, charge: Charge, paid: Money) -> None:
    """The money is with the provider, and nobody's yet."""
    if paid.minor:
        clearing = Line(posting.clearing(charge.provider), -paid.minor)
        held = Line(posting.SUSPENSE, paid.minor)
        nothing = Money(paid.currency, 0)
        await _post(
            connection,
            [_posting(payment, charge.reference, "suspense", nothing, clearing, held)],
        )


async def keep_provider_fee(
    connection: Connection, payment: Payment, charge: Charge, fee: Money | None
) -> None:
    """What the provider keeps of a charge, so that clearing can equal what it holds for us."""
    if fee is None or fee.minor <= 0:
        return
    clearing = Line(posting.clearing(charge.provider), fee.minor)
    kept = Line(posting.provider_fee(charge.provider), -fee.minor)
    nothing = Money(fee.currency, 0)
    await _post(
        connection, [_posting(payment, charge.reference, "provider_fee", nothing, clearing, kept)]
    )


def _posting(
    payment: Payment,
    trx_id: str,
    kind: str,
    wallet: Money,
    first: Line,
    second: Line | None = None,
) -> Posting:
    return Posting(
        merchant_id=payment.merchant_id,
        trx_id=trx_id,
        kind=kind,
        environment=payment.environment,
        wallet=wallet,
        first=first,
        second=second,
    )


async def _post(connection: Connection, postings: Sequence[Posting]) -> None:
    for posted in await ledger.post(connection, postings):
        # The rows that would make it a duplicate are written under the lock that we hold.
        assert posted.outcome is Outcome.POSTED, posted.outcome
