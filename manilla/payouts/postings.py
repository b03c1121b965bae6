"""Ledger postings for payouts that are delivered or refunded.

Each posting is written exactly once, even if it is requested several times.
"""

import msgspec

from manilla.kit.database.connections import Connection
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.ledger import posting
from manilla.ledger.posting import Line, Posting
from manilla.payouts.payout import Payout
from manilla.posting_kinds import PostingKind

SANDBOX = "sandbox"


class NotAsAccepted(Refusal):
    status, code = 409, "NOT_AS_ACCEPTED"
    message = "The payout's amount differs from the amount that was debited. No money was moved."


def _payer(payout: Payout) -> str:
    """Returns the account from which a delivered payout was paid."""
    if payout.is_sandbox:
        return posting.clearing(SANDBOX)
    return posting.BANK if payout.provider is None else posting.clearing(payout.provider)


def delivery(payout: Payout) -> list[Posting]:
    """Returns the postings of a delivered payout: the transfer, and the provider's fee."""
    amount, fee = payout.amount_minor, payout.provider_fee_minor or 0
    postings = [
        _posting(
            payout,
            PostingKind.PAYOUT_DELIVERED,
            Line(posting.IN_FLIGHT, -amount),
            Line(_payer(payout), amount),
        )
    ]
    if fee and payout.provider is not None and not payout.is_sandbox:
        postings.append(
            _posting(
                payout,
                PostingKind.PAYOUT_PROVIDER_FEE,
                Line(posting.clearing(payout.provider), fee),
                Line(posting.provider_fee(payout.provider), -fee),
            )
        )
    return postings


async def find_return(connection: Connection, payout: Payout) -> list[Posting]:
    """Returns the postings that refund amount, fee and taxes to the wallet, and the provider's fee.

    If the payout was delivered, the account that paid it is debited. If the provider keeps its fee,
    an administrator records that with `manilla settle`.
    """
    key = payout.merchant_id, payout.trx_id
    debit = await posting.find(connection, *key, PostingKind.PAYOUT)
    if debit is None or -debit.wallet.minor != payout.payable.minor:
        raise NotAsAccepted
    refund = _without_kept_taxes(payout, debit).reversed(PostingKind.PAYOUT_REFUND)
    if not payout.is_open:
        refund = refund.with_account(posting.IN_FLIGHT, _payer(payout))
    fee = await posting.find(connection, *key, PostingKind.PAYOUT_PROVIDER_FEE)
    returned = [] if fee is None else [fee.reversed(PostingKind.PAYOUT_PROVIDER_FEE_RETURNED)]
    return [refund, *returned]


def charged_lines(payout: Payout) -> list[Line]:
    """Returns the lines of the fee and of the taxes that a failed payout has given back."""
    owed = payout.transaction_price.owed
    income = payout.fee_minor + payout.tax_minor - sum(tax.minor for tax in owed)
    taxes = [Line(posting.tax(tax.name), tax.minor) for tax in owed if tax.returned]
    return [Line(posting.PAYOUT_FEE, income), *taxes]


def _without_kept_taxes(payout: Payout, debit: Posting) -> Posting:
    """Returns the debit without the taxes that a failed payout does not give back."""
    kept = [tax for tax in payout.transaction_price.owed if not tax.returned]
    accounts = {posting.tax(tax.name) for tax in kept}
    kept_minor = sum(tax.minor for tax in kept)
    return msgspec.structs.replace(
        debit,
        wallet=debit.wallet + Money(payout.currency, kept_minor),
        lines=tuple(line for line in debit.lines if line.account not in accounts),
    )


def _posting(payout: Payout, kind: PostingKind, *lines: Line) -> Posting:
    return Posting(
        merchant_id=payout.merchant_id,
        trx_id=payout.trx_id,
        kind=kind,
        environment=payout.environment,
        wallet=Money(payout.currency, 0),
        lines=lines,
    )
