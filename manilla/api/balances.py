"""API endpoints for wallet balances and balance transactions."""

from decimal import Decimal

from msgspec import Struct

from manilla.api.endpoint import Call, Endpoint
from manilla.api.fields import CurrencyCode, Reference
from manilla.api.lists import Cursors, PeriodQuery
from manilla.kit.batch import SharedReads
from manilla.kit.database.connections import Database
from manilla.kit.listing import Page
from manilla.kit.money import amount_of
from manilla.ledger.scope import Tenant
from manilla.lookup import statement
from manilla.lookup.statement import StatementEntry
from manilla.merchants import queries as merchants
from manilla.merchants.rights import Right
from manilla.payouts import figures
from manilla.services import Services

LIST = "/api/v1/balance-transactions"


class WalletBalance(Struct, frozen=True):
    currency_code: str
    available: Decimal
    in_flight: Decimal
    withheld: Decimal
    short: Decimal


class Balance(Struct, frozen=True):
    environment: str
    balances: list[WalletBalance]


class BalanceTransactionsQuery(PeriodQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    ref_trx: Reference | None = None
    currency_code: CurrencyCode | None = None


class BalanceTransaction(Struct, frozen=True):
    trx_id: str
    ref_trx: str | None
    kind: str
    amount: Decimal
    balance_after: Decimal
    currency_code: str
    created_at: str


class BalanceTransactionList(Struct, frozen=True):
    data: list[BalanceTransaction]
    next_cursor: str | None


def endpoints(services: Services) -> list[Endpoint]:
    db, cursors = services.db, Cursors(services.keyring, LIST)

    async def balance(call: Call) -> Balance:
        wallets = await figures.balances(db, call.tenant)
        return Balance(
            call.caller.environment,
            [
                WalletBalance(
                    wallet.currency,
                    amount_of(wallet.currency, wallet.balance_minor),
                    amount_of(wallet.currency, wallet.open_minor),
                    amount_of(wallet.currency, wallet.withheld_minor),
                    amount_of(wallet.currency, wallet.short_minor),
                )
                for wallet in wallets
            ],
        )

    async def list_balance_transactions(call: Call) -> BalanceTransactionList:
        after = cursors.read(call)
        page = await _shared(services.pages, call, after) or await _searched(services, call, after)
        entries = [_describe(entry) for entry in page.rows]
        return BalanceTransactionList(entries, cursors.write(call, page.next))

    return [
        Endpoint(
            method="GET",
            path="/api/v1/balance",
            operation_id="getBalance",
            summary="Get the balance",
            description="Returns each wallet's balance, its open payouts' total with fees, what "
            "open disputes withhold, and what you owe.",
            right=Right.READ,
            answers=(Balance,),
            use_case=balance,
        ),
        Endpoint(
            method="GET",
            path=LIST,
            operation_id="listBalanceTransactions",
            summary="List balance transactions",
            description="Lists every change to your wallets' balances, newest first. This is the "
            "complete statement.",
            right=Right.READ,
            answers=(BalanceTransactionList,),
            use_case=list_balance_transactions,
            query=BalanceTransactionsQuery,
        ),
    ]


async def _shared(pages: SharedReads, call: Call, after: str | None) -> Page[StatementEntry] | None:
    """Loads the page in one SQL query for several requests. Returns None for filtered lists."""
    wanted = call.query
    if wanted.ref_trx is not None or wanted.since is not None or wanted.until is not None:
        return None
    return await statement.newest(pages, call.tenant, wanted.currency_code, after, wanted.limit)


async def _searched(services: Services, call: Call, after: str | None) -> Page[StatementEntry]:
    tenant, wanted = call.tenant, call.query
    since, until = wanted.period
    return await statement.page(
        services.reads.begin(),
        tenant,
        await _currencies(services.db, tenant, wanted.currency_code),
        since=since,
        until=until,
        ref_trx=wanted.ref_trx,
        after=after,
        limit=wanted.limit,
    )


async def _currencies(db: Database, tenant: Tenant, wanted: str | None) -> list[str]:
    wallets = await merchants.wallets(db, tenant.merchant_id)
    return [
        wallet.currency
        for wallet in wallets
        if wallet.environment == tenant.environment and wanted in (None, wallet.currency)
    ]


def _describe(entry: StatementEntry) -> BalanceTransaction:
    return BalanceTransaction(
        trx_id=entry.trx_id,
        ref_trx=entry.ref_trx,
        kind=entry.kind,
        amount=amount_of(entry.currency, entry.amount_minor),
        balance_after=amount_of(entry.currency, entry.balance_minor),
        currency_code=entry.currency,
        created_at=entry.posted_at,
    )
