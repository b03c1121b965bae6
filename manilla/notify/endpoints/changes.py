"""Creates, changes and deletes webhook endpoints, and rotates their secrets."""

from datetime import UTC, datetime

import msgspec

from manilla.audit import audit
from manilla.kit.changes import known_everywhere
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Connection, Database
from manilla.ledger.idempotency import Remember, without_key
from manilla.ledger.scope import Tenant
from manilla.merchants import api_keys, merchants
from manilla.notify.endpoints import signing_keys, store
from manilla.notify.endpoints.endpoint import (
    ENDPOINT_IDS,
    ENDPOINTS_MAX,
    OVERLAP_MINUTES,
    EndpointStatus,
    EndpointTerms,
    TooManyEndpoints,
    WebhookEndpoint,
)
from manilla.notify.endpoints.signing_keys import NewSecret

BY_MERCHANT = "Disabled by you."


class NewEndpoint(msgspec.Struct, frozen=True):
    endpoint: WebhookEndpoint
    secret: str  # shown only once


async def create(
    db: Database,
    keyring: Keyring,
    tenant: Tenant,
    terms: EndpointTerms,
    remember: Remember = without_key,
    *,
    api_key: int | None = None,
) -> NewEndpoint:
    """`api_key`: the number of the additional API key that manages the endpoint."""
    async with db.transaction() as connection:
        # Lock the merchant, so that the key is not revoked after the check.
        await merchants.touch(connection, tenant.merchant_id)
        if api_key is not None:
            await api_keys.check_active(connection, tenant, api_key)
        endpoint, secret = await add(connection, keyring, tenant, terms, api_key)
        await remember(connection, secret)
    # A transaction's event is stored only if the cached merchant data contains an endpoint for it.
    # After this call, the client expects the events of all transactions that it creates.
    # To store all these events, wait until all processes have refreshed their caches.
    await known_everywhere()
    return NewEndpoint(endpoint, secret.text)


async def add(
    connection: Connection,
    keyring: Keyring,
    tenant: Tenant,
    terms: EndpointTerms,
    api_key: int | None,
) -> tuple[WebhookEndpoint, NewSecret]:
    """Adds an endpoint. The caller has locked the merchant, so that none is added meanwhile."""
    assert terms.url is not None
    assert terms.events is not None
    if await store.count(connection, tenant) >= ENDPOINTS_MAX:
        raise TooManyEndpoints
    endpoint = WebhookEndpoint(
        merchant_id=tenant.merchant_id,
        id=ENDPOINT_IDS.new(tenant.merchant_id),
        environment=tenant.environment,
        url=terms.url,
        events=_unique(terms.events),
        description=terms.description,
        created_at=datetime.now(UTC),
        failing_since=None,
        disabled_at=None,
        disabled_reason=None,
        api_key=api_key,
    )
    await store.insert(connection, endpoint)
    secret = await signing_keys.add(connection, keyring, endpoint)
    await _record(connection, "endpoint.create", endpoint)
    return endpoint, secret


async def update(
    db: Database,
    tenant: Tenant,
    endpoint_id: str,
    terms: EndpointTerms,
    api_key: int | None = None,
) -> WebhookEndpoint:
    """`api_key`: the number of the additional API key that changes the endpoint."""
    async with db.transaction() as connection:
        await merchants.touch(connection, tenant.merchant_id)
        if api_key is not None:
            await api_keys.check_active(connection, tenant, api_key)
        before = await store.find(connection, tenant, endpoint_id, lock=True)
        after = _changed(before, terms)
        await store.update(connection, after)
        await _record(connection, "endpoint.update", after)
    if after.disabled_at is None and (before.disabled_at or before.events != after.events):
        await known_everywhere()  # waits for the caches of all processes, as in `create`
    return after


async def delete(db: Database, tenant: Tenant, endpoint_id: str) -> None:
    """Stops the endpoint's deliveries and destroys its secrets."""
    async with db.transaction() as connection:
        await merchants.touch(connection, tenant.merchant_id)
        endpoint = await store.find(connection, tenant, endpoint_id, lock=True)
        await store.mark_deleted(connection, endpoint)
        await signing_keys.destroy(connection, endpoint)
        await _record(connection, "endpoint.delete", endpoint)


async def rotate(
    db: Database,
    keyring: Keyring,
    tenant: Tenant,
    endpoint_id: str,
    overlap_minutes: int = OVERLAP_MINUTES,
    remember: Remember = without_key,
) -> str:
    """Creates a new secret.

    During the overlap, messages are also signed with the previous secrets.
    """
    async with db.transaction() as connection:
        endpoint = await store.find(connection, tenant, endpoint_id, lock=True)
        await signing_keys.expire(connection, endpoint, overlap_minutes)
        secret = await signing_keys.add(connection, keyring, endpoint)
        await _record(connection, "endpoint.rotate", endpoint)
        await remember(connection, secret)
    return secret.text


def _changed(before: WebhookEndpoint, terms: EndpointTerms) -> WebhookEndpoint:
    after = msgspec.structs.replace(
        before,
        url=terms.url or before.url,
        events=_unique(terms.events) if terms.events else before.events,
        description=before.description if terms.description is None else terms.description or None,
        failing_since=before.failing_since if terms.url in (None, before.url) else None,
    )
    match terms.status:
        case EndpointStatus.ENABLED:
            nothing = dict.fromkeys(("failing_since", "disabled_at", "disabled_reason"))
            return msgspec.structs.replace(after, **nothing)
        case EndpointStatus.DISABLED if before.disabled_at is None:
            now = datetime.now(UTC)
            return msgspec.structs.replace(after, disabled_at=now, disabled_reason=BY_MERCHANT)
    return after


def _unique(events: list[str]) -> list[str]:
    return list(dict.fromkeys(events))


async def _record(connection: Connection, action: str, endpoint: WebhookEndpoint) -> None:
    await audit.record(
        connection,
        action,
        f"endpoint:{endpoint.id}",
        merchant_id=endpoint.merchant_id,
        environment=endpoint.environment,
        url=endpoint.url,
        events=endpoint.events,
        status=endpoint.status,
        **({} if endpoint.api_key is None else {"api_key": endpoint.api_key}),
    )
