"""Compares our books with what the providers say, reports differences, and opens cases."""

from datetime import timedelta

import msgspec

from manilla.cases import cases
from manilla.cases.cases import Kind
from manilla.kit.db import Database
from manilla.kit.money import Money
from manilla.ledger import posting
from manilla.payouts import queries, states
from manilla.payouts.payout import Code, Payout, Status
from manilla.payouts.states import Event, News
from manilla.providers.port import Adapter, Done, Provider, TransferStatus
from manilla.providers.rails import Rails

CURRENCY = "NGN"
LOOK_BACK = timedelta(days=1)
PAYOUTS_MAX = 500

# What a provider may say of a payout in each state.
FITS = {
    Status.PENDING: frozenset(TransferStatus),
    Status.COMPLETED: frozenset((TransferStatus.DELIVERED,)),
    Status.FAILED: frozenset(
        (TransferStatus.FAILED, TransferStatus.REVERSED, TransferStatus.NOT_FOUND)
    ),
}


def fits(payout: Payout, said: TransferStatus) -> bool:
    """Whether this can be said of the payout as it is; what came back was delivered before."""
    was_delivered = payout.is_reversed and said is TransferStatus.DELIVERED
    return was_delivered or said in FITS.get(payout.status, frozenset())


class Reconciled(msgspec.Struct, frozen=True):
    """One provider, as we see it and as it sees itself."""

    provider: str
    currency: str
    ledger: Money  # what our books say that it holds for us
    under_way: Money  # of that, sent and not yet decided: it may have left already
    balance: Money | None  # what it says; None: it did not answer
    difference: Money | None  # what cannot be explained by what is under way
    transfers_asked: int
    transfers_differ: list[str]


async def reconcile(db: Database, rails: Rails) -> list[Reconciled]:
    reports = []
    for provider in Provider:
        adapter = rails.adapter(provider)
        if adapter is not None:
            reports.append(await _one(db, adapter, provider))
    return reports


async def _one(db: Database, adapter: Adapter, provider: Provider) -> Reconciled:
    asked, differ = await _compare_transfers(db, adapter, provider)
    answer = await adapter.balance(CURRENCY)
    # After the question: what is booked meanwhile can only make the explanation wider.
    ledger, under_way = await _in_our_books(db, provider)
    balance = answer.value if isinstance(answer, Done) else None
    difference = None if balance is None else _unexplained(ledger, under_way, balance)
    if difference is not None and difference.minor != 0:
        await cases.open_case(
            db,
            Kind.CLEARING_DIFFERS,
            f"{provider}:{CURRENCY}",
            f"Our books say {ledger}, {under_way} of it under way; the provider says {balance}.",
            merchant_id=0,
            amount=difference,
            reopens=True,
        )
    return Reconciled(provider, CURRENCY, ledger, under_way, balance, difference, asked, differ)


def _unexplained(ledger: Money, under_way: Money, balance: Money) -> Money:
    """What is under way may or may not have left the provider: anything between is explained."""
    highest, lowest = ledger.minor, ledger.minor - under_way.minor
    minor = max(balance.minor - highest, 0) + min(balance.minor - lowest, 0)
    return Money(ledger.currency, minor)


async def _in_our_books(db: Database, provider: Provider) -> tuple[Money, Money]:
    record = await db.record(
        """
        SELECT (SELECT -coalesce(sum(amount_minor), 0)::bigint FROM entry
                 WHERE account = $1 AND environment = 'production' AND currency = $3) AS ledger,
               (SELECT coalesce(sum(amount_minor + coalesce(provider_fee_minor, 0)), 0)::bigint
                  FROM payout
                 WHERE provider = $2 AND environment = 'production' AND currency = $3
                   AND status = 'pending' AND began_at IS NOT NULL) AS under_way""",
        *(posting.clearing(provider), provider, CURRENCY),
    )
    return Money(CURRENCY, record["ledger"]), Money(CURRENCY, record["under_way"])


async def _compare_transfers(
    db: Database, adapter: Adapter, provider: Provider
) -> tuple[int, list[str]]:
    """Asks about what was decided lately: what came back is refunded, a contradiction is a case."""
    decided = await queries.decided_since(db, provider, LOOK_BACK, PAYOUTS_MAX)
    differ = []
    for payout in decided:
        answer = await adapter.transfer_state(payout.trx_id)
        if not isinstance(answer, Done) or fits(payout, answer.value.status):
            continue
        differ.append(payout.trx_id)
        if answer.value.status is TransferStatus.REVERSED:
            news = News(Event.REVERSED, "reconciliation", Code.GATEWAY_PAYOUT_FAILED)
            await states.settle(db, payout.merchant_id, payout.trx_id, news)
        else:
            await _report(db, payout, answer.value.status)
    return len(decided), differ


async def _report(db: Database, payout: Payout, said: TransferStatus) -> None:
    detail = f"The payout is {payout.status}; the provider now says {said}. Nothing was moved."
    await states.report(db, payout, Kind.CONTRADICTION, detail)
