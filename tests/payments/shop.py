"""A merchant and its customers, and methods that read the merchant's payments."""

import json
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

import msgspec

from manilla.kit.money import Money
from manilla.merchants import merchants, wallets
from manilla.merchants.merchants import (
    CommissionBearer,
    MerchantUpdate,
    OverpaidRule,
    UnderpaidRule,
)
from manilla.payments import store
from manilla.payments.payment import Charge, Payment
from manilla.refunds.refund import RefundStatus
from manilla.refunds.store import refunds_of
from manilla.services import Services
from tests.payments.orders import INITIATE, VERIFY, order
from tests.support import kinds
from tests.support.client import Merchant, Reply
from tests.support.provider_simulator import ProviderSimulator

# Maps each active method of a new installation to its provider.
PROVIDERS = {method: rail for rail in kinds.SEEDED for method in kinds.BY_RAIL[rail].methods}
METHODS = tuple(PROVIDERS)

# With these rules, every payment with a wrong amount needs an administrator's decision.
HOLD = MerchantUpdate(overpaid=OverpaidRule.HOLD, underpaid=UnderpaidRule.HOLD)


class Started(msgspec.Struct, frozen=True):
    trx_id: str
    payment_url: str
    info: dict[str, Any]

    @property
    def target(self) -> str:
        parts = urlsplit(self.payment_url)
        return f"{parts.path}?{parts.query}"


class Shop:
    def __init__(
        self, services: Services, simulator: ProviderSimulator, merchant: Merchant
    ) -> None:
        self.services = services
        self.simulator = simulator
        self.merchant = merchant

    def from_new_ip(self) -> "Shop":
        """Returns the same merchant with a new IP address, which has a separate rate limit."""
        site = self.merchant.site.from_new_ip()
        return Shop(
            self.services, self.simulator, msgspec.structs.replace(self.merchant, site=site)
        )

    async def start(self, **changed: Any) -> Started:
        reply = await self.merchant.post(INITIATE, order(**changed))
        assert reply.status == 200, reply.body
        url = reply.json["payment_url"]
        return Started(urlsplit(url).path.rsplit("/", 1)[1], url, reply.json["info"])

    async def set_commission(self, percent: str, bearer: CommissionBearer) -> None:
        await self.change(
            MerchantUpdate(commission_percent=Decimal(percent), commission_bearer=bearer)
        )

    async def change(self, wanted: MerchantUpdate) -> None:
        """Changes the merchant and reloads the cache, so that the change applies immediately."""
        db, keyring = self.services.db, self.services.keyring
        await merchants.change(db, keyring, self.merchant.new.id, wanted)
        await self.services.directory._refresh(0)

    async def fund(self, amount: str) -> None:
        await wallets.fund(
            self.services.db,
            self.merchant.new.id,
            self.merchant.environment,
            Money.of(amount, "NGN"),
            "for a test",
        )

    async def choose(self, started: Started, method: str) -> Charge:
        return await self.services.checkout.choose(started.trx_id, method)

    async def pay(self, charge: Charge, **how: Any) -> None:
        await self.simulator.pay(charge.provider, charge.reference, **how)

    async def verify(self, started: Started) -> Reply:
        return await self.merchant.get(VERIFY + started.trx_id)

    async def status(self, started: Started) -> str:
        status: str = (await self.verify(started)).json["status"]
        return status

    async def until(self, started: Started, status: str) -> None:
        async def is_so() -> bool:
            return (await self.payment(started)).status == status

        await self.simulator.until(is_so)

    async def until_charge(self, charge: Charge, status: str) -> None:
        async def is_so() -> bool:
            return (await self.charge(charge)).status == status

        await self.simulator.until(is_so)

    async def until_refunded(self, started: Started) -> None:
        """Waits until the payment has at least one refund and all its refunds are completed."""

        async def is_so() -> bool:
            found = await refunds_of(self.services.db, self.merchant.new.id, started.trx_id)
            return bool(found) and all(each.status is RefundStatus.COMPLETED for each in found)

        await self.simulator.until(is_so)

    async def payment(self, started: Started) -> Payment:
        found = await store.payment(self.services.db, self.merchant.new.id, started.trx_id)
        assert found is not None
        return found

    async def charge(self, charge: Charge) -> Charge:
        found = await store.charge(self.services.db, charge.merchant_id, charge.reference)
        assert found is not None
        return found

    async def balance(self) -> int:
        minor: int = await self.services.db.value(
            """
            SELECT balance_minor FROM wallet
             WHERE merchant_id = $1 AND environment = $2 AND currency = 'NGN'""",
            self.merchant.new.id,
            self.merchant.environment,
        )
        return minor

    async def account(self, name: str) -> int:
        minor: int = await self.services.db.value(
            """
            SELECT coalesce(sum(amount_minor), 0)::bigint FROM entry
             WHERE merchant_id = $1 AND environment = $2 AND account = $3""",
            self.merchant.new.id,
            self.merchant.environment,
            name,
        )
        return minor

    async def notifications(self, started: Started) -> list[dict[str, Any]]:
        records = await self.services.db.records(
            "SELECT body FROM notification WHERE merchant_id = $1 AND trx_id = $2"
            " AND url <> '' ORDER BY id",
            self.merchant.new.id,
            started.trx_id,
        )
        return [json.loads(record["body"]) for record in records]

    async def cases(self) -> list[tuple[str, str]]:
        records = await self.services.db.records(
            "SELECT kind, reference FROM operator_case WHERE merchant_id = $1 ORDER BY id",
            self.merchant.new.id,
        )
        return [(record["kind"], record["reference"]) for record in records]
