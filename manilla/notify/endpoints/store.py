"""Reads and writes webhook endpoints."""

from datetime import timedelta

from manilla.kit.database.connections import Connection, Database
from manilla.kit.database.expiry import delete_older
from manilla.kit.database.rows import columns
from manilla.kit.listing import Page
from manilla.kit.listing.sorting import Selection, SortKeys, SortOrder, read_as
from manilla.ledger.scope import Tenant, scope_conditions
from manilla.notify.endpoints.endpoint import EndpointNotFound, WebhookEndpoint

_COLUMNS = columns(WebhookEndpoint)
_ORDERS = {SortOrder.NEWEST: SortKeys(("id",), tuple[str])}


async def page(
    db: Database, tenant: Tenant, after: str | None, limit: int, api_key: int | None = None
) -> Page[WebhookEndpoint]:
    """Returns a tenant's endpoints, or only those of an additional API key, newest first."""
    owned = scope_conditions(tenant).add("deleted_at IS NULL")
    if api_key is not None:
        owned = owned.add("api_key = {}", api_key)
    found = Selection("webhook_endpoint", _COLUMNS, _ORDERS, owned)
    return await found.page(db, read_as(WebhookEndpoint), SortOrder.NEWEST, after, limit)


async def of_merchant(db: Database, merchant_id: int) -> list[WebhookEndpoint]:
    """Returns a merchant's endpoints in both environments, newest first."""
    return await db.rows(
        WebhookEndpoint,
        f"SELECT {_COLUMNS} FROM webhook_endpoint"
        " WHERE merchant_id = $1 AND deleted_at IS NULL ORDER BY environment, id DESC",
        merchant_id,
    )


async def find(
    db: Database | Connection, tenant: Tenant, endpoint_id: str, *, lock: bool = False
) -> WebhookEndpoint:
    found = await db.row(
        WebhookEndpoint,
        f"SELECT {_COLUMNS} FROM webhook_endpoint"
        " WHERE merchant_id = $1 AND id = $2 AND environment = $3 AND deleted_at IS NULL"
        + (" FOR NO KEY UPDATE" if lock else ""),
        *(tenant.merchant_id, endpoint_id, tenant.environment),
    )
    if found is None:
        raise EndpointNotFound
    return found


async def find_any(db: Database, merchant_id: int, endpoint_id: str) -> WebhookEndpoint | None:
    """Returns an endpoint in either environment, or None if it was deleted."""
    return await db.row(
        WebhookEndpoint,
        f"SELECT {_COLUMNS} FROM webhook_endpoint"
        " WHERE merchant_id = $1 AND id = $2 AND deleted_at IS NULL",
        *(merchant_id, endpoint_id),
    )


async def count(connection: Connection, tenant: Tenant) -> int:
    return await connection.number(
        "SELECT count(*) FROM webhook_endpoint"
        " WHERE merchant_id = $1 AND environment = $2 AND deleted_at IS NULL",
        *(tenant.merchant_id, tenant.environment),
    )


async def insert(connection: Connection, new: WebhookEndpoint) -> None:
    await connection.execute(
        """
        INSERT INTO webhook_endpoint (merchant_id, id, environment, url, events, description,
                                      api_key)
        VALUES ($1, $2, $3, $4, $5, $6, $7)""",
        *(new.merchant_id, new.id, new.environment, new.url, new.events, new.description),
        new.api_key,
    )


async def update(connection: Connection, endpoint: WebhookEndpoint) -> None:
    await connection.execute(
        """
        UPDATE webhook_endpoint
           SET url = $3, events = $4, description = $5, failing_since = $6, disabled_at = $7,
               disabled_reason = $8
         WHERE merchant_id = $1 AND id = $2""",
        *(endpoint.merchant_id, endpoint.id, endpoint.url, endpoint.events, endpoint.description),
        *(endpoint.failing_since, endpoint.disabled_at, endpoint.disabled_reason),
    )


async def mark_deleted(connection: Connection, endpoint: WebhookEndpoint) -> None:
    await connection.execute(
        "UPDATE webhook_endpoint SET deleted_at = now() WHERE merchant_id = $1 AND id = $2",
        *(endpoint.merchant_id, endpoint.id),
    )


async def delete_old(db: Database, age: timedelta) -> None:
    """Deletes old deliveries, expired secrets, and deleted endpoints without deliveries."""
    await delete_older(db, "endpoint_delivery", "created_at", age)
    await db.execute("DELETE FROM endpoint_secret WHERE expires_at < now()")
    await db.execute("DELETE FROM webhook_endpoint WHERE deleted_at < now() - $1::interval", age)
