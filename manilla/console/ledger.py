"""The ledger: account balances, postings, and the result of the ledger checks."""

import asyncio
from collections.abc import AsyncIterator

import msgspec

from manilla.kit import listing
from manilla.kit.deadline import OPTIONAL_SECONDS
from manilla.kit.environment import Environment
from manilla.kit.errors import Unavailable
from manilla.kit.money import Money
from manilla.ledger import balances
from manilla.ledger import listing as books
from manilla.ledger.balances import AccountBalance
from manilla.ledger.listing import PostedEntry, PostingFilter, PostingLine
from manilla.ledger.scope import Everyone
from manilla.proofs import proofs
from manilla.web import exports, lists
from manilla.web.page_request import PageRequest
from manilla.web.routes import Answer

EXPLANATIONS = {
    "wallet": "Total balance of all merchant wallets",
    "clearing": "Money that the provider holds for us. The ledger stores it with the opposite "
    "sign, because it is an asset and liabilities are positive.",
    "commission": "Commission earned on payments",
    "payout_fee": "Fees earned on payouts",
    "provider_fee": "Fees kept by the provider",
    "in_flight": "Debited for payouts in progress",
    "suspense": "Received but not credited to a wallet; see the cases",
    "adjustment": "Manual credits and debits",
    "bank": "Transfers between our bank and the provider",
}


ASSETS = ("clearing",)  # shown with the opposite sign of the ledger


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    merchant: listing.Number | None = None
    environment: Environment | None = None


COLUMNS = books.ENTRY_FIELDS.select(
    "posting posted_at merchant_id environment kind trx_id reason account currency amount balance"
)


async def show(request: PageRequest) -> Answer:
    sums = await _sums(request)
    return request.page(
        "ledger.html",
        proof=await proofs.last(request.services.db),
        sums=None if sums is None else _grouped(sums),
        explain=_explain,
        shown=_shown,
    )


async def show_proof(request: PageRequest) -> Answer:
    """The result of the check alone, for the script that polls for it."""
    return request.page("ledger_proof.html", proof=await proofs.last(request.services.db))


async def prove(request: PageRequest) -> Answer:
    await proofs.ask(request.services.db)
    return request.redirect("/ledger", done="A worker is checking the ledger.")


async def show_postings(request: PageRequest) -> Answer:
    scope, wanted = _scope(request), _filter(request)
    db = request.services.db
    if exports.is_wanted(request):
        lines = _entries(books.all_postings(db, scope, wanted))
        return exports.send(request, "postings", COLUMNS, lines)
    found = await books.postings(db, scope, wanted, after=lists.after(request))
    return request.page(
        "postings.html", rows=found.rows, listing=lists.ListView(request, found.next)
    )


async def _sums(request: PageRequest) -> list[AccountBalance] | None:
    """Returns None if calculating the balances takes too long for a page."""
    try:
        async with asyncio.timeout(OPTIONAL_SECONDS):
            return await balances.balances(request.services.db)
    except (TimeoutError, Unavailable):
        return None


def _grouped(sums: list[AccountBalance]) -> list[tuple[str, str, list[AccountBalance]]]:
    """Groups by environment and currency, production first."""
    keys = sorted({(each.environment, each.currency) for each in sums})
    return [
        (
            environment,
            currency,
            [each for each in sums if (each.environment, each.currency) == (environment, currency)],
        )
        for environment, currency in keys
    ]


def _shown(row: AccountBalance) -> Money:
    """Shows money that a provider holds for us as a positive balance."""
    is_asset = row.account.partition(":")[0] in ASSETS
    return Money(row.currency, -row.balance_minor if is_asset else row.balance_minor)


def _explain(account: str) -> str:
    return EXPLANATIONS[account.partition(":")[0]]


async def _entries(pages: AsyncIterator[list[PostingLine]]) -> AsyncIterator[list[PostedEntry]]:
    async for rows in pages:
        yield books.posted_entries(rows)


def _scope(request: PageRequest) -> Everyone:
    query = request.query
    given = {"merchant": query.text("merchant"), "environment": query.text("environment")}
    wanted = listing.read_filter(Wanted, given)
    return Everyone(wanted.merchant, wanted.environment)


def _filter(request: PageRequest) -> PostingFilter:
    query = request.query
    wanted = listing.read_filter(
        PostingFilter,
        {
            "kind": query.text("kind"),
            "currency": query.text("currency").upper(),
            "search": query.text("q"),
        },
    )
    return msgspec.structs.replace(
        wanted, since=lists.day(query, "since"), until=lists.day(query, "until", is_end=True)
    )
