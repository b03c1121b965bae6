"""Reconciles our ledger with the providers' balances and records, and opens cases."""

import asyncio
import time
from datetime import timedelta

import msgspec

from manilla import metrics
from manilla.cases import cases
from manilla.cases.cases import CaseKind
from manilla.job_kinds import JobKind
from manilla.kit import time_limits
from manilla.kit.database.connections import Database
from manilla.kit.money import Money
from manilla.ledger import posting
from manilla.payouts import left_rails, states, store
from manilla.payouts.payout import Payout
from manilla.providers import balances
from manilla.providers.port import (
    Answer,
    Done,
    RefusalCode,
    TransferState,
    TransferStatus,
    WebhookSubject,
)
from manilla.providers.rails import Rails
from manilla.transfers import reports
from manilla.transfers.events import EVENTS, Source, TransferResult

CURRENCY = "NGN"
# Payouts up to this age are queried again, because banks return transfers within days.
LOOK_BACK = timedelta(days=7)
PAYOUTS_MAX = 500
ASKED_AT_ONCE = 8
# A case is opened only if a difference persists for this long.
# Postings in progress and late settlements by the provider cause only short-lived differences.
CONFIRMED_AFTER = timedelta(minutes=3)
# The highest fee that we assume for a transfer if the provider has not reported one yet.
UNKNOWN_FEE_MINOR_MAX = 100_000
# A customer can still pay a charge up to this age.
PAYABLE = timedelta(hours=1)


class Reconciled(msgspec.Struct, frozen=True):
    provider: str
    currency: str
    ledger: Money  # our balance at the provider, according to our ledger
    # Total of sent transfers without a final status, which may have left our provider account.
    under_way: Money
    coming_in: Money  # total of open charges, which customers may have paid
    balance: Money | None  # the balance that the provider reported, or None if it did not respond
    # The unexplained difference, or None if the balances cannot be compared yet.
    difference: Money | None
    transfers_asked: int
    transfers_differ: list[str]
    is_confirmed: bool = False  # whether the difference was also seen a few minutes ago

    @property
    def result(self) -> str:
        if self.balance is None:
            return "no answer"
        if self.difference is None:
            return "not comparable yet"
        if self.difference.minor == 0:
            return "agrees"
        return "differs" if self.is_confirmed else "differs, seen once"


class Books(msgspec.Struct, frozen=True):
    """The amounts in our ledger for one provider, in minor units."""

    ledger: int
    under_way: int
    coming_in: int
    unknown_fees: int  # number of transfers in progress whose fee is unknown

    @property
    def highest(self) -> int:
        return self.ledger + self.coming_in

    @property
    def lowest(self) -> int:
        return self.ledger - self.under_way


async def compare_all(db: Database, rails: Rails) -> list[Reconciled]:
    accounts = [provider for provider in rails.accounts if rails.adapter(provider) is not None]
    return [await compare(db, rails, provider) for provider in accounts]


async def compare(db: Database, rails: Rails, provider: str) -> Reconciled:
    """Reconciles a provider account, whose credentials must be complete."""
    adapter = rails.adapter(provider)
    assert adapter is not None, provider
    asked, differ = await _compare_transfers(db, rails, provider)
    before = await in_our_books(db, provider)
    answer = await adapter.balance(CURRENCY)
    after = await in_our_books(db, provider)
    balance = answer.value if isinstance(answer, Done) else None
    difference = None if balance is None else _unexplained(before, after, balance)
    ledger, under_way, coming_in = (
        Money(CURRENCY, minor) for minor in (after.ledger, after.under_way, after.coming_in)
    )
    report = Reconciled(
        *(provider, CURRENCY, ledger, under_way, coming_in, balance, difference, asked, differ),
        is_confirmed=difference is not None and await _is_confirmed(db, provider, difference),
    )
    if balance is not None:
        await balances.save(db, provider, balance, ledger)
    await _report(db, report)
    _measure(report)
    return report


async def _is_confirmed(db: Database, provider: str, difference: Money) -> bool:
    """Saves the difference. Returns True if its sign has not changed for CONFIRMED_AFTER."""
    is_old: bool = await db.value(
        """
        INSERT INTO clearing_difference AS seen (provider, currency, minor)
        VALUES ($1, $2, $3)
            ON CONFLICT (provider, currency) DO UPDATE
           SET minor = excluded.minor,
               since = CASE WHEN sign(seen.minor) = sign(excluded.minor) THEN seen.since
                            ELSE now() END
        RETURNING since <= now() - $4::interval""",
        *(provider, difference.currency, difference.minor, CONFIRMED_AFTER),
    )
    return difference.minor != 0 and is_old


async def _report(db: Database, report: Reconciled) -> None:
    """Opens a case for a confirmed difference, or records that it has disappeared."""
    reference = f"{report.provider}:{report.currency}"
    detail = (
        f"Our ledger says {report.ledger}, {report.under_way} of it in transit and "
        f"{report.coming_in} incoming; the provider says {report.balance}."
    )
    kind, difference = CaseKind.CLEARING_DIFFERS, report.difference
    if difference is None:
        return
    is_vanished = difference.minor == 0
    if report.is_confirmed:
        await cases.open_case(db, kind, reference, detail, merchant_id=0, amount=difference)
    if report.is_confirmed or is_vanished:
        await cases.mark_vanished(
            db, kind, reference, detail, merchant_id=0, is_vanished=is_vanished
        )


def _measure(report: Reconciled) -> None:
    metrics.reconciled_at.labels(report.provider).set_to_current_time()
    metrics.reconciliation_answered.labels(report.provider).set(report.balance is not None)
    metrics.transfers_differ.labels(report.provider).set(len(report.transfers_differ))


async def last_differences(db: Database) -> dict[str, list[Money]]:
    """Returns the differences that the last comparison of each provider's balance found."""
    records = await db.records(
        "SELECT provider, array_agg(currency::text) AS currencies, array_agg(minor) AS minors"
        "  FROM clearing_difference GROUP BY provider"
    )
    return {
        record["provider"]: list(map(Money, record["currencies"], record["minors"]))
        for record in records
    }


def _unexplained(before: Books, after: Books, balance: Money) -> Money | None:
    """Returns the difference that open transfers and concurrent postings do not explain.

    Returns None if fees that the provider has not reported yet may explain the difference.
    """
    highest = max(before.highest, after.highest)
    lowest = min(before.lowest, after.lowest)
    minor = max(balance.minor - highest, 0) + min(balance.minor - lowest, 0)
    fees_max = max(before.unknown_fees, after.unknown_fees) * UNKNOWN_FEE_MINOR_MAX
    return None if -fees_max <= minor < 0 else Money(balance.currency, minor)


async def in_our_books(db: Database, provider: str) -> Books:
    """Reads the amounts in our ledger for a provider.

    Open transactions are found through their jobs, to avoid reading the full history.
    """
    books = await db.row(
        Books,
        f"""
        SELECT -coalesce((SELECT minor FROM clearing_totals($1) WHERE currency = $3), 0) AS ledger,
               (SELECT coalesce(sum(p.amount_minor + coalesce(p.provider_fee_minor, 0)), 0)::bigint
                  FROM job j
                  JOIN payout p ON p.merchant_id = j.merchant_id AND p.trx_id = j.subject
                 WHERE j.kind = '{JobKind.TRANSFER}' AND p.provider = $2
                   AND p.environment = 'production' AND p.currency = $3
                   AND p.status = 'pending' AND p.began_at IS NOT NULL)
               + (SELECT coalesce(sum(r.amount_minor), 0)::bigint
                    FROM job j
                    JOIN refund r ON r.merchant_id = j.merchant_id AND r.trx_id = j.subject
                   WHERE j.kind = '{JobKind.REFUND}' AND r.provider = $2
                     AND r.environment = 'production' AND r.currency = $3
                     AND r.status = 'pending' AND r.sent_at IS NOT NULL)
               AS under_way,
               (SELECT coalesce(sum(c.amount_minor), 0)::bigint
                  FROM job j
                  JOIN charge c ON c.merchant_id = j.merchant_id AND c.reference = j.subject
                 WHERE j.kind = '{JobKind.CHARGE}' AND c.provider = $2 AND c.currency = $3
                   AND c.status IN ('opening', 'open') AND c.created_at > now() - $4::interval)
               AS coming_in,
               (SELECT count(*)
                  FROM job j
                  JOIN payout p ON p.merchant_id = j.merchant_id AND p.trx_id = j.subject
                 WHERE j.kind = '{JobKind.TRANSFER}' AND p.provider = $2
                   AND p.environment = 'production' AND p.currency = $3
                   AND p.status = 'pending' AND p.began_at IS NOT NULL
                   AND p.provider_fee_minor IS NULL)
               AS unknown_fees""",
        *(posting.clearing(provider), provider, CURRENCY, PAYABLE),
    )
    assert books is not None
    return books


async def _compare_transfers(db: Database, rails: Rails, provider: str) -> tuple[int, list[str]]:
    """Queries recent payouts again, refunds returned payouts, and opens cases if needed."""
    decided = await store.decided_lately(db, provider, LOOK_BACK, PAYOUTS_MAX)
    said = await _ask(rails, decided)
    answered = [(payout, each.value) for payout, each in said if isinstance(each, Done)]
    differ = []
    for payout, state in answered:
        if await reports.report_other_amount(db, payout, state.amount):
            differ.append(payout.trx_id)
            continue
        if states.fits(payout, state.status):
            await store.add_reported(db, payout, state)
            continue
        differ.append(payout.trx_id)
        if state.status in (TransferStatus.REVERSED, TransferStatus.RETURNED):
            event = TransferResult(
                EVENTS[state.status], Source.RECONCILIATION, RefusalCode.GATEWAY_PAYOUT_FAILED
            )
            await states.apply_result(db, payout.merchant_id, payout.trx_id, event)
        else:
            await store.save_late_fee(db, payout, state.fee)
            detail = states.contradiction(payout, state.status)
            await reports.report(db, payout, CaseKind.CONTRADICTION, detail)
    differ += await left_rails.requery_lately(db, rails, provider, LOOK_BACK, PAYOUTS_MAX)
    await store.were_asked_about(db, [payout for payout, _ in answered])
    return len(said), differ


async def _ask(rails: Rails, payouts: list[Payout]) -> list[tuple[Payout, Answer[TransferState]]]:
    """Queries a few payouts at a time until the time limit. The next run queries the others."""
    until = time.monotonic() + time_limits.current.payouts_query_seconds
    places = asyncio.Semaphore(ASKED_AT_ONCE)

    async def ask(payout: Payout) -> tuple[Payout, Answer[TransferState]] | None:
        async with places:
            if time.monotonic() > until:
                return None
            return payout, await rails.state(
                WebhookSubject.TRANSFER, payout.provider or "", payout.trx_id, payout.known_as
            )

    answers = await asyncio.gather(*(ask(payout) for payout in payouts))
    return [answer for answer in answers if answer is not None]
