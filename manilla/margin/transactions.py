"""Reads successful transactions with what they were charged and what their provider took.

The pages of a period are read in the order of the ids, through the index that the lists of
transactions use. A period is by creation here, because a price is that of the transaction.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Any

import msgspec

from manilla.kit.clock import start_of_day
from manilla.kit.database.rows import Reads
from manilla.kit.environment import Environment
from manilla.kit.fields import Fields
from manilla.kit.listing import Page, cursor, read_cursor
from manilla.kit.money import Money
from manilla.ledger import posting, trx_ids
from manilla.ledger.scope import Everyone, collation_of, scope_conditions
from manilla.margin.figures import MarginFilter
from manilla.merchants.merchants import CommissionBearer
from manilla.posting_kinds import PostingKind
from manilla.prices.price import Way

READ_MAX = 2_000  # maximum number of transactions that one SQL statement reads
LOOK_MAX = 20_000  # maximum number of transactions that are read for a page of losses


class Traded(StrEnum):
    PAYMENT = "payment"
    PAYOUT = "payout"


class TradedTransaction(msgspec.Struct, frozen=True):
    """A successful transaction, with its stored price and the fee that its provider took."""

    kind: Traded
    merchant_id: int
    trx_id: str
    environment: Environment
    currency: str
    amount_minor: int
    method_code: str
    channel: Way | None
    provider: str | None
    charged_minor: int
    taken_minor: int | None  # None: the provider has reported no fee
    bearer: CommissionBearer  # who pays the price
    # What the provider handled, which its fee depends on. None: the customer did not pay it in one
    # transfer of the amount due.
    handled_minor: int | None
    is_settlement: bool = False  # a payout to the merchant's own settlement account
    is_again: bool = False  # a charge of a saved way to pay

    @property
    def amount(self) -> Money:
        return Money(self.currency, self.amount_minor)

    @property
    def charged(self) -> Money:
        return Money(self.currency, self.charged_minor)

    @property
    def taken(self) -> Money | None:
        return None if self.taken_minor is None else Money(self.currency, self.taken_minor)

    @property
    def left(self) -> Money:
        return Money(self.currency, self.charged_minor - (self.taken_minor or 0))

    @property
    def is_loss(self) -> bool:
        return self.left.minor < 0


LOSSES = Fields(TradedTransaction).select(
    "trx_id kind merchant_id environment method_code channel provider currency amount charged taken"
    " left"
)

# Only a customer who pays by bank transfer gets an account.
CHANNEL = """
    CASE WHEN c.their_reference IS NOT NULL THEN 'account'  -- a transfer into a customer's account
         WHEN c.account_number IS NOT NULL THEN 'bank_transfer' ELSE c.channel END"""
# In the sandbox, a merchant's wallet pays no commission.
_CHARGED = """
    CASE WHEN y.environment = 'production' OR y.commission_bearer = 'customer'
         THEN y.commission_minor ELSE 0 END"""
_SQL = {
    Traded.PAYMENT: f"""
        SELECT y.merchant_id, y.trx_id, y.environment, y.currency, y.amount_minor,
               coalesce(c.method_code, '') AS method_code, {CHANNEL} AS channel, c.provider,
               {_CHARGED} AS charged_minor, fee.minor AS taken_minor, y.commission_bearer AS bearer,
               CASE WHEN y.received_minor IS NULL
                    THEN y.amount_minor + CASE y.commission_bearer WHEN 'customer'
                         THEN y.commission_minor + y.customer_tax_minor ELSE 0 END
                END AS handled_minor,
               y.saved_way IS NOT NULL AND NOT y.saves_way AS is_again
          FROM (SELECT * FROM payment WHERE {{wanted}} AND status = 'success'
                 ORDER BY {{key}} LIMIT {{limit}}) AS y
          LEFT JOIN charge c
            ON c.merchant_id = y.merchant_id AND c.reference = y.credited_charge
         CROSS JOIN LATERAL (  -- never all postings of the merchant
               SELECT sum(e.minor)::bigint AS minor
                 FROM (SELECT reference FROM charge
                        WHERE merchant_id = y.merchant_id AND trx_id = y.trx_id
                       OFFSET 0) AS part
                CROSS JOIN LATERAL (
                      SELECT id FROM posting
                       WHERE merchant_id = y.merchant_id AND trx_id = part.reference
                         AND kind = '{PostingKind.PROVIDER_FEE}'
                      OFFSET 0) AS p
                CROSS JOIN LATERAL (
                      SELECT -amount_minor AS minor FROM entry
                       WHERE merchant_id = y.merchant_id AND posting_id = p.id
                         AND starts_with(account, '{posting.provider_fee("")}')
                      OFFSET 0) AS e) AS fee
         ORDER BY y.{{key}}""",
    Traded.PAYOUT: f"""
        SELECT merchant_id, trx_id, environment, currency, amount_minor, method_code,
               NULL AS channel, provider, fee_minor AS charged_minor,
               provider_fee_minor AS taken_minor, '{CommissionBearer.MERCHANT}' AS bearer,
               amount_minor AS handled_minor
          FROM payout AS y WHERE {{wanted}} AND status = 'completed'
         ORDER BY {{key}} LIMIT {{limit}}""",
}


async def pages(
    db: Reads, wanted: MarginFilter, first: tuple[Traded, str] | None = None
) -> AsyncIterator[list[TradedTransaction]]:
    """Yields the payments, then the payouts, oldest first, after the transaction `first`.

    Yields all transactions that it has read: `matches` says which of them the filter selects.
    """
    wanted.check()
    kinds = list(Traded)
    for kind in kinds if first is None else kinds[kinds.index(first[0]) :]:
        after = first[1] if first is not None and first[0] is kind else ""
        while found := await _read(db, wanted, kind, after):
            yield found
            after = found[-1].trx_id
            if len(found) < READ_MAX:
                break


async def _read(
    db: Reads, wanted: MarginFilter, kind: Traded, after: str
) -> list[TradedTransaction]:
    scope = Everyone(wanted.merchant_id, wanted.environment)
    key = f"trx_id{collation_of(scope)}"
    conditions = (
        scope_conditions(scope)
        .add(f"{key} >= {{}}", trx_ids.floor(start_of_day(wanted.since)))
        .add(f"{key} < {{}}", trx_ids.floor(start_of_day(wanted.until + timedelta(days=1))))
        .add(f"{key} > {{}}", after)
        .add_given("currency = {}", wanted.currency)
    )
    sql = _SQL[kind].format(wanted=conditions.sql, key=key, limit=READ_MAX)
    async with db.by_key() as source:
        records = await source.records(sql, *conditions.values)
    settled = await _settlements(db, records) if kind is Traded.PAYOUT else set()
    return [
        msgspec.convert(
            {"kind": kind, "is_settlement": record["trx_id"] in settled, **record},
            TradedTransaction,
        )
        for record in records
    ]


async def _settlements(db: Reads, payouts: Sequence[Any]) -> set[str]:
    """Returns those of the payouts that settle a balance."""
    found = await db.records(
        """
        SELECT trx_id FROM settlement
         WHERE merchant_id = ANY ($1::bigint[]) AND trx_id = ANY ($2::text[])""",
        sorted({payout["merchant_id"] for payout in payouts}),
        [payout["trx_id"] for payout in payouts],
    )
    return {record["trx_id"] for record in found}


def matches(wanted: MarginFilter) -> Callable[[TradedTransaction], bool]:
    def is_wanted(each: TradedTransaction) -> bool:
        is_way = wanted.method_code in (None, each.method_code)
        return is_way and wanted.provider in (None, each.provider)

    return is_wanted


async def losses(
    db: Reads, wanted: MarginFilter, *, after: str | None = None, limit: int = 50
) -> Page[TradedTransaction]:
    """Returns one page of the transactions whose provider took more than they were charged.

    If few of the transactions are losses, the page has fewer rows than requested, and the next page
    continues after the last transaction that was read.
    """
    first = read_cursor(tuple[Traded, str], after)
    is_wanted, rows, looked = matches(wanted), [], 0
    async for found in pages(db, wanted, first):
        rows += [each for each in found if each.is_loss and is_wanted(each)]
        looked += len(found)
        if len(rows) > limit:
            last = rows[limit - 1]
            return Page(rows[:limit], cursor((last.kind, last.trx_id)))
        if looked >= LOOK_MAX:
            return Page(rows, cursor((found[-1].kind, found[-1].trx_id)))
    return Page(rows)
