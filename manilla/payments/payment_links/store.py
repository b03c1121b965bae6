"""Reads and writes payment links."""

from typing import Any

import msgspec

from manilla.audit import audit
from manilla.kit import listing
from manilla.kit.database.connections import Connection, Database
from manilla.kit.database.rows import columns
from manilla.kit.listing import PAGE_ROWS, Moment, Page
from manilla.kit.listing.sorting import KeyIndex, Selection, SortOrder, read_as
from manilla.kit.money import Money
from manilla.ledger import transaction_lists
from manilla.ledger.idempotency import Remember, without_key
from manilla.ledger.scope import Tenant, merchant_condition, scope_conditions
from manilla.payments.payment import Payment
from manilla.payments.payment_links.link import (
    LINK_IDS,
    LinkNotFound,
    LinkStatus,
    LinkTerms,
    LinkUsed,
    PaymentLink,
    StoredLink,
    new_slug,
    owner_of_slug,
)
from manilla.payments.store import PAYMENT_COLUMNS

_STATUS = """
    CASE WHEN single_use AND paid_count > 0 THEN 'used'
         WHEN disabled_at IS NOT NULL THEN 'disabled'
         WHEN expires_at <= now() THEN 'expired'
         ELSE 'active' END"""


# A link's earnings are added up in one currency, so its currency cannot be edited.
# Customers of a single-payment link share one checkout, so this setting cannot be edited either.
EDITABLE = ("title", "description", "amount_minor", "expires_at", "success_redirect")

_COLUMNS = f"{columns(StoredLink)}, {_STATUS} AS status"
_TABLE = f"(SELECT *, {_STATUS} AS status FROM payment_link) AS payment_link"
_ORDERS = transaction_lists.newest_by("id", LINK_IDS)


_MATCHES = "position(lower({}) IN lower(concat_ws(E'\\n', id, slug, title, description))) > 0"


class LinkFilter(msgspec.Struct, frozen=True, kw_only=True):
    status: LinkStatus | None = None
    since: Moment | None = None
    until: Moment | None = None  # exclusive upper bound of the creation time
    search: str | None = None  # a link's id, or a part of its title or description


class LinkTotals(msgspec.Struct, frozen=True):
    links: int
    payments: int
    earned: list[Money]  # one per currency


async def create(
    db: Database, tenant: Tenant, terms: LinkTerms, remember: Remember = without_key
) -> PaymentLink:
    link_id, created_at = LINK_IDS.new_with_time(tenant.merchant_id)
    names = msgspec.structs.fields(LinkTerms)
    async with db.transaction() as connection:
        link = await connection.row(
            PaymentLink,
            f"""
            INSERT INTO payment_link (merchant_id, id, environment, created_at, slug,
                                      {columns(LinkTerms)})
            VALUES ($1, $2, $3, $4, $5, {_places(len(names), 6)})
            RETURNING {_COLUMNS}""",
            *(tenant.merchant_id, link_id, tenant.environment, created_at),
            new_slug(tenant.merchant_id),
            *(getattr(terms, field.name) for field in names),
        )
        assert link is not None
        await _audit(connection, "payment_link.create", link)
        await remember(connection, link)
    return link


def _places(count: int, first: int) -> str:
    return ", ".join(f"${first + place}" for place in range(count))


async def find(db: Database | Connection, address: str) -> PaymentLink:
    """Returns any merchant's link with this id or slug, because customers open links too."""
    merchant_id, column = LINK_IDS.owner_of(address), "id"
    if merchant_id is None:
        merchant_id, column, address = owner_of_slug(address), "slug", address.lower()
    if merchant_id is None:
        raise LinkNotFound
    link = await db.row(
        PaymentLink,
        f"SELECT {_COLUMNS} FROM payment_link WHERE merchant_id = $1 AND {column} = $2",
        *(merchant_id, address),
    )
    if link is None:
        raise LinkNotFound
    return link


async def find_own(db: Database, tenant: Tenant, link_id: str) -> PaymentLink:
    """Returns a link of this merchant and environment."""
    if LINK_IDS.owner_of(link_id) != tenant.merchant_id:
        raise LinkNotFound
    link = await find(db, link_id)
    if link.environment != tenant.environment:
        raise LinkNotFound
    return link


async def disable(
    db: Database, tenant: Tenant, link_id: str, remember: Remember = without_key
) -> PaymentLink:
    """Stops new payments with the link. Payments that were already started can still be paid."""
    assignment = "disabled_at = coalesce(disabled_at, now())"
    return await _update(db, tenant, link_id, "payment_link.disable", assignment, remember=remember)


async def enable(
    db: Database, tenant: Tenant, link_id: str, remember: Remember = without_key
) -> PaymentLink:
    """Allows new payments with the link again. A paid single-payment link stays closed."""
    assignment = "disabled_at = NULL"
    return await _update(db, tenant, link_id, "payment_link.enable", assignment, remember=remember)


async def edit(db: Database, tenant: Tenant, link_id: str, terms: LinkTerms) -> PaymentLink:
    """Changes the link for new payments. Payments that were already started stay unchanged."""
    assignments = ", ".join(f"{name} = ${place}" for place, name in enumerate(EDITABLE, 4))
    values = [getattr(terms, name) for name in EDITABLE]
    return await _update(db, tenant, link_id, "payment_link.edit", assignments, *values)


async def _update(
    db: Database,
    tenant: Tenant,
    link_id: str,
    action: str,
    assignments: str,
    *values: Any,
    remember: Remember = without_key,
) -> PaymentLink:
    async with db.transaction() as connection:
        link = await connection.row(
            PaymentLink,
            f"""
            UPDATE payment_link SET {assignments}
             WHERE merchant_id = $1 AND environment = $2 AND id = $3
            RETURNING {_COLUMNS}""",
            *(tenant.merchant_id, tenant.environment, link_id),
            *values,
        )
        if link is None:
            raise LinkNotFound
        if link.status is LinkStatus.USED and action != "payment_link.disable":
            raise LinkUsed
        await _audit(connection, action, link)
        await remember(connection, link)
    return link


async def _audit(connection: Connection, action: str, link: PaymentLink) -> None:
    await audit.record(
        connection,
        action,
        f"payment_link:{link.id}",
        merchant_id=link.merchant_id,
        environment=link.environment,
        title=link.title,
    )


async def links(
    db: Database,
    tenant: Tenant,
    wanted: LinkFilter,
    *,
    after: str | None = None,
    limit: int = PAGE_ROWS,
) -> Page[PaymentLink]:
    """Lists payment links by the creation time in their ids, newest first."""
    return await _selected(tenant, wanted).page(
        db, read_as(PaymentLink), SortOrder.NEWEST, after, limit
    )


async def totals(db: Database, tenant: Tenant, wanted: LinkFilter) -> LinkTotals:
    selected = _selected(tenant, wanted)
    records = await db.records(
        f"""
        SELECT currency, count(*) AS links, sum(paid_count)::bigint AS payments,
               sum(paid_minor)::bigint AS minor
          FROM {selected.table}
         WHERE {selected.wanted.sql} GROUP BY currency ORDER BY currency""",
        *selected.wanted.values,
    )
    return LinkTotals(
        sum(record["links"] for record in records),
        sum(record["payments"] for record in records),
        [Money(record["currency"], record["minor"]) for record in records if record["minor"]],
    )


async def count_payments(db: Database, link: PaymentLink) -> int:
    return await db.number(
        "SELECT count(*) FROM payment WHERE merchant_id = $1 AND link_id = $2",
        *(link.merchant_id, link.id),
    )


async def open_payment(db: Database, link: PaymentLink) -> Payment | None:
    """Returns the link's latest payment that can still be paid on checkout."""
    return await db.row(
        Payment,
        f"""
        SELECT {PAYMENT_COLUMNS} FROM payment
         WHERE merchant_id = $1 AND link_id = $2 AND status = 'pending' AND expires_at > now()
         ORDER BY trx_id DESC LIMIT 1""",
        *(link.merchant_id, link.id),
    )


def _selected(tenant: Tenant, wanted: LinkFilter) -> Selection:
    conditions = (
        scope_conditions(tenant)
        .add_given("status = {}", wanted.status)
        .add_given("created_at >= {}", wanted.since)
        .add_given("created_at < {}", wanted.until)
        .add_given(_MATCHES, listing.search_text(wanted.search))
    )
    bounds = transaction_lists.id_bounds(wanted.since, wanted.until, LINK_IDS)
    return Selection(
        _TABLE, _COLUMNS, _ORDERS, conditions, KeyIndex(merchant_condition(tenant), bounds)
    )
