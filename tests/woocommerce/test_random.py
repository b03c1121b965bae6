"""Random customers, staff, events and lost answers, and what is true of every order afterwards.

`MANILLA_SHOP_SEED=7` repeats one story.
"""

import asyncio
import os
import random
from collections import Counter
from collections.abc import Awaitable
from decimal import Decimal
from typing import Any

import pytest

from tests.woocommerce.shop import WooShop

pytestmark = pytest.mark.long

ORDERS = 3
ROUNDS = 30
FAULTS = ("lost", "unsent", "die", "die_after_write")
SEEDS = [int(os.environ["MANILLA_SHOP_SEED"])] if "MANILLA_SHOP_SEED" in os.environ else range(6)


class Story:
    """Runs random actions at the same time, and knows which refunds somebody has asked for."""

    def __init__(self, shop: WooShop, seed: int) -> None:
        self.shop = shop
        self.random = random.Random(seed)
        self.wanted: dict[str, int] = {}  # the order of each refund; each has its own amount
        self.answered: set[str] = set()  # the shop's staff know that these were accepted
        self.dashboard: set[str] = set()
        self._cents = 100

    def _fault(self) -> dict[str, int]:
        if self.random.random() < 0.6:
            return {}
        return {self.random.choice(FAULTS): self.random.randint(1, 5)}

    def new_amount(self) -> str:
        self._cents += 1
        return f"{self._cents / 100:.2f}"

    async def run(self) -> None:
        for number in range(1, ORDERS + 1):
            await self.shop.order(number)
        for _ in range(ROUNDS):
            actions = [await self.action() for _ in range(self.random.randint(1, 4))]
            await asyncio.gather(*actions)
            if self.random.random() < 0.2:
                await self.shop.skip(self.random.choice([60, 400, 2000]))

    async def action(self) -> Awaitable[Any]:
        shop, order = self.shop, self.random.randint(1, ORDERS)
        doing = {
            "pay": 6,
            "return": 3,
            "cancel": 1,
            "may_cancel": 1,
            "reconcile": 2,
            "event": 5,
            "complete": 4,
            "expire": 1,
            "change": 1,
            "refund": 4,
            "dashboard": 1,
            "refund_extra": 1,
            "end_refunds": 2,
        }
        [do] = self.random.choices(list(doing), list(doing.values()))
        match do:
            case "event":
                events = await shop.events()
                if events:
                    return shop.notify(self.random.choice(events), fault=self._fault())
            case "complete" | "expire":
                found = [each for each in await self._payments() if each["status"] != "success"]
                if found:
                    act = shop.complete if do == "complete" else shop.expire
                    return act(self.random.choice(found)["trx_id"])
            case "change":
                return shop.ask("change", order, total=f"{self.random.randint(900, 950)}.00")
            case "refund":
                return self._refund(order)
            case "dashboard":
                return self._refund_in_dashboard()
            case "refund_extra":
                return self._refund_extra()
            case "end_refunds":
                return shop.end_refunds()
            case _:
                return shop.ask(do, order, fault=self._fault())
        return asyncio.sleep(0)

    async def _payments(self) -> list[dict[str, Any]]:
        return await self.shop.every("/api/v1/payments")

    async def _refund(self, order: int) -> None:
        """Asks for a refund, or again for one whose result nobody knows."""
        shown = [r for r in (await self.shop.show())["records"] if r["order_id"] == order]
        seen = {f"{Decimal(each['amount']):.2f}" for each in shown}
        open_amounts = [
            amount
            for amount, its_order in self.wanted.items()
            if its_order == order and amount not in self.answered | seen
        ]
        amount = self.random.choice([self.new_amount(), *open_amounts])
        self.wanted[amount] = order
        fault = self._fault()
        asked = await self.shop.ask("refund", order, amount=amount, seen=len(shown), fault=fault)
        if isinstance(asked, str):
            self.answered.add(amount)

    async def _refund_in_dashboard(self) -> None:
        found = [each for each in await self._payments() if each["status"] == "success"]
        if found:
            amount = self.new_amount()
            self.dashboard.add(amount)
            await self.shop.refund_in_dashboard(self.random.choice(found)["trx_id"], amount)

    async def _refund_extra(self) -> None:
        for attempt in (await self.shop.show())["attempts"]:
            if attempt["state"] == "extra":
                order, trx_id = attempt["order_id"], attempt["trx_id"]
                await self.shop.ask("refund_extra", order, trx_id=trx_id, fault=self._fault())

    async def heal(self) -> None:
        """Nothing is lost any more, and time passes."""
        for _ in range(3):
            await self.shop.skip(90_000)
            await self.shop.ask("reconcile")
            await self.shop.end_refunds()

    async def check(self) -> None:
        shown = await self.shop.show()
        payments, refunds = await self._payments(), await self.shop.every("/api/v1/refunds")
        completing = {}
        for order in shown["orders"]:
            attempts = [each for each in shown["attempts"] if each["order_id"] == order["id"]]
            refs = {each["ref"] for each in attempts}
            successful = {
                each["trx_id"]
                for each in payments
                if each["ref_trx"] in refs and each["status"] == "success"
            }
            noted = {
                each["trx_id"]: each["state"]
                for each in attempts
                if each["state"] in ("paid", "extra")
            }
            assert set(noted) == successful, "the shop knows every successful payment"
            paid = [trx_id for trx_id, state in noted.items() if state == "paid"]
            assert len(paid) == min(1, len(successful)), "one payment pays the order"
            is_held = order["status"] == "on-hold"
            assert order["completed"] == (0 if is_held else len(paid)), "completed at most once"
            assert (order["status"] in ("processing", "on-hold")) == bool(paid)
            completing.update(dict.fromkeys(paid, order["id"]))
        assert all(each["ref_trx"] in {a["ref"] for a in shown["attempts"]} for each in payments)
        self._check_refunds(shown, refunds, completing)

    def _check_refunds(
        self, shown: dict[str, Any], refunds: list[dict[str, Any]], completing: dict[str, int]
    ) -> None:
        made = Counter((each["amount"], each["ref_trx"] is None) for each in refunds)
        for amount in self.wanted:
            count = made[(float(amount), False)]
            assert count <= 1, f"{amount} was refunded {count} times"
            assert count == 1 or amount not in self.answered, f"{amount} was never refunded"
        assert all(made[(float(amount), True)] == 1 for amount in self.dashboard)
        in_manilla = Counter(
            (completing[each["payment_trx_id"]], Decimal(str(each["amount"])))
            for each in refunds
            if each["payment_trx_id"] in completing and each["status"] != "failed"
        )
        in_shop = Counter((each["order_id"], Decimal(each["amount"])) for each in shown["records"])
        assert in_shop == in_manilla, "the shop has a record of every refund, and of no other"
        extra = Counter(
            each["payment_trx_id"]
            for each in refunds
            if each["payment_trx_id"] not in completing and each["ref_trx"] is not None
        )
        assert all(count == 1 for count in extra.values())


@pytest.mark.parametrize("seed", SEEDS)
async def test_the_promise_holds_whatever_is_lost(shop: WooShop, seed: int) -> None:
    story = Story(shop, seed)
    await story.run()
    await story.heal()
    await story.check()
