"""What tests do with splits: receivers, paid payments, refunds, and everybody's money."""

from typing import Any

import asyncpg

from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.ledger import invariants, posting
from manilla.ledger.scope import Tenant
from manilla.merchants import merchants, wallets
from manilla.merchants.merchants import MerchantStatus
from manilla.refunds import initiate
from manilla.refunds.refund import Refund
from manilla.splits import service, store
from manilla.splits.share import Share
from tests.disputes.steps import Paid
from tests.payments.orders import INITIATE, order
from tests.payments.shop import Shop, Started
from tests.support.client import Reply
from tests.support.invariants import ALL

SPLITS = "/api/v1/splits"


def percent(receiver: int | str, share: float, **terms: Any) -> dict[str, Any]:
    return _receiver(receiver) | {"percent": share} | terms


def fixed(receiver: int | str, amount: float) -> dict[str, Any]:
    return _receiver(receiver) | {"fixed": amount}


def _receiver(receiver: int | str) -> dict[str, Any]:
    return {"merchant_id" if isinstance(receiver, int) else "sub_account": receiver}


class Splits:
    def __init__(self, shop: Shop, owner_url: str = "") -> None:
        self.shop = shop
        self._owner_url = owner_url  # of the database, for what the application cannot change
        self.db = shop.services.db

    @property
    def tenant(self) -> Tenant:
        return Tenant(self.shop.merchant.new.id, self.shop.merchant.environment)

    @property
    def owner(self) -> int:
        return self.tenant.merchant_id

    async def receiver(self, name: str = "Bako Foods") -> int:
        """Returns a merchant that consents to receive shares of the owner's payments."""
        receiver_id = await self.stranger(name)
        await service.invite(self.db, self.owner, receiver_id)
        await service.answer(self.db, receiver_id, self.owner, accepts=True)
        return receiver_id

    async def stranger(self, name: str = "Chidi Gas") -> int:
        new = await merchants.create(
            *(self.db, self.shop.services.keyring),
            name=name,
            email="receiver@example.com",
            status=MerchantStatus.APPROVED,
        )
        return new.id

    async def sub_account(self, name: str = "Branch Yaba") -> str:
        keyring = self.shop.services.keyring
        made = await service.create_sub_account(self.db, keyring, self.owner, name)
        return service.sub_account_id(made.merchant_id)

    async def initiate(self, split: Any, amount: float = 1000) -> Reply:
        body = order(payment_amount=amount, split=split)
        return await self.shop.merchant.post(INITIATE, body)

    async def errors(self, split: Any, amount: float = 1000) -> dict[str, str]:
        """Returns the errors of a payment whose split is rejected."""
        reply = await self.initiate(split, amount)
        assert (reply.status, reply.code) == (422, "split_invalid"), reply.body
        errors: dict[str, str] = reply.json["errors"]
        return errors

    async def pay(self, split: Any, amount: float = 1000) -> Paid:
        return await self.complete(await self.shop.start(payment_amount=amount, split=split))

    async def complete(self, started: Started) -> Paid:
        charge = await self.shop.choose(started, "providera-ngn")
        await self.shop.pay(charge)
        await self.shop.until(started, "success")
        return Paid(started, charge)

    async def refund(self, paid: Paid, amount: str | None = None) -> Refund:
        return await initiate.start(self.db, paid.started.trx_id, amount, "returned goods")

    async def shares(self, paid: Paid) -> list[Share]:
        return await store.shares_of(self.db, self.owner, paid.started.trx_id)

    async def balance(self, merchant: int | str | None = None) -> float:
        """Returns a wallet's balance, in naira."""
        return (await self._wallet(merchant))[0] / 100

    async def owed(self, merchant: int | str | None = None) -> float:
        return (await self._wallet(merchant))[1] / 100

    async def withheld(self, merchant: int | str | None = None) -> float:
        minor: int = await self.db.value(
            "SELECT coalesce(sum(amount_minor), 0)::bigint FROM entry"
            " WHERE merchant_id = $1 AND account = $2 AND environment = $3",
            *(self._number(merchant), posting.WITHHELD, self.tenant.environment),
        )
        return minor / 100

    async def _wallet(self, merchant: int | str | None) -> tuple[int, int]:
        found = await wallets.get(self.db, self._number(merchant), self.tenant.environment, "NGN")
        return found.balance_minor, found.short_minor

    def _number(self, merchant: int | str | None) -> int:
        return self.owner if merchant is None else int(str(merchant).removeprefix("SUB"))

    async def empty(self, merchant: int | str | None = None) -> None:
        """Takes the whole balance, as a settlement would."""
        minor, _ = await self._wallet(merchant)
        await self.add(merchant, -minor)

    async def add(self, merchant: int | str | None, minor: int) -> None:
        key = self.db, self._number(merchant), Environment(self.tenant.environment)
        await wallets.adjust(*key, Money("NGN", minor), "for a test")

    async def run(self, share: Share) -> None:
        await self.shop.simulator.run_job_now("split", share.trx_id)

    async def pass_days(self, share: Share, days: int) -> None:
        """Moves the share's time into the past, as the owner of the database."""
        owner = await asyncpg.connect(self._owner_url)
        try:
            await owner.execute(
                "UPDATE split SET hold_until = hold_until - make_interval(days => $3)"
                " WHERE merchant_id = $1 AND trx_id = $2",
                *(share.merchant_id, share.trx_id, days),
            )
        finally:
            await owner.close()

    async def events(self, merchant: int | str | None, trx_id: str) -> list[str]:
        records = await self.db.records(
            "SELECT type FROM notification WHERE merchant_id = $1 AND trx_id = $2"
            " AND event = 'split' ORDER BY id",
            *(self._number(merchant), trx_id),
        )
        return [record["type"].removeprefix("split.") for record in records]

    async def broken_rules(self) -> list[tuple[str, list[Any]]]:
        found = await invariants.check(self.db, ALL)
        return [(each.name, each.examples) for each in found if each.count]
