"""The demo shop creates payments through the API, and gets their results as notifications."""

import secrets
import time
from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec
from manilla_client import AsyncClient, Credentials, verify_ipn

from manilla.kit.database.connections import Database
from manilla.kit.money import Money
from manilla.merchants.credentials import NewCredentials
from manilla_simulator.shop import queries
from manilla_simulator.shop.queries import OrderRow, ShopNotification

CURRENCY = "NGN"


class Article(msgspec.Struct, frozen=True):
    code: str
    name: str
    price: Money


ARTICLES = {
    article.code: article
    for article in (
        Article("chair", "A palm-wood chair", Money.of(18_500, CURRENCY)),
        Article("lamp", "A calabash lamp", Money.of("7250.50", CURRENCY)),
        Article("coffee", "Coffee for two", Money.of(3_200, CURRENCY)),
    )
}


class NewOrder(msgspec.Struct, frozen=True):
    reference: str
    payment_url: str


class Order(msgspec.Struct, frozen=True):
    reference: str
    article: Article
    trx_id: str
    payment_url: str
    made_at: datetime
    notifications: Sequence[ShopNotification]

    @property
    def status(self) -> str:
        """The payment's status. A refund does not change it."""
        payment = [each.status for each in self.notifications if not each.is_of_refund]
        return payment[-1] if payment else "pending"


class ShopService:
    def __init__(self, db: Database, base_url: str, keys: NewCredentials) -> None:
        self._db = db
        self._base_url = base_url
        self._keys = keys

    async def buy(self, article: Article) -> NewOrder:
        reference = f"SHOP-{int(time.time())}-{secrets.token_hex(3)}"
        here = f"{self._base_url}/shop"
        async with self._api() as api:
            session = await api.initiate_payment(
                payment_amount=article.price.amount,
                currency_code=CURRENCY,
                ref_trx=reference,
                success_redirect=f"{here}/orders/{reference}",
                cancel_redirect=f"{here}/orders/{reference}",
                ipn_url=f"{here}/ipn",
                description=article.name,
                customer_name="Ada Obi",
                customer_email="ada@example.com",
            )
        await queries.add_order(
            self._db, reference, article.code, session.trx_id, session.payment_url
        )
        return NewOrder(reference, session.payment_url)

    async def receive_notification(self, body: bytes, headers: Mapping[str, str]) -> None:
        """Stores a notification. Raises BadNotification if Manilla did not sign it."""
        notification = verify_ipn(body, headers, self._keys.api_secret)
        key = "/".join(notification.handled_once_by)
        message = notification.message or notification.event
        await queries.add_notification(
            self._db, notification.ref_trx or "", key, notification.status, message, body.decode()
        )

    async def order(self, reference: str) -> Order | None:
        row = await queries.order(self._db, reference)
        return None if row is None else (await self._with_notifications([row]))[0]

    async def latest(self, number: int) -> list[Order]:
        return await self._with_notifications(await queries.latest(self._db, number))

    async def _with_notifications(self, rows: Sequence[OrderRow]) -> list[Order]:
        received: dict[str, list[ShopNotification]] = {row.reference: [] for row in rows}
        for each in await queries.notifications(self._db, list(received)):
            received[each.reference].append(each)
        return [
            Order(
                row.reference,
                ARTICLES[row.article],
                row.trx_id,
                row.payment_url,
                row.made_at,
                received[row.reference],
            )
            for row in rows
        ]

    def _api(self) -> AsyncClient:
        """Creates an API client for one purchase. Purchases are rare, so it is not reused."""
        keys = self._keys
        credentials = Credentials(keys.merchant_key, keys.api_key, keys.api_secret)
        return AsyncClient(self._base_url, credentials)
