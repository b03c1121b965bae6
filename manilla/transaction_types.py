"""The types of transactions: one row per type, from which all other lists of types are derived.

A transaction is a row of the table with the type's name. This table has the columns `COLUMNS`.
Each condition is about a row `t`.
"""

from collections.abc import Iterator

import msgspec

COLUMNS = (
    *("merchant_id", "trx_id", "environment", "ref_trx", "currency", "amount_minor", "status"),
    *("created_at", "updated_at", "traceparent"),
)


class OtherId(msgspec.Struct, frozen=True):
    """Another id of a transaction, under which it has postings of its own."""

    name: str
    column: str


class Part(msgspec.Struct, frozen=True):
    """A table with further rows of a transaction, with the transaction's id in `trx_id`."""

    table: str
    id: str | None = None  # the column with the id under which the row has postings of its own
    is_open: str | None = None  # the condition that the row can still change
    has_provider: bool = False  # the column `provider` has the account to which the row was sent


class Searched(msgspec.Struct, frozen=True):
    """Columns that the search compares, besides ids and what the type's package searches."""

    by_reference: bool = True  # also by amount
    name: str | None = None
    email: str | None = None


class TransactionId(msgspec.Struct, frozen=True):
    """A column with ids under which a transaction has postings. `trx_id` has the transaction."""

    name: str
    table: str
    column: str
    has_provider: bool = False


class TransactionType(msgspec.Struct, frozen=True, kw_only=True):
    name: str  # also of its table, and the first word of its event types
    title: str
    dashboard_path: str  # of the pages of its transactions, without the id
    console_path: str
    # The type of the transaction to which each transaction belongs, and the column with its id.
    # Both are archived together, and the ledger's lists show the parent's name and reference.
    parent: "TransactionType | None" = None
    parent_column: str = ""
    is_open: str = "t.status = 'pending'"
    has_provider: bool = False
    other_ids: tuple[OtherId, ...] = ()
    parts: tuple[Part, ...] = ()
    # Tables that refer to transactions, which are then not archived.
    kept_by: tuple[str, ...] = ()
    # The SQL expression for the name of the customer or beneficiary.
    counterparty: str = "NULL::text"
    without_fee: str = "0::bigint"  # the SQL of what its postings debit besides fee and taxes
    searched: Searched = Searched()
    events: tuple[str, ...] = ()  # the statuses and changes that merchants are notified of

    @property
    def ids(self) -> tuple[TransactionId, ...]:
        """The ids of its transactions: their own, their other ids, and those of their parts."""
        parts = ((part.table, part.id, part.has_provider) for part in self.parts)
        return (
            TransactionId(self.name, self.name, "trx_id", self.has_provider),
            *(TransactionId(other.name, self.name, other.column) for other in self.other_ids),
            *(TransactionId(table, table, id_, has) for table, id_, has in parts if id_),
        )


PAYMENT = TransactionType(
    name="payment",
    title="Payments",
    dashboard_path="~/payments",
    console_path="/transactions",
    other_ids=(OtherId("commission", "commission_trx_id"),),
    parts=(
        Part(
            "charge",
            "reference",
            "t.status IN ('opening', 'open', 'part', 'suspense') OR t.credit_minor <> 0",
            has_provider=True,
        ),
    ),
    # Its shares are archived after it.
    is_open="""t.status = 'pending' OR (t.split IS NOT NULL AND EXISTS (
        SELECT FROM split s
         WHERE s.payment_trx_id = t.trx_id AND s.status IN ('held', 'short')))""",
    counterparty="coalesce(nullif(customer_name, ''), customer_email)",
    searched=Searched(name="customer_name", email="customer_email"),
    events=("pending", "success", "failed"),
)
PAYOUT = TransactionType(
    name="payout",
    title="Payouts",
    dashboard_path="~/payouts",
    console_path="/transactions",
    has_provider=True,
    parts=(Part("payout_attempt", has_provider=True),),
    kept_by=("settlement",),
    counterparty=(
        "coalesce(nullif(account_name, ''), beneficiary->>'account_name',"
        " beneficiary->>'Account Number')"
    ),
    without_fee="amount_minor",
    searched=Searched(name="account_name"),
    events=("pending", "completed", "failed", "canceled", "reversed"),
)
REFUND = TransactionType(
    name="refund",
    title="Refunds",
    dashboard_path="~/refunds",
    console_path="/refunds",
    parent=PAYMENT,
    parent_column="payment_trx_id",
    has_provider=True,
    searched=Searched(by_reference=False),
    events=("pending", "completed", "failed"),
)
DISPUTE = TransactionType(
    name="dispute",
    title="Disputes",
    dashboard_path="~/disputes",
    console_path="/disputes",
    parent=PAYMENT,
    parent_column="payment_trx_id",
    is_open="t.status IN ('needs_response', 'submitted')",
    has_provider=True,
    parts=(Part("dispute_file"),),
    searched=Searched(by_reference=False),
    events=(
        *("opened", "updated", "submitted", "won", "lost", "accepted", "deadline_missed"),
        "reopened",
    ),
)
# A receiver's share of another merchant's payment. Its reference is the id of the payment.
SPLIT = TransactionType(
    name="split",
    title="Shares",
    dashboard_path="~/shares",
    console_path="/shares",
    is_open="""t.status IN ('held', 'short') OR EXISTS (
        SELECT FROM payment p
         WHERE p.merchant_id = t.owner_id AND p.trx_id = t.payment_trx_id)""",
    counterparty="(SELECT m.name FROM merchant m WHERE m.id = owner_id)",
    events=("held", "released", "short", "returned"),
)

# Lists and searches have this order.
TYPES = (PAYMENT, PAYOUT, REFUND, DISPUTE, SPLIT)
BY_NAME = {each.name: each for each in TYPES}
# Transactions that do not belong to another transaction.
ROOTS = tuple(each for each in TYPES if each.parent is None)


def children_of(parent: TransactionType) -> tuple[TransactionType, ...]:
    return tuple(each for each in TYPES if each.parent is parent)


def tables_with_provider() -> Iterator[str]:
    """Yields the tables with the provider accounts to which transactions were sent."""
    for kind in TYPES:
        if kind.has_provider:
            yield kind.name
        yield from (part.table for part in kind.parts if part.has_provider)
