"""The API's lists. Each call requests one page, and returns the page's items."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Protocol, TypedDict, TypeVar

from manilla_client import calls
from manilla_client.bodies import (
    BalanceTransaction,
    CompletedPayment,
    CustomerInfo,
    DeliveredPayout,
    Dispute,
    Invoice,
    Split,
    UndeliveredPayout,
    UnfinishedPayment,
    VerifiedRefund,
)
from manilla_client.calls import Call
from manilla_client.errors import BadAnswer
from manilla_client.reading import read

Item = TypeVar("Item")
NAMES = {"since": "from", "until": "to"}
PAGE_ITEMS = 100  # Large pages need fewer requests.


class Period(TypedDict, total=False):
    """A period of time. `since` is inclusive, `until` is exclusive, and both need a time zone."""

    since: datetime | None
    until: datetime | None
    ref_trx: str | None


class TransactionQuery(Period, total=False):
    status: str | None  # pending, success or failed


class DisputeQuery(Period, total=False):
    """Filters for disputes. `ref_trx` and `trx_id` are the payment's."""

    status: str | None  # needs_response, submitted, won, lost or accepted
    trx_id: str | None
    respond_before: datetime | None


class CustomerQuery(TypedDict, total=False):
    """Filters for customers. `search` is what you know, such as an account number."""

    since: datetime | None
    until: datetime | None
    status: str | None  # active or disabled
    search: str | None


class InvoiceQuery(TypedDict, total=False):
    """Filters for invoices. `month` is such as 2026-12."""

    since: datetime | None
    until: datetime | None
    month: str | None
    currency_code: str | None


class StatementQuery(Period, total=False):
    currency_code: str | None


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    items: tuple[Item, ...]
    next_cursor: str | None


class PageCall(Protocol[Item]):
    """Builds the API call that fetches the page that starts at the cursor."""

    def __call__(self, cursor: str | None, limit: int = PAGE_ITEMS) -> Call[Page[Item]]: ...


def payments(query: TransactionQuery) -> PageCall[CompletedPayment | UnfinishedPayment]:
    return _pages("payments", query, TransactionQuery, calls.read_payment)


def payouts(query: TransactionQuery) -> PageCall[DeliveredPayout | UndeliveredPayout]:
    return _pages("payouts", query, TransactionQuery, calls.read_payout)


def refunds(query: TransactionQuery) -> PageCall[VerifiedRefund]:
    return _pages("refunds", query, TransactionQuery, lambda item: read(VerifiedRefund, item))


def disputes(query: DisputeQuery) -> PageCall[Dispute]:
    return _pages("disputes", query, DisputeQuery, lambda item: read(Dispute, item))


def customers(query: CustomerQuery) -> PageCall[CustomerInfo]:
    return _pages("customers", query, CustomerQuery, lambda item: read(CustomerInfo, item))


def invoices(query: InvoiceQuery) -> PageCall[Invoice]:
    return _pages("invoices", query, InvoiceQuery, lambda item: read(Invoice, item))


def splits() -> PageCall[Split]:
    return _pages("splits", {}, TransactionQuery, lambda item: read(Split, item))


def balance_transactions(query: StatementQuery) -> PageCall[BalanceTransaction]:
    return _pages(
        "balance-transactions", query, StatementQuery, lambda item: read(BalanceTransaction, item)
    )


def _pages(
    name: str, query: Mapping[str, object], kind: type, read_item: Callable[[Any], Item]
) -> PageCall[Item]:
    calls.check_names(query, kind)

    def read_page(document: Any) -> Page[Item]:
        if not isinstance(document, dict) or not isinstance(document.get("data"), list):
            raise BadAnswer("The response is not a page of a list.")
        items = tuple(read_item(item) for item in document["data"])
        return Page(items, document.get("next_cursor"))

    def page(cursor: str | None, limit: int = PAGE_ITEMS) -> Call[Page[Item]]:
        sent = {"limit": limit, **query, "cursor": cursor}
        return Call("GET", calls.listed(f"/api/v1/{name}", sent, NAMES), read_page)

    return page
