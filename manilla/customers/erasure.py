"""Exports and erases the personal data of a customer, as data protection laws require.

Payments and ledger entries stay, because the books must. Names, addresses and account numbers of
people go.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from manilla.audit import audit
from manilla.customers import account_store, store
from manilla.customers.accounts import OPEN, raise_job
from manilla.customers.customer import CustomerRow
from manilla.customers.fields import describe, describe_account
from manilla.kit.database.connections import Connection, Database
from manilla.ledger.scope import Tenant
from manilla.payments import store as payments

# Erases what another package stores about a customer, in the same transaction.
Eraser = Callable[[Connection, CustomerRow], Awaitable[None]]


async def export(db: Database, tenant: Tenant, reference: str) -> dict[str, Any]:
    """Returns everything that is stored about the customer, except encrypted numbers."""
    customer = await store.of_tenant(db, tenant, reference)
    accounts = await account_store.accounts_of(db, tenant.merchant_id, [customer.id])
    paid = await payments.of_customer(db, tenant.merchant_id, tenant.environment, reference)
    return {
        "customer": msgspec.to_builtins(describe(customer)),
        "accounts": [msgspec.to_builtins(describe_account(each, reference)) for each in accounts],
        "payments": [
            {
                **{name: getattr(each, name) for name in ("trx_id", "ref_trx", "currency")},
                **{name: str(getattr(each, name)) for name in ("status", "created_at")},
                "amount": str(each.amount.amount),
                "payer": None if each.payer is None else msgspec.json.decode(each.payer),
            }
            for each in paid
        ],
    }


async def erase(
    db: Database, tenant: Tenant, reference: str, others: Sequence[Eraser] = ()
) -> CustomerRow:
    """Removes the personal data and closes the accounts. The customer stays disabled for good."""
    async with db.transaction() as connection:
        customer = await store.of_tenant(connection, tenant, reference, lock=True)
        for account in await account_store.accounts_of(
            connection, tenant.merchant_id, [customer.id]
        ):
            if account.status in OPEN:
                await account_store.mark_closing(connection, account)
                await raise_job(connection, account)
        await account_store.erase_names(connection, customer)
        await payments.erase_customer(connection, tenant.merchant_id, tenant.environment, reference)
        for eraser in others:
            await eraser(connection, customer)
        erased = await store.erase(connection, customer)
        await audit.record(
            *(connection, "customer.erase", f"customer:{customer.id}"),
            merchant_id=tenant.merchant_id,
        )
    return erased
