"""Ledger postings for payouts that are delivered or refunded.

Each posting is written exactly once, even if it is requested several times.
"""

from manilla.kit.database.connections import Connection
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.ledger import posting
from manilla.ledger.posting import Line, Posting, PostingOutcome
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


async def deliver(connection: Connection, payout: Payout) -> None:
    postings = [
        _posting(
            payout,
            PostingKind.PAYOUT_DELIVERED,
            0,
            Line(posting.IN_FLIGHT, -payout.amount_minor),
            Line(_payer(payout), payout.amount_minor),
        )
    ]
    fee_minor = payout.provider_fee_minor or 0
    if fee_minor and payout.provider is not None and not payout.is_sandbox:
        postings.append(
            _posting(
                payout,
                PostingKind.PAYOUT_PROVIDER_FEE,
                0,
                Line(posting.clearing(payout.provider), fee_minor),
                Line(posting.provider_fee(payout.provider), -fee_minor),
            )
        )
    await _post(connection, postings)


async def give_back(connection: Connection, payout: Payout, *, was_delivered: bool) -> None:
    """Refunds amount and fee to the wallet. If the payout was delivered, debits the paying account.

    `payout` is the payout before the change, so its provider fee is the fee that was posted.
    """
    debit = await posting.find(connection, payout.merchant_id, payout.trx_id, PostingKind.PAYOUT)
    if debit is None or -debit.wallet.minor != payout.payable.minor:
        raise NotAsAccepted
    refund = debit.reversed(PostingKind.PAYOUT_REFUND)
    if was_delivered:
        await _post(
            connection,
            [refund.with_account(posting.IN_FLIGHT, _payer(payout)), *_fee_returned(payout)],
        )
    else:
        await _post(connection, [refund])


def _fee_returned(payout: Payout) -> list[Posting]:
    """Returns the posting that reverses the provider's fee for a returned transfer.

    If the provider keeps its fee, an administrator records that with `manilla settle`.
    """
    fee_minor = payout.provider_fee_minor or 0
    if not fee_minor or payout.provider is None or payout.is_sandbox:
        return []
    clearing = Line(posting.clearing(payout.provider), -fee_minor)
    kept = Line(posting.provider_fee(payout.provider), fee_minor)
    return [_posting(payout, PostingKind.PAYOUT_PROVIDER_FEE_RETURNED, 0, clearing, kept)]


def _posting(
    payout: Payout, kind: PostingKind, wallet_minor: int, first: Line, *others: Line
) -> Posting:
    return Posting(
        merchant_id=payout.merchant_id,
        trx_id=payout.trx_id,
        kind=kind,
        environment=payout.environment,
        wallet=Money(payout.currency, wallet_minor),
        lines=(first, *posting.nonzero(*others)),
    )


async def _post(connection: Connection, postings: list[Posting]) -> None:
    for posted in await posting.post(connection, postings):
        # The payout is locked, and its status shows that this posting was not written before.
        assert posted.outcome is PostingOutcome.POSTED, posted.outcome
