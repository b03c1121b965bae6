"""What the shop does: orders a payment through the API, and hears of it by notification."""

import itertools
import time
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal

import msgspec

from manilla.client import AsyncClient, Credentials, Notification, verify_ipn
from manilla.kit.money import Money
from manilla.merchants.credentials import NewCredentials

ORDERS_MAX = 200
CURRENCY = "NGN"


class Article(msgspec.Struct, frozen=True):
    code: str
    name: str
    price: Money


ARTICLES = (
    Article("chair", "A palm-wood chair", Money.of(18_500, CURRENCY)),
    Article("lamp", "A calabash lamp", Money.of("7250.50", CURRENCY)),
    Article("coffee", "Coffee for two", Money.of(3_200, CURRENCY)),
)


class News(msgspec.Struct, frozen=True):
    """A notification whose signature was right."""

    at: datetime
    notification: Notification
    body: str


class Order(msgspec.Struct):
    reference: str
    article: Article
    trx_id: str
    payment_url: str
    made_at: datetime
    news: list[News]

    @property
    def status(self) -> str:
        return self.news[-1].notification.status if self.news else "pending"


class Counter:
    """Keeps the last orders in memory: it is a shop for show."""

    def __init__(self, base_url: str, keys: NewCredentials) -> None:
        self._base_url = base_url
        self._keys = keys
        self._client: AsyncClient | None = None
        self._orders: OrderedDict[str, Order] = OrderedDict()
        self._numbers = itertools.count(1)

    async def buy(self, article: Article) -> Order:
        reference = f"SHOP-{int(time.time())}-{next(self._numbers)}"
        here = f"{self._base_url}/shop"
        session = await self._api().initiate_payment(
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
        order = Order(
            reference, article, session.trx_id, session.payment_url, datetime.now(UTC), []
        )
        self._orders[reference] = order
        if len(self._orders) > ORDERS_MAX:
            self._orders.popitem(last=False)
        return order

    def hear(self, body: bytes, headers: Mapping[str, str]) -> None:
        """Raises BadNotification where it is not Manilla's."""
        notification = verify_ipn(body, headers, self._keys.api_secret)
        order = self._orders.get(notification.ref_trx or "")
        if order is None:
            return
        known = {each.notification.handled_once_by for each in order.news}
        if notification.handled_once_by not in known:
            order.news.append(News(datetime.now(UTC), notification, body.decode()))

    def order(self, reference: str) -> Order | None:
        return self._orders.get(reference)

    def latest(self, number: int) -> list[Order]:
        return list(reversed(self._orders.values()))[:number]

    def income(self) -> Decimal:
        paid = (order for order in self._orders.values() if order.status == "completed")
        return sum((order.article.price.amount for order in paid), Decimal(0))

    def _api(self) -> AsyncClient:
        """Made when it is first needed: its threads are none of those who never buy."""
        if self._client is None:
            keys = self._keys
            credentials = Credentials(keys.merchant_key, keys.api_key, keys.api_secret)
            self._client = AsyncClient(self._base_url, credentials)
        return self._client
