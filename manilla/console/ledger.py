"""Ledger pages: account balances, postings, and the result of the ledger check."""

from collections.abc import AsyncIterator

import msgspec

from manilla.console import list_pages
from manilla.kit import deadline
from manilla.kit.listing import in_pages
from manilla.kit.money import Money
from manilla.ledger import balances
from manilla.ledger import listing as books
from manilla.ledger.balances import AccountBalance
from manilla.ledger.listing import PostedEntry, PostingFilter, PostingLine
from manilla.proofs import proofs
from manilla.web import exports, lists
from manilla.web.page_request import PageRequest
from manilla.web.serving.response import PageResponse

EXPLANATIONS = {
    "wallet": "Total balance of all merchants' wallets",
    "clearing": "Money that the provider holds for us. In the ledger it has the opposite "
    "sign: assets are negative, and liabilities are positive.",
    "commission": "Commission earned on payments",
    "payout_fee": "Fees earned on payouts",
    "provider_fee": "Fees kept by the provider",
    "in_flight": "Debited from wallets for payouts in progress",
    "withheld": "Withheld from wallets until disputes are decided, held shares are released, or "
    "receivers have paid what they owe the owner of a payment",
    "short": "Owed by merchants whose wallets did not cover a debit. Their next credits pay it.",
    "suspense": "Received but not credited to a wallet until an administrator resolves the case",
    "customer_credit": "Received from customers by bank transfer and not credited to a wallet: a "
    "surplus to refund, or a partial payment whose rest has not arrived",
    "adjustment": "Manual credits and debits",
    "bank": "Transfers between our bank and the provider",
    "tax": "Taxes collected and not remitted to the authority yet",
    "internal": "Shares of payments on their way from the owner to receivers. Always zero.",
}


ASSETS = ("clearing", "short")  # accounts whose balances are shown on pages with the opposite sign


COLUMNS = books.ENTRY_FIELDS.select(
    "posting posted_at merchant_id environment kind rail trx_id reason account currency amount"
    " balance"
)


async def show(request: PageRequest) -> PageResponse:
    # If summing the balances takes too long, the page is shown without them.
    sums = await deadline.or_none(balances.balances(request.reads))
    return request.page(
        "ledger.html",
        proof=await proofs.last(request.db),
        sums=None if sums is None else _grouped(sums),
        explain=_explain,
        shown=_balance,
    )


async def show_proof(request: PageRequest) -> PageResponse:
    """Renders only the result of the ledger check. The page polls this part."""
    return request.page("ledger_proof.html", proof=await proofs.last(request.db))


async def check_invariants(request: PageRequest) -> PageResponse:
    await proofs.ask(request.db)
    return request.redirect("/ledger", done="A worker is checking the ledger.")


async def show_postings(request: PageRequest) -> PageResponse:
    scope, wanted = list_pages.checked_scope(request), _filter(request)
    db = request.reads
    if exports.is_wanted(request):
        lines = _entries(in_pages(books.postings, db, scope, wanted))
        return exports.send(request, "postings", COLUMNS, lines)
    found = await books.postings(db, scope, wanted, after=lists.after(request))
    return request.page(
        "postings.html", rows=found.rows, listing=lists.ListView(request, found.next)
    )


def _grouped(sums: list[AccountBalance]) -> list[tuple[str, str, list[AccountBalance]]]:
    """Groups the balances by environment and currency, production first."""
    keys = sorted({(each.environment, each.currency) for each in sums})
    return [
        (
            environment,
            currency,
            [each for each in sums if (each.environment, each.currency) == (environment, currency)],
        )
        for environment, currency in keys
    ]


def _balance(row: AccountBalance) -> Money:
    """Returns the balance to display. Money that a provider holds for us is positive."""
    is_asset = row.account.partition(":")[0] in ASSETS
    return Money(row.currency, -row.balance_minor if is_asset else row.balance_minor)


def _explain(account: str) -> str:
    return EXPLANATIONS[account.partition(":")[0]]


async def _entries(pages: AsyncIterator[list[PostingLine]]) -> AsyncIterator[list[PostedEntry]]:
    async for rows in pages:
        yield books.posted_entries(rows)


def _filter(request: PageRequest) -> PostingFilter:
    wanted = lists.read_filter(request, PostingFilter, "kind", "currency")
    currency = wanted.currency and wanted.currency.upper()
    return msgspec.structs.replace(wanted, currency=currency)
