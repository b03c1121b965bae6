"""Exports and erases a customer's personal data, with the saved ways to pay."""

from typing import Any

import msgspec

from manilla.customers import erasure
from manilla.customers.customer import CustomerRow
from manilla.kit.database.connections import Connection, Database
from manilla.ledger.scope import Tenant
from manilla.payments import store as payments
from manilla.saved_ways import revoking, store
from manilla.saved_ways.fields import describe
from manilla.saved_ways.way import EndedBy, WayEvent

ERASED_LABEL = "Erased"


async def export(db: Database, tenant: Tenant, reference: str) -> dict[str, Any]:
    """Returns everything that is stored about the customer, except encrypted values."""
    found = await erasure.export(db, tenant, reference)
    ways = await store.ways_of(db, tenant, reference)
    listed = [
        {**msgspec.to_builtins(describe(each)), "consent_text": each.consent_text} for each in ways
    ]
    return {**found, "saved_ways": listed}


async def erase(db: Database, tenant: Tenant, reference: str) -> CustomerRow:
    """Removes the personal data, closes the accounts, and ends the saved ways."""
    return await erasure.erase(db, tenant, reference, (erase_ways,))


async def erase_ways(connection: Connection, customer: CustomerRow) -> None:
    """Ends a customer's ways, and removes what identifies the person."""
    tenant, reference = customer.tenant, customer.reference
    for way in await store.ways_of(connection, tenant, reference, is_shown=False):
        locked = await store.way(connection, way.merchant_id, way.id, lock=True)
        assert locked is not None
        await revoking.end_locked(connection, locked, WayEvent.REVOKED, EndedBy.ERASURE)
        await store.erase(connection, locked, ERASED_LABEL)
    about = tenant.merchant_id, tenant.environment, reference
    await payments.erase_ways(connection, *about, ERASED_LABEL)
