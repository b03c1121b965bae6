"""SQL queries for saved ways to pay."""

from datetime import date

import msgspec

from manilla.kit.database.connections import Connection
from manilla.kit.database.rows import RowSource, columns
from manilla.ledger.scope import Tenant
from manilla.saved_ways.way import EndedBy, SavedWay, WayStatus

COLUMNS = columns(SavedWay)
_WAY = f"SELECT {COLUMNS} FROM saved_way"


class ProviderWays(msgspec.Struct, frozen=True):
    provider: str
    cards: int  # active ones
    mandates: int
    pending: int
    ended: int


async def way(
    db: RowSource, merchant_id: int, way_id: str, *, lock: bool = False
) -> SavedWay | None:
    return await db.row(
        SavedWay,
        _WAY + " WHERE merchant_id = $1 AND id = $2" + (" FOR NO KEY UPDATE" if lock else ""),
        *(merchant_id, way_id),
    )


async def ways_of(
    db: RowSource, tenant: Tenant, customer_reference: str, *, is_shown: bool = True
) -> list[SavedWay]:
    """Returns a customer's ways, newest first. `is_shown` omits cards that were not saved yet."""
    hidden = " AND NOT (kind = 'card' AND status = 'pending')" if is_shown else ""
    return await db.rows(
        SavedWay,
        f"{_WAY} WHERE merchant_id = $1 AND environment = $2 AND customer_reference = $3{hidden}"
        " ORDER BY id DESC",
        *(tenant.merchant_id, tenant.environment, customer_reference),
    )


async def of_payment(
    db: RowSource, merchant_id: int, trx_id: str, *, lock: bool = False
) -> SavedWay | None:
    """Returns the way that the payment saves or has saved."""
    return await db.row(
        SavedWay,
        _WAY
        + " WHERE merchant_id = $1 AND payment_trx_id = $2"
        + (" FOR NO KEY UPDATE" if lock else ""),
        *(merchant_id, trx_id),
    )


async def insert(connection: Connection, new: SavedWay) -> None:
    names = [
        name for name in SavedWay.__struct_fields__ if name not in ("created_at", "updated_at")
    ]
    places = ", ".join(f"${number}" for number in range(1, len(names) + 1))
    await connection.execute(
        f"INSERT INTO saved_way ({', '.join(names)}) VALUES ({places})",
        *(getattr(new, name) for name in names),
    )


async def activate(
    connection: Connection,
    before: SavedWay,
    *,
    provider: str,
    label: str,
    email: str,
    token_sealed: bytes | None,
    expires_on: date | None,
) -> SavedWay:
    changed = await connection.row(
        SavedWay,
        f"""
        UPDATE saved_way
           SET status = 'active', provider = $3, label = $4, email = $5, token_sealed = $6,
               expires_on = $7, action_url = NULL, updated_at = now()
         WHERE merchant_id = $1 AND id = $2
        RETURNING {COLUMNS}""",
        *(before.merchant_id, before.id, provider, label, email, token_sealed, expires_on),
    )
    assert changed is not None
    return changed


async def set_status(
    connection: Connection,
    before: SavedWay,
    status: WayStatus,
    *,
    ended_by: EndedBy | None = None,
    reason: str = "",
) -> SavedWay:
    """Writes the status. The caller has locked the row, and has looked the transition up."""
    changed = await connection.row(
        SavedWay,
        f"""
        UPDATE saved_way
           SET status = $3, ended_by = $4, reason = $5, updated_at = now(), action_url = NULL,
               consented_at = CASE WHEN $3 = 'active' THEN coalesce(consented_at, now())
                                   ELSE consented_at END
         WHERE merchant_id = $1 AND id = $2
        RETURNING {COLUMNS}""",
        *(before.merchant_id, before.id, status, ended_by, reason),
    )
    assert changed is not None
    return changed


async def set_mandate(
    connection: Connection, before: SavedWay, token_sealed: bytes | None, action_url: str | None
) -> None:
    await connection.execute(
        """
        UPDATE saved_way
           SET token_sealed = coalesce($3, token_sealed),
               action_url = coalesce($4, action_url), updated_at = now()
         WHERE merchant_id = $1 AND id = $2""",
        *(before.merchant_id, before.id, token_sealed, action_url),
    )


async def clear_token(connection: Connection, before: SavedWay) -> None:
    await connection.execute(
        "UPDATE saved_way SET token_sealed = NULL, updated_at = now()"
        " WHERE merchant_id = $1 AND id = $2",
        *(before.merchant_id, before.id),
    )


async def erase(connection: Connection, before: SavedWay, label: str) -> None:
    """Removes what identifies the customer."""
    await connection.execute(
        "UPDATE saved_way SET label = $3, email = '', action_url = NULL, updated_at = now()"
        " WHERE merchant_id = $1 AND id = $2",
        *(before.merchant_id, before.id, label),
    )


async def delete_pending(connection: Connection, merchant_id: int, trx_id: str) -> None:
    """Deletes the way of a payment whose customer does not want to save the card any more."""
    await connection.execute(
        "DELETE FROM saved_way"
        " WHERE merchant_id = $1 AND payment_trx_id = $2 AND status = 'pending'",
        *(merchant_id, trx_id),
    )


async def at_providers(db: RowSource) -> list[ProviderWays]:
    """Counts the saved ways at each provider, for administrators."""
    return await db.rows(
        ProviderWays,
        """
        SELECT provider, count(*) FILTER (WHERE kind = 'card' AND status = 'active') AS cards,
               count(*) FILTER (WHERE kind = 'mandate' AND status = 'active') AS mandates,
               count(*) FILTER (WHERE status IN ('pending', 'suspended')) AS pending,
               count(*) FILTER (WHERE status NOT IN ('active', 'pending', 'suspended')) AS ended
          FROM saved_way GROUP BY provider ORDER BY provider""",
    )
