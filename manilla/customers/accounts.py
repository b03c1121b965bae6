"""Requests and closes customers' accounts. A job calls the provider."""

from collections.abc import Iterator, Sequence

from msgspec import UNSET, UnsetType

from manilla.customers import account_store, store
from manilla.customers.account import (
    ACCOUNTS_MAX,
    AccountStatus,
    CustomerAccount,
    NoAccountMethod,
    TooManyAccounts,
)
from manilla.customers.customer import CustomerDisabled
from manilla.job_kinds import JobKind
from manilla.kit import jobs
from manilla.kit.database.connections import Connection, Database
from manilla.ledger.idempotency import Remember, without_key
from manilla.ledger.scope import Tenant
from manilla.merchants import availability
from manilla.merchants.directory import Caller
from manilla.methods.catalogue import Catalogue
from manilla.methods.method import Flow, Method, MethodKind
from manilla.payments import eligibility
from manilla.payments.payment import SANDBOX
from manilla.providers.rails import Rails
from manilla.splits import planning
from manilla.splits.planning import GivenSplit

OPEN = (AccountStatus.PENDING, AccountStatus.ACTIVE)


def methods(catalogue: Catalogue, rails: Rails, caller: Caller) -> list[Method]:
    """Returns the methods that can create permanent accounts, in the merchant's order."""
    found = [
        method
        for method in _of_environment(catalogue, caller)
        if method.flow is Flow.VIRTUAL_ACCOUNT
        and method.currency in caller.active_wallets
        and rails.credentials(method.provider or "").kind.capabilities.permanent_accounts
    ]
    return eligibility.in_order(caller, found)


def _of_environment(catalogue: Catalogue, caller: Caller) -> Iterator[Method]:
    """Yields the merchant's methods. The sandbox has all of them, because it calls no provider."""
    if caller.is_sandbox:
        yield from catalogue.all(MethodKind.DEPOSIT)
        return
    for currency in sorted(caller.currencies):
        for method in catalogue.offered(MethodKind.DEPOSIT, currency, caller.environment):
            if caller.gateways is None or method.code in caller.gateways:
                yield method


async def request(
    db: Database,
    offered: Sequence[Method],
    caller: Caller,
    reference: str,
    *,
    codes: Sequence[str] = (),
    count: int = 1,
    ipn_url: str = "",
    email_domain: str = "example.com",
    split: GivenSplit | UnsetType | None = UNSET,
    remember: Remember = without_key,
) -> list[CustomerAccount]:
    """Requests accounts at different providers: with these methods, or the merchant's first ones.

    A customer has at most one open account at each provider, so a repeated request returns it. Its
    transfers are divided by the latest split that was sent.
    """
    availability.check(caller)
    chosen = _choose(offered, codes, count)
    tenant = Tenant(caller.merchant_id, caller.environment)
    rule = None
    if split is not UNSET and split is not None:
        for currency in sorted({method.currency for method in chosen}):
            rule = await planning.check_given(db, tenant, split, currency)
    async with db.transaction() as connection:
        customer = await store.of_tenant(connection, tenant, reference, lock=True)
        if customer.disabled_at is not None:
            raise CustomerDisabled
        earlier = await account_store.accounts_of(connection, tenant.merchant_id, [customer.id])
        open_ = {each.method_code: each for each in earlier if _is_kept(each)}
        new = [method for method in chosen if method.code not in open_]
        if len(open_) + len(new) > ACCOUNTS_MAX:
            raise TooManyAccounts
        for method in new:
            provider = SANDBOX if caller.is_sandbox else method.provider
            assert provider is not None
            added = await account_store.insert(
                *(
                    connection,
                    customer,
                    method.code,
                    provider,
                    method.currency,
                    ipn_url,
                    email_domain,
                    rule,
                )
            )
            await jobs.put(connection, added.merchant_id, JobKind.ACCOUNT, added.id)
            open_[method.code] = added
        accounts = [open_[method.code] for method in chosen]
        if split is not UNSET:
            accounts = [await account_store.set_split(connection, each, rule) for each in accounts]
        await remember(connection, accounts)
    return accounts


def _is_kept(account: CustomerAccount) -> bool:
    return account.status in OPEN and account.closing_at is None


def _choose(offered: Sequence[Method], codes: Sequence[str], count: int) -> list[Method]:
    """Returns one method per provider, in the merchant's order of methods."""
    by_code = {method.code: method for method in offered}
    unknown = [code for code in codes if code not in by_code]
    if unknown:
        text = f"These methods cannot create accounts for customers: {', '.join(unknown)}."
        raise NoAccountMethod(text)
    wanted = [by_code[code] for code in codes] or list(offered)
    by_provider: dict[str | None, Method] = {}
    for method in wanted:
        by_provider.setdefault(method.provider, method)
    chosen = list(by_provider.values())
    if not chosen:
        raise NoAccountMethod
    return chosen if codes else chosen[:count]


async def close(
    db: Database,
    tenant: Tenant,
    reference: str,
    account_id: str,
    remember: Remember = without_key,
) -> CustomerAccount:
    """Closes an account. Transfers that arrive from now on are held for review."""
    async with db.transaction() as connection:
        customer = await store.of_tenant(connection, tenant, reference)
        account = await account_store.of_customer(connection, customer, account_id, lock=True)
        if account.status in OPEN:
            await account_store.mark_closing(connection, account)
            await raise_job(connection, account)
        await remember(connection, account)
    return account


async def raise_job(db: Connection | Database, account: CustomerAccount) -> None:
    """Makes the account's job due, which calls the provider."""
    await jobs.put(db, account.merchant_id, JobKind.ACCOUNT, account.id)
