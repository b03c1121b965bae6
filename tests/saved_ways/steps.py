"""What tests do with saved ways: customers who save a card, and charges of the card."""

import itertools
import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

from manilla.customers import store as customers
from manilla.kit.money import Money
from manilla.kit.ratelimit import RateTicket
from manilla.ledger import invariants
from manilla.ledger.idempotency import without_key
from manilla.ledger.scope import Tenant
from manilla.merchants.directory import Caller
from manilla.payments import store as payments
from manilla.payments.initiate import PaymentOrder
from manilla.payments.payment import Charge, Payment
from manilla.saved_ways import store
from manilla.saved_ways.mandates import MandateTerms
from manilla.saved_ways.way import SavedWay
from tests.payments.orders import new_reference
from tests.payments.orders import order as payment_order
from tests.payments.shop import Shop, Started
from tests.support.client import Reply
from tests.support.invariants import ALL

_numbers = itertools.count(time.time_ns())


class Lender:
    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self.db = shop.services.db
        self.merchant = shop.merchant

    async def customer(self, **changed: Any) -> str:
        """Creates a customer and returns the reference."""
        reference = f"C-{next(_numbers)}"
        body = {
            "reference": reference,
            "name": "Ada Obi",
            "email": "ada@example.com",
            "phone": "+2348012345678",
            **changed,
        }
        reply = await self.merchant.post("/api/v1/customers", body)
        assert reply.status == 200, reply.body
        return str(body["reference"])

    async def start(self, customer: str, **changed: Any) -> Started:
        return await self.shop.start(save_for=customer, **changed)

    async def choose(
        self,
        started: Started,
        method: str,
        *,
        save: bool | None = True,
        shown_in: str = "1",
        headers: Mapping[str, str] | None = None,
    ) -> Charge:
        """Chooses how to pay on checkout, with the checkbox to save the card on or off.

        `shown_in` is the language of the form, where "1" is English.
        """
        form = {"method": method, "seen": "0"}
        if save is not None:
            form["offers_saving"] = shown_in
        if save:
            form["save"] = "1"
        target = started.target.replace(started.trx_id, f"{started.trx_id}/choose")
        reply = await self.merchant.site.send(
            "POST",
            target,
            {"Content-Type": "application/x-www-form-urlencoded", **(headers or {})},
            urlencode(form).encode(),
        )
        assert reply.status == 303, reply.body
        charges = await payments.charges(self.db, self.merchant.new.id, started.trx_id)
        return charges[-1]

    async def save_card(self, customer: str, rail: str = "paystack") -> SavedWay:
        _, way = await self.save_card_of(customer, rail)
        return way

    async def save_card_of(
        self, customer: str, rail: str = "paystack", **changed: Any
    ) -> tuple[Started, SavedWay]:
        """Saves a card with a paid payment of the customer."""
        started = await self.start(customer, **changed)
        charge = await self.choose(started, f"{rail}-ngn")
        await self.shop.pay(charge)
        await self.shop.until(started, "success")
        way = await store.of_payment(self.db, self.merchant.new.id, started.trx_id)
        assert way is not None
        return started, way

    async def charge(self, customer: str, way_id: str, **changed: Any) -> Reply:
        key = changed.pop("key", None)
        scenario = changed.pop("scenario", None)
        body = {
            "way_id": way_id,
            "payment_amount": 500,
            "currency_code": "NGN",
            "ref_trx": new_reference(),
            "ipn_url": "https://shop.example/ipn",
            **changed,
        }
        headers = {"Idempotency_Key": key, "X_Sandbox_Scenario": scenario}
        given = {name: value for name, value in headers.items() if value is not None}
        target = f"/api/v1/customers/{customer}/charges"
        return await self.merchant.call("POST", target, json.dumps(body).encode(), **given)

    async def bank_answers(self, way: SavedWay, **outcome: Any) -> None:
        """Sets what the bank does with charges of the saved card."""
        assert way.payment_trx_id is not None
        payment = await self.payment(way.payment_trx_id)
        path = f"{way.provider}/charges/{payment.credited_charge}/card"
        await self.shop.simulator.control(path, outcome)

    async def payment(self, trx_id: str) -> Payment:
        found = await payments.payment(self.db, self.merchant.new.id, trx_id)
        assert found is not None
        return found

    async def charge_of(self, trx_id: str) -> Charge:
        [charge] = await payments.charges(self.db, self.merchant.new.id, trx_id)
        return charge

    async def now(self, way: SavedWay) -> SavedWay:
        found = await store.way(self.db, way.merchant_id, way.id)
        assert found is not None
        return found

    async def ways(self, customer: str) -> list[Any]:
        reply = await self.merchant.get(f"/api/v1/customers/{customer}/ways")
        assert reply.status == 200, reply.body
        data: list[Any] = reply.json["data"]
        return data

    async def until(self, trx_id: str, status: str) -> None:
        async def is_so() -> bool:
            return (await self.payment(trx_id)).status == status

        await self.shop.simulator.until(is_so)

    async def age(self, trx_id: str, hours: float) -> None:
        """Makes the payment and its charge older, and its jobs due."""
        await self.db.execute(
            "UPDATE charge SET created_at = created_at - make_interval(secs => $3)"
            " WHERE merchant_id = $1 AND trx_id = $2",
            *(self.merchant.new.id, trx_id, hours * 3600),
        )
        await self.due(trx_id)

    async def due(self, trx_id: str) -> None:
        await self.db.execute(
            "UPDATE job SET due_at = now(), lease = NULL, leased_until = NULL"
            " WHERE merchant_id = $1 AND starts_with(subject, $2)",
            *(self.merchant.new.id, trx_id),
        )

    async def requests(self, rail: str, path: str) -> list[Any]:
        """Returns the requests to this path of the simulated provider."""
        listed = await self.shop.simulator.read(f"{rail}/requests?limit=1000")
        return [each for each in listed["requests"] if path in each["path"]]

    async def notices(self, trx_id: str) -> list[Any]:
        return await self.shop.notifications(Started(trx_id, "", {}))

    def order(self, customer: str, ref_trx: str) -> PaymentOrder:
        return PaymentOrder(
            payment_amount=Decimal(500),
            currency_code="NGN",
            ref_trx=ref_trx,
            ipn_url="https://shop.example/ipn",
            customer_reference=customer,
        )

    def body(self, **changed: Any) -> dict[str, Any]:
        return payment_order(**changed)

    @property
    def tenant(self) -> Tenant:
        return Tenant(self.merchant.new.id, self.merchant.environment)

    async def create_mandate(self, caller: Caller, customer: str) -> SavedWay:
        """Creates a mandate without the API, whose server must survive a simulated crash."""
        found = await customers.of_tenant(self.db, self.tenant, customer)
        terms = MandateTerms(
            amount=Money.of("1000", "NGN"),
            bank_code="058",
            account_number="0123456789",
            customer_address="12 Allen Avenue, Ikeja",
            description="Loan 17",
            ends_at=datetime.now(UTC) + timedelta(days=90),
            redirect_url="https://lender.example/loans/17",
        )
        mandates = self.shop.services.mandates
        return await mandates.create(caller, found, terms, without_key)

    def ticket(self) -> RateTicket:
        return RateTicket(f"test:{next(_numbers)}", 1000)

    async def faults(self, rail: str, *planned: dict[str, Any], **others: Any) -> None:
        """Makes the next calls of saved ways at the simulated provider fail."""
        next_ = [{"call": "charge_again", **each} for each in planned]
        await self.shop.simulator.control(f"{rail}/faults", {"next": next_, **others})

    async def broken_rules(self) -> list[tuple[str, list[Any]]]:
        found = await invariants.check(self.db, ALL)
        return [(each.name, each.examples) for each in found if each.count]
