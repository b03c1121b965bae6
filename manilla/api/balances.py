"""Endpoints for the wallets: their balances and their statement."""

from decimal import Decimal

from msgspec import Struct

from manilla.api.endpoint import Call, Endpoint
from manilla.api.fields import CurrencyCode, Reference
from manilla.api.lists import Cursors, PeriodQuery
from manilla.kit import clock
from manilla.kit.crypto import Keyring
from manilla.kit.db import Database
from manilla.kit.money import Money
from manilla.ledger.scope import Tenant
from manilla.lookup import statement
from manilla.lookup.statement import StatementEntry
from manilla.merchants import queries as merchants
from manilla.merchants.rights import Right
from manilla.payouts import figures

LIST = "/api/v1/balance-transactions"


class WalletBalance(Struct, frozen=True):
    currency_code: str
    available: Decimal
    in_flight: Decimal


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


def endpoints(db: Database, keyring: Keyring) -> list[Endpoint]:
    cursors = Cursors(keyring, LIST, int)

    async def balance(call: Call) -> Balance:
        wallets = await figures.balances(db, call.tenant)
        return Balance(
            call.caller.environment,
            [
                WalletBalance(
                    wallet.currency,
                    Money(wallet.currency, wallet.balance_minor).amount,
                    Money(wallet.currency, wallet.open_minor).amount,
                )
                for wallet in wallets
            ],
        )

    async def list_balance_transactions(call: Call) -> BalanceTransactionList:
        tenant, wanted = call.tenant, call.query
        since, until = wanted.period
        page = await statement.page(
            db,
            tenant,
            await _currencies(db, tenant, wanted.currency_code),
            since=since,
            until=until,
            ref_trx=wanted.ref_trx,
            after=cursors.read(call),
            limit=wanted.limit,
        )
        entries = [_describe(entry) for entry in page.entries]
        return BalanceTransactionList(entries, cursors.write(call, page.next))

    return [
        Endpoint(
            method="GET",
            path="/api/v1/balance",
            operation_id="getBalance",
            summary="Get the balance",
            description="Returns the balance of each wallet, and what its open payouts cost.",
            right=Right.READ,
            answers=(Balance,),
            use_case=balance,
        ),
        Endpoint(
            method="GET",
            path=LIST,
            operation_id="listBalanceTransactions",
            summary="List balance transactions",
            description="Lists every change of your wallets' balances, newest first: the "
            "statement, without gaps.",
            right=Right.READ,
            answers=(BalanceTransactionList,),
            use_case=list_balance_transactions,
            query=BalanceTransactionsQuery,
        ),
    ]


async def _currencies(db: Database, tenant: Tenant, wanted: str | None) -> list[str]:
    wallets = await merchants.wallets(db, tenant.merchant_id)
    return [
        wallet.currency
        for wallet in wallets
        if wallet.environment == tenant.environment and wanted in (None, wallet.currency)
    ]


def _describe(entry: StatementEntry) -> BalanceTransaction:
    line = entry.line
    return BalanceTransaction(
        trx_id=entry.trx_id,
        ref_trx=entry.ref_trx,
        kind=line.kind,
        amount=line.amount.amount,
        balance_after=line.balance.amount,
        currency_code=line.currency,
        created_at=clock.iso(line.posted_at),
    )
