"""A merchant who pays out, and what tests want to know of it."""

import itertools
import json
import time
from typing import Any

import msgspec

from manilla.kit.money import Money
from manilla.merchants import merchants, wallets
from manilla.merchants.merchants import Change
from manilla.payouts import queries
from manilla.payouts.payout import Payout
from manilla.services import Services
from tests.client import Merchant, Reply
from tests.simulated import World

INITIATE, VERIFY = "/api/v1/initiate-payout", "/api/v1/verify-payout/"
RAILS = {
    "a": "providera_ngn_transfer",
    "b": "providerb_ngn_transfer",
    "c": "providerc_ngn_transfer",
}
BANKS = {"a": "058", "b": "000013", "c": "C058"}
MANUAL = "platform"
ACCOUNT = "0123456789"

_numbers = itertools.count(time.time_ns())


class Desk:
    def __init__(self, services: Services, world: World, merchant: Merchant) -> None:
        self.services = services
        self.world = world
        self.merchant = merchant

    def elsewhere(self) -> "Desk":
        """The same merchant, calling from another address: with a rate limit of its own."""
        site = self.merchant.site.elsewhere()
        return Desk(self.services, self.world, msgspec.structs.replace(self.merchant, site=site))

    async def method_id(self, rail: str = "a") -> int:
        code = RAILS.get(rail, rail)
        method_id: int = await self.services.db.value("SELECT id FROM method WHERE code = $1", code)
        return method_id

    async def order(self, rail: str = "a", **changed: Any) -> dict[str, Any]:
        """A good order; a field that is changed to None is left out."""
        beneficiary = {"bank_code": BANKS.get(rail), "account_number": ACCOUNT}
        if rail == MANUAL:
            beneficiary = {"Bank Name": "GTBank", "Account Number": ACCOUNT}
        fields = {
            "payout_amount": 1000,
            "currency_code": "NGN",
            "ref_trx": f"PAYOUT-{next(_numbers)}",
            "ipn_url": "https://shop.example/ipn",
            "withdraw_method_id": await self.method_id(rail),
            "beneficiary": beneficiary,
            **changed,
        }
        return {name: value for name, value in fields.items() if value is not None}

    async def ask(self, rail: str = "a", **changed: Any) -> Reply:
        return await self.merchant.post(INITIATE, await self.order(rail, **changed))

    async def pay_out(self, rail: str = "a", **changed: Any) -> str:
        reply = await self.ask(rail, **changed)
        assert reply.status == 200, reply.body
        trx_id: str = reply.json["trx_id"]
        return trx_id

    async def fund(self, amount: str) -> None:
        wallet = self.merchant.new.id, self.merchant.environment
        money = Money.of(amount, "NGN")
        await wallets.fund(self.services.db, *wallet, money, "for a test")

    async def change(self, wanted: Change) -> None:
        """Seen by the site at once: tests do not wait for the watch."""
        db, keyring = self.services.db, self.services.keyring
        await merchants.change(db, keyring, self.merchant.new.id, wanted)
        await self.services.directory._refresh(0)

    async def verify(self, trx_id: str) -> Reply:
        return await self.merchant.get(VERIFY + trx_id)

    async def payout(self, trx_id: str) -> Payout:
        found = await queries.payout(self.services.db, self.merchant.new.id, trx_id)
        assert found is not None
        return found

    async def until(self, trx_id: str, status: str) -> None:
        async def is_so() -> bool:
            return (await self.payout(trx_id)).status == status

        await self.world.until(is_so)

    async def check_now(self, trx_id: str) -> None:
        await self.world.run_job_now("transfer", trx_id)

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

    async def notifications(self, trx_id: str) -> list[dict[str, Any]]:
        records = await self.services.db.records(
            "SELECT body FROM notification WHERE merchant_id = $1 AND trx_id = $2 ORDER BY id",
            self.merchant.new.id,
            trx_id,
        )
        return [json.loads(record["body"]) for record in records]

    async def cases(self) -> list[tuple[str, str]]:
        records = await self.services.db.records(
            "SELECT kind, reference FROM operator_case WHERE merchant_id = $1 ORDER BY id",
            self.merchant.new.id,
        )
        return [(record["kind"], record["reference"]) for record in records]

    async def transfers(self, rail: str = "a") -> list[Any]:
        """What the simulated provider knows of."""
        listed: list[Any] = (await self.world.read(f"{rail}/transfers"))["transfers"]
        return listed
