"""The demo shop's database queries."""

import json
from datetime import datetime
from typing import Any

import msgspec

from manilla.kit.database.connections import Database
from manilla.kit.money import Money


class OrderRow(msgspec.Struct, frozen=True):
    reference: str
    article: str
    trx_id: str
    payment_url: str
    made_at: datetime


class ShopNotification(msgspec.Struct, frozen=True):
    """A received notification with a valid signature."""

    reference: str
    status: str
    message: str
    body: str
    at: datetime

    @property
    def is_of_refund(self) -> bool:
        return bool(self._content["event"] == "refund")

    @property
    def received(self) -> Money | None:
        """What the customer paid in all, if it was a wrong amount."""
        return self._amount("amount_received")

    @property
    def refunded(self) -> Money | None:
        return self._amount("refund_amount")

    def _amount(self, field: str) -> Money | None:
        data = self._content["data"]
        amount = data.get(field)
        return None if amount is None else Money.of(amount, data["currency_code"])

    @property
    def _content(self) -> Any:
        return json.loads(self.body, parse_float=str)


async def add_order(
    db: Database, reference: str, article: str, trx_id: str, payment_url: str
) -> None:
    """Adds an order, and deletes orders that are older than two days."""
    await db.execute(
        """
        WITH old AS (DELETE FROM shop_order WHERE made_at < now() - interval '2 days'),
             expired AS (DELETE FROM shop_news WHERE at < now() - interval '2 days')
        INSERT INTO shop_order (reference, article, trx_id, payment_url)
        VALUES ($1, $2, $3, $4)""",
        *(reference, article, trx_id, payment_url),
    )


async def add_notification(
    db: Database, reference: str, key: str, status: str, message: str, body: str
) -> None:
    """Stores a notification once, even if it arrives several times. Ignores unknown orders."""
    await db.execute(
        """
        INSERT INTO shop_news (reference, id, status, message, body)
        SELECT $1, $2, $3, $4, $5 WHERE EXISTS (SELECT FROM shop_order WHERE reference = $1)
            ON CONFLICT DO NOTHING""",
        *(reference, key, status, message, body),
    )


async def order(db: Database, reference: str) -> OrderRow | None:
    return await db.row(OrderRow, "SELECT * FROM shop_order WHERE reference = $1", reference)


async def latest(db: Database, number: int) -> list[OrderRow]:
    return await db.rows(
        OrderRow, "SELECT * FROM shop_order ORDER BY made_at DESC LIMIT $1", number
    )


async def notifications(db: Database, references: list[str]) -> list[ShopNotification]:
    return await db.rows(
        ShopNotification,
        """
        SELECT reference, status, message, body, at FROM shop_news
         WHERE reference = ANY($1) ORDER BY at""",
        references,
    )
