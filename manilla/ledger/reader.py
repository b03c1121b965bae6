"""Reads transactions for many concurrent requests with one SQL statement."""

from datetime import datetime
from functools import lru_cache
from typing import Any

from manilla.kit.batch import SharedReads
from manilla.kit.listing import Page, page_of, read_cursor
from manilla.kit.listing.sorting import SortOrder
from manilla.ledger import trx_ids
from manilla.ledger.scope import Tenant
from manilla.ledger.transaction_lists import EARLIEST, LATEST, ORDERS, id_bounds
from manilla.ledger.transactions import TransactionNotFound

Columns = tuple[Any, ...]
_NEWEST = ORDERS[SortOrder.NEWEST]


class TransactionReader:
    def __init__(self, single: SharedReads, pages: SharedReads) -> None:
        self._single, self._pages = single, pages

    async def read(self, table: str, columns: str, tenant: Tenant, trx_id: str) -> Columns:
        """Returns a transaction's columns.

        Raises an error if the tenant has no such transaction.
        """
        if trx_ids.merchant_of(trx_id) != tenant.merchant_id:
            raise TransactionNotFound
        found = await self._single.records(
            _single_sql(table, columns), tenant.merchant_id, tenant.environment, trx_id
        )
        if not found:
            raise TransactionNotFound
        columns_of: Columns = found[0][1:]
        return columns_of

    async def newest(
        self,
        table: str,
        columns: str,
        tenant: Tenant,
        *,
        since: datetime | None,
        until: datetime | None,
        after: str | None,
        limit: int,
    ) -> Page[Columns] | None:
        """Returns a page of the tenant's transactions, newest first.

        The SQL statement reads only as many of the merchant's rows as the page needs, so that no
        request in the batch delays the others. Some of these rows may be in the other environment
        or outside the period. Returns None if the page is therefore incomplete.
        """
        low, high = id_bounds(since, until)
        last = read_cursor(_NEWEST.kind, after)
        has_period = since is not None or until is not None
        found = await self._pages.records(
            _page_sql(table, columns, has_period=has_period),
            *(tenant.merchant_id, tenant.environment, low, last[0] if last else high, limit + 1),
            *((since or EARLIEST, until or LATEST) if has_period else ()),
        )
        wanted = [record for record in found if record[1]]
        if len(wanted) < len(found) > limit:
            return None
        page = page_of(wanted, limit, _NEWEST.key)
        return Page([record[2:] for record in page.rows], page.next)


@lru_cache
def _single_sql(table: str, columns: str) -> str:
    # This order makes the planner use the primary key instead of reading all of a merchant's rows.
    return f"""
        SELECT place, {columns}
          FROM unnest($1::integer[], $2::bigint[], $3::text[], $4::text[])
               AS wanted (place, wanted_merchant, wanted_environment, wanted_id)
         CROSS JOIN LATERAL (
               SELECT * FROM {table}
                WHERE merchant_id = wanted_merchant AND trx_id BETWEEN wanted_id AND wanted_id
                ORDER BY trx_id LIMIT 1) AS found
         WHERE found.environment = wanted_environment::environment"""


@lru_cache
def _page_sql(table: str, columns: str, *, has_period: bool) -> str:
    # LATERAL always uses a nested loop, so the rows of each page stay in order.
    arrays = "$1::integer[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::integer[]"
    names = "place, wanted_merchant, wanted_environment, low, high, rows_max"
    is_wanted = "environment = wanted_environment::environment"
    if has_period:
        arrays, names = f"{arrays}, $7::timestamptz[], $8::timestamptz[]", f"{names}, since, until"
        is_wanted = f"{is_wanted} AND created_at >= since AND created_at < until"
    return f"""
        SELECT place, {is_wanted}, {columns}
          FROM unnest({arrays}) AS wanted ({names})
         CROSS JOIN LATERAL (
               SELECT * FROM {table}
                WHERE merchant_id = wanted_merchant AND trx_id >= low AND trx_id < high
                ORDER BY trx_id DESC LIMIT rows_max) AS found"""
