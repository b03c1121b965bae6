"""Customers of all merchants: the list, one customer, and the accounts at each provider."""

from manilla.console import list_pages
from manilla.console.providers import titles
from manilla.customers import account_store, store
from manilla.customers.customer import CUSTOMER_IDS, CustomerStatus
from manilla.customers.store import CustomerFilter
from manilla.ledger.scope import Everyone
from manilla.merchants import merchants, roster
from manilla.payments import listing as payments
from manilla.payments.listing import PaymentFilter
from manilla.saved_ways import store as saved_ways
from manilla.web import lists, record_list
from manilla.web.columns import customers as columns
from manilla.web.page_request import PageRequest
from manilla.web.record_list import ListFilter, RecordList
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

PAYMENTS_SHOWN, FAILURES_SHOWN = 20, 50
LIST = RecordList(
    "all_customers",
    "customer",
    list_pages.with_merchant(columns.COLUMNS),
    store.customers,
    store.count,
)


async def show_all(request: PageRequest) -> PageResponse:
    filters = [
        ListFilter("status", "Status", record_list.choices(list(CustomerStatus))),
        list_pages.environment_filter(),
    ]
    return await list_pages.show(
        *(request, LIST, "customers.html", columns.EXPORT),
        *([list_pages.scope(request)], lists.read_filter(request, CustomerFilter, "status")),
        filters,
    )


async def show_providers(request: PageRequest) -> PageResponse:
    """Counts the accounts and the saved ways at each provider, and shows what failed last."""
    failed = await account_store.last_failures(request.reads, FAILURES_SHOWN)
    return request.page(
        "customer_providers.html",
        accounts=await account_store.at_providers(request.reads),
        ways=await saved_ways.at_providers(request.reads),
        failed=failed,
        titles=titles(request),
        merchants=await roster.names(request.reads, [each.merchant_id for each in failed]),
    )


async def show(request: PageRequest) -> PageResponse:
    customer_id, db = request.parameter("customer"), request.db
    merchant_id = CUSTOMER_IDS.owner_of(customer_id)
    if merchant_id is None:
        raise PageNotFound
    customer = await store.customer(db, merchant_id, customer_id)
    if customer is None:
        raise PageNotFound
    wanted = PaymentFilter(customer=customer.reference)
    scope = Everyone(merchant_id, customer.environment)
    page = await payments.payments(db, scope, wanted, limit=PAYMENTS_SHOWN)
    return request.page(
        "customer.html",
        customer=customer,
        merchant=await merchants.get(db, merchant_id),
        accounts=await account_store.accounts_of(db, merchant_id, [customer_id]),
        ways=await saved_ways.ways_of(db, customer.tenant, customer.reference, is_shown=False),
        payments=page.rows,
        titles=titles(request),
    )
