"""Ends saved ways: a customer or merchant revokes them, a provider rejects them, or they expire.

An ended way is never charged again. A job then deletes its token at the provider, and here.
"""

from manilla.job_kinds import JobKind
from manilla.kit import jobs
from manilla.kit.database.connections import Connection, Database
from manilla.ledger.scope import Tenant
from manilla.saved_ways import store
from manilla.saved_ways.way import EndedBy, SavedWay, WayEvent, WayKind, WayNotFound, next_status


async def end(
    db: Database, merchant_id: int, way_id: str, event: WayEvent, by: EndedBy, reason: str = ""
) -> SavedWay:
    async with db.transaction() as connection:
        way = await store.way(connection, merchant_id, way_id, lock=True)
        if way is None:
            raise WayNotFound
        return await end_locked(connection, way, event, by, reason)


async def end_locked(
    connection: Connection, way: SavedWay, event: WayEvent, by: EndedBy, reason: str = ""
) -> SavedWay:
    """Ends a way, which the caller has locked. A way that has ended stays as it is."""
    status = next_status(way, event)
    if status is None:
        return way
    changed = await store.set_status(connection, way, status, ended_by=by, reason=reason)
    if way.token_sealed is not None or way.kind is WayKind.MANDATE:
        await jobs.put(connection, way.merchant_id, JobKind.SAVED_WAY, way.id)
    return changed


async def revoke(db: Database, tenant: Tenant, reference: str, way_id: str) -> SavedWay:
    """Ends a way for the merchant. Another customer's or environment's way is unknown."""
    way = await store.way(db, tenant.merchant_id, way_id)
    if way is None or way.tenant != tenant or way.customer_reference != reference:
        raise WayNotFound
    return await end(db, tenant.merchant_id, way_id, WayEvent.REVOKED, EndedBy.MERCHANT)
