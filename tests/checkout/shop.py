"""A shop that accepts payments through Manilla and the simulated providers."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import aiohttp
import msgspec

from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.merchants import merchants, wallets
from manilla.merchants.merchants import MerchantUpdate, NewMerchant
from manilla.payments import states, store
from manilla.payments.charges import GatewayUnavailable
from manilla.payments.checkout import SandboxOutcome
from manilla.payments.payment import Charge, Payment, PaymentErrorCode
from manilla.payments.states import PaymentEvent
from manilla.providers.health import FAILURES_TO_TRIP
from manilla.services import Services
from tests.payments.orders import INITIATE, LEGACY, order
from tests.payments.shop import HOLD
from tests.support.client import Merchant, Site, new_merchant
from tests.support.waiting import until

HOSTED, ACCOUNT = "providera-ngn", "providera_ngn_va"


class Checkout(msgspec.Struct, frozen=True):
    """A payment's checkout link, and the URLs of the checkout steps."""

    url: str

    @property
    def trx_id(self) -> str:
        return self.url.split("?")[0].rsplit("/", 1)[1]

    def at(self, page: str) -> str:
        address, query = self.url.split("?")
        return f"{address}/{page}?{query}"

    @property
    def target(self) -> str:
        return self.url[self.url.index("/checkout/") :]


class Shop:
    def __init__(
        self, site: Site, services: Services, simulator: str, session: aiohttp.ClientSession
    ) -> None:
        self.site = site
        self.services = services
        self.simulator = simulator
        self._session = session
        self._merchants: dict[Environment, Merchant] = {}

    async def merchant(self, environment: Environment) -> Merchant:
        """Creates the merchant that most tests use. The merchant's customers pay the commission."""
        if environment not in self._merchants:
            self._merchants[environment] = await self.new_merchant(environment)
        return self._merchants[environment]

    async def new_merchant(self, environment: Environment = Environment.PRODUCTION) -> Merchant:
        db, keyring = self.services.db, self.services.keyring
        merchant = await new_merchant(self.site, db, keyring, environment=environment)
        await self.change(merchant.new, MerchantUpdate(commission_percent=Decimal("1.5")))
        await self.change(merchant.new, HOLD)
        return merchant

    async def change(self, merchant: NewMerchant, wanted: MerchantUpdate) -> None:
        await merchants.change(self.services.db, self.services.keyring, merchant.id, wanted)
        await self.services.watch.look()

    async def sell(self, merchant: Merchant | None = None, **changed: Any) -> Checkout:
        merchant = merchant or await self.merchant(Environment.PRODUCTION)
        reply = await merchant.post(INITIATE, order(**{"description": "Two sandals", **changed}))
        assert reply.status == 200, reply.body
        return Checkout(reply.json["payment_url"])

    async def sell_through_legacy_api(self) -> Checkout:
        """Creates a payment through the legacy API, which has no redirect URLs."""
        merchant = await self.merchant(Environment.SANDBOX)
        headers = {
            "Authorization": f"Bearer {merchant.credentials.api_key}",
            "X-Environment": "sandbox",
            "Content-Type": "application/json",
        }
        body = json.dumps(order(success_redirect=None, cancel_redirect=None)).encode()
        reply = await self.site.send("POST", LEGACY, headers, body)
        assert reply.status == 200, reply.body
        return Checkout(reply.json["payment_url"])

    async def sell_in_sandbox(self, **changed: Any) -> Checkout:
        return await self.sell(await self.merchant(Environment.SANDBOX), **changed)

    async def choose(self, checkout: Checkout, method: str) -> Charge:
        return await self.services.checkout.choose(checkout.trx_id, method)

    async def tries(self, checkout: Checkout) -> int:
        payment = await self.payment(checkout)
        return len(await store.charges(self.services.db, payment.merchant_id, checkout.trx_id))

    async def fund(self, merchant: Merchant) -> None:
        """Adds money to the wallet of a merchant that pays the commission itself."""
        wallet = Environment.PRODUCTION, Money.of("1000.00", "NGN")
        await wallets.fund(self.services.db, merchant.new.id, *wallet, reason="test")

    async def payment(self, checkout: Checkout) -> Payment:
        return (await self.services.checkout.view(checkout.trx_id)).payment

    async def pretend(self, checkout: Checkout, outcome: SandboxOutcome) -> None:
        await self.services.checkout.pretend(checkout.trx_id, outcome)

    async def expire(self, checkout: Checkout) -> None:
        payment = await self.payment(checkout)
        error = PaymentErrorCode.EXPIRED_SESSION
        await states.give_up(
            self.services.db, payment.merchant_id, payment.trx_id, PaymentEvent.EXPIRED, error
        )

    def link(self, checkout: Checkout, *, ends_in: timedelta) -> Checkout:
        """Returns a checkout link to the same payment with another expiry time."""
        return Checkout(self.services.links.url(checkout.trx_id, datetime.now(UTC) + ends_in))

    @contextlib.asynccontextmanager
    async def opening(self, checkout: Checkout) -> AsyncIterator[None]:
        """Makes another request wait for its new charge until the end of the `with` block."""
        await self.provider("a/faults", {"latency_seconds": 3})
        other = asyncio.create_task(self.choose(checkout, HOSTED))
        await until(lambda: self.tries(checkout))
        yield
        await self.provider("a/faults", {"latency_seconds": 0})
        await other

    async def provider(self, path: str, document: Any) -> None:
        """Sends a command to the simulator's control API."""
        url = f"{self.simulator}/control/api/{path}"
        async with self._session.post(url, json=document) as reply:
            assert reply.status == 200, await reply.text()

    async def trip(self, provider: str) -> None:
        """Causes enough failures to open the provider's circuit breaker."""
        await self.provider(f"{provider}/faults", {"outage": True})
        checkout = await self.sell()
        for _ in range(FAILURES_TO_TRIP):
            with contextlib.suppress(GatewayUnavailable):
                await self.choose(checkout, f"provider{provider}-ngn")

    async def pay(self, charge: Charge, **how: Any) -> None:
        """Pays the charge at the provider as the customer. The provider sends no webhook."""
        await self.provider(f"a/charges/{charge.reference}/pay", how)

    async def is_settled(self, checkout: Checkout) -> None:
        """Queries the charge's status and settles the payment, as the worker would."""
        await self.services.checkout.look_again(checkout.trx_id)
