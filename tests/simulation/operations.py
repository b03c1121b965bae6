"""The steps of merchants and their customers, as real HTTP requests."""

import asyncio
import json
import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode, urlsplit

from tests.simulation import prices
from tests.simulation.facts import Kind, Operation
from tests.simulation.plan import Step
from tests.simulation.prices import CARD, Price, Terms
from tests.simulation.shops import (
    BANK,
    CODES,
    COMMISSION_PERCENT,
    FEES,
    LOST,
    MerchantWorld,
    Shop,
    decoded,
    minor_of,
)
from tests.support.client import Reply
from tests.support.kinds import BY_RAIL

PAYMENT, PAYOUT = "/api/v1/initiate-payment", "/api/v1/initiate-payout"
REFUND, LINKS = "/api/v1/initiate-refund", "/api/v1/payment-links"
VERIFY = {kind: f"/api/v1/verify-{kind}/" for kind in (Kind.PAYMENT, Kind.PAYOUT, Kind.REFUND)}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
RETRY_SECONDS = 0.25
COMMISSION = Terms(str(COMMISSION_PERCENT))
HOSTED = "hosted"  # how all customers pay whose payments succeed
DELIVERED = "0123456789"  # The simulator delivers transfers to this account.
OVERDRAFT_MAX = 100_000_000


class MerchantSteps:
    """Runs the steps of one merchant and its customers."""

    tries = 24  # how often a request with an unknown outcome is repeated at once

    def __init__(self, world: MerchantWorld, shop: Shop) -> None:
        self.world = world
        self.shop = shop

    async def run(self, step: Step) -> None:
        run: Callable[..., Any] = getattr(self, step.name)
        await run(step, **step.arguments)

    # Steps.

    async def pay(self, step: Step, amount: int, rail: str, outcome: str) -> None:
        wanted = self._payment(self._reference(step), amount)
        if url := await self._start_payment(wanted):
            await self._check_out(url, wanted, rail, outcome)

    async def pay_wrong_amount(self, step: Step, amount: int, rail: str, percent: int) -> None:
        """A customer transfers a wrong amount, which an administrator must decide on."""
        wanted = self._payment(self._reference(step), amount)
        if url := await self._start_payment(wanted):
            await self._check_out(url, wanted, rail, "success", percent)

    async def _start_payment(self, wanted: Operation, **more: Any) -> str | None:
        """Creates a payment, and returns its checkout link."""
        fields = {
            **more,
            "payment_amount": _major(wanted.amount),
            "success_redirect": "https://shop.example/thanks",
            "cancel_redirect": "https://shop.example/basket",
        }
        reply = await self._initiate(PAYMENT, fields, wanted)
        has_link = reply is not None and bool(wanted.trx_id)
        return str(decoded(reply)["payment_url"]) if reply is not None and has_link else None

    async def pay_by_link(self, step: Step, amount: int, rail: str, outcome: str) -> None:
        """A customer enters an amount on the page of the merchant's payment link, and pays."""
        if not self.shop.link:
            fields = {"title": "Market stall", "currency_code": "NGN"}
            reply = await self.world.call(self.shop, "POST", LINKS, json.dumps(fields).encode())
            if reply is None or reply.status != 200:
                return
            self._count("create link")
            self.shop.link = urlsplit(decoded(reply)["url"]).path
        fields = {"amount": f"{Decimal(amount) / 100:.2f}"}
        reply = await self.world.send("POST", self.shop.link, FORM, urlencode(fields).encode())
        if reply is None or reply.status != 303 or not reply.location.startswith("/checkout/"):
            return
        self._count("pay by link")
        wanted = self._payment(reply.location.partition("?")[0].rsplit("/", 1)[1], amount)
        wanted.has_notice = False
        self.world.model.request(wanted)
        self._note(self.world.model.accept(wanted, wanted.reference))
        # No response has the price, so the customer pays only if the price is certain.
        if len(self.world.prices.books) == 1:
            price = self.world.prices.books[0].price(*self._about_payment(wanted))
            self._note(self._check_payment(wanted, price))
            await self._check_out(reply.location, wanted, rail, outcome)

    async def pay_out(self, step: Step, amount: int, method: str, account: str) -> None:
        await self._pay_out(self._reference(step), amount, method, account)

    async def _pay_out(
        self, reference: str, amount: int, method: str, account: str, copies: int = 1
    ) -> None:
        beneficiary = {"bank_code": BANK[method], "account_number": account}
        if method == "manual":
            beneficiary = {"Bank Name": "GTBank", "Account Number": account}
        fields = {
            "payout_amount": _major(amount),
            "withdraw_method_id": self.world.methods[CODES[method]],
            "beneficiary": beneficiary,
        }
        await self._initiate(PAYOUT, fields, self._payout(reference, amount, method), copies)

    async def pay_out_at_once(self, step: Step, amounts: list[int], method: str) -> None:
        """Sends several payout requests at the same time, and each of them twice."""
        payouts = [
            self._pay_out(f"{self._reference(step)}-{number}", amount, method, DELIVERED, copies=2)
            for number, amount in enumerate(amounts)
        ]
        await asyncio.gather(*payouts)

    async def overdraw(self, step: Step) -> None:
        """Sends three payout requests at the same time, although the balance covers only one."""
        reply = await self.world.call(self.shop, "GET", "/api/v1/balance")
        if reply is None or reply.status != 200:
            return
        amount = min(balance_of(reply)[0] * 6 // 10, OVERDRAFT_MAX)
        references = [f"{self._reference(step)}-{number}" for number in range(3)]
        payouts = [self._pay_out(each, amount, "manual", DELIVERED) for each in references]
        await asyncio.gather(*payouts)

    async def refund_at_once(self, step: Step, back: int) -> None:
        """Sends three refund requests for 60 percent of a payment at the same time."""
        references = [f"{self._reference(step)}-{number}" for number in range(3)]
        await asyncio.gather(*(self._refund(each, back, 60) for each in references))

    async def refund(self, step: Step, back: int, percent: int) -> None:
        await self._refund(self._reference(step), back, percent)

    async def _refund(self, reference: str, back: int, percent: int) -> None:
        """Refunds a part of an earlier successful payment."""
        paid = [
            each
            for each in self.world.model.operations.values()
            if (each.merchant, each.kind, each.status) == (self.shop.id, Kind.PAYMENT, "success")
        ]
        if not paid:
            return
        payment = paid[-1 - back % len(paid)]
        amount = payment.amount * percent // 100
        wanted = Operation(
            self.shop.id,
            Kind.REFUND,
            reference,
            debit=amount,
            credit=amount,
            amount=amount,
            can_be_queried=payment.can_be_queried,
            is_manual=payment.is_manual,
            has_notice=payment.has_notice,
            payment=payment,
        )
        fields = {"trx_id": payment.trx_id, "amount": _major(amount)}
        await self._initiate(REFUND, fields, wanted)

    async def repeat(self, step: Step, back: int, copies: int = 1) -> None:
        """Sends an earlier request again, with the same key and the same bytes."""
        if keys := self.repeatable():
            await self._send(keys[-1 - back % len(keys)], copies=copies)
            self._count("repeat")

    def repeatable(self) -> list[str]:
        """Returns the idempotency keys of the requests that `repeat` may send again."""
        return list(self.shop.requests)

    async def verify(self, step: Step, back: int) -> None:
        found = [each for _, _, each in self.shop.requests.values() if each.trx_id]
        if found:
            operation = found[-1 - back % len(found)]
            target = VERIFY[operation.kind] + operation.trx_id
            reply = await self.world.call(self.shop, "GET", target)
            if reply is not None and reply.status == 404:
                self._note(f"the API does not know {operation.trx_id}, which it accepted")
            if reply is not None and reply.status == 200:
                self._note(self.world.model.see(operation, decoded(reply)["status"]))
                self.world.checks["status during faults"] += 1
            self._count("verify")

    async def read_balance(self, step: Step) -> None:
        await read_balance(self.world, self.shop)
        self._count("read balance")

    async def wrong_clock(self, step: Step, skew_seconds: int) -> None:
        """Sends a payout request that was signed with a wrong time, and must be rejected."""
        body = json.dumps({"payout_amount": 100}).encode()
        reply = await self.world.call(self.shop, "POST", PAYOUT, body, skew=skew_seconds)
        if reply is not None and reply.status == 200:
            self._note("a request with a wrong timestamp was accepted")
        self._count("wrong clock")

    # Requests.

    async def _initiate(
        self, target: str, fields: dict[str, Any], wanted: Operation, copies: int = 1
    ) -> Reply | None:
        common = {"currency_code": "NGN", "ref_trx": wanted.reference}
        if target != REFUND:
            common["ipn_url"] = f"{self.world.receiver.url}/{self.shop.id}"
        else:
            del common["currency_code"]
        body = json.dumps({**common, **fields}).encode()
        key = f"{wanted.kind}-{wanted.reference}"
        self.shop.requests[key] = (target, body, wanted)
        self.shop.sent_at[key] = time.time()
        reply = await self._send(key, copies=copies)
        self._count(str(wanted.kind))
        return reply

    async def _send(self, key: str, tries: int = 0, copies: int = 1) -> Reply | None:
        """Sends a request until its outcome is known, always with the same key.

        The key makes a rejection conclusive, even after requests whose outcome was unknown. With
        several copies, the same request is sent several times at the same time.
        """
        target, body, wanted = self.shop.requests[key]
        wanted = self.world.model.request(wanted)
        self.shop.unknown.add(key)
        for _ in range(tries or self.tries):
            calls = [self.world.call(self.shop, "POST", target, body, key) for _ in range(copies)]
            replies = await asyncio.gather(*calls)
            accepted = [reply for reply in replies if reply is not None and reply.status == 200]
            for reply in accepted:
                self._accept(wanted, reply)
            if accepted:
                self.shop.unknown.discard(key)
                return accepted[0]
            known = [reply for reply in replies if reply is not None and _is_conclusive(reply)]
            if len(known) < copies:
                self.world.outcomes["unknown, so the request was repeated"] += 1
                await asyncio.sleep(RETRY_SECONDS)
                continue
            await self._reject(key, wanted, known[0])
            return None
        return None

    async def _reject(self, key: str, wanted: Operation, reply: Reply) -> None:
        self.shop.unknown.discard(key)
        self._note(self.world.model.reject(wanted))
        self.world.outcomes[f"rejected: {reply.code}"] += 1
        self.shop.requests.pop(key)

    async def resolve_unknown(self) -> None:
        """Repeats the requests whose outcome is unknown, when the faults have ended."""
        for key in sorted(self.shop.unknown):
            await self._send(key, tries=1)

    def _accept(self, wanted: Operation, reply: Reply) -> None:
        answer = decoded(reply)
        trx_id = reply.headers["x-transaction-id"].upper()
        self._note(self.world.model.accept(wanted, trx_id))
        if wanted.kind is Kind.PAYOUT:
            info = answer["info"]
            price = Price.of_response(info, "fee")
            self._note(self._check_payout(wanted, price, minor_of(info["payable_amount"])))
        elif wanted.kind is Kind.PAYMENT:
            info = answer["info"]
            price = Price.of_response(info, "commission_fee")
            self._note(self._check_payment(wanted, price, minor_of(info["customer_pays"])))

    def _check_payout(
        self, payout: Operation, price: Price, payable: int, direction: str = prices.PAYOUT
    ) -> str | None:
        """Takes the price from the response, because an administrator can change it at any time."""
        if payout.price is None:
            about = (payout.merchant, direction, payout.amount, "merchant")
            expected = {
                book.price(*about, Terms("0", fee))
                for book in self.world.prices.books
                for fee in FEES[payout.method]
            }
            if price not in expected:
                return f"{payout.trx_id} of {payout.amount} costs {price}, expected {expected}"
            payout.price = price
            self._count_price()
        debit = payout.amount + price.fee + price.added("merchant")
        if (price, debit) != (payout.price, payable):
            return f"{payout.trx_id} debits {payable} with {price}, expected {payout.price}"
        payout.debit, payout.credit = debit, debit - price.kept
        return None

    def _check_payment(
        self, payment: Operation, price: Price, payable: int | None = None
    ) -> str | None:
        """Takes the price of the payment's creation, and what the customer's way to pay costs."""
        about = self._about_payment(payment)
        if payment.price is None:
            way = CARD if payment.is_again else ""
            books = list(self.world.prices.matching(price, *about, way))
            if not books:
                expected = {book.price(*about, way) for book in self.world.prices.books}
                return f"{payment.trx_id} of {payment.amount} costs {price}, expected {expected}"
            payment.price = price
            self._count_price()
            if self.shop.pays_commission and not payment.is_again:
                way = HOSTED
            [paid] = {book.price(*about, way) for book in books}
            borne = paid.fee if self.shop.pays_commission else 0
            payment.credit = payment.amount - borne - paid.added("merchant")
        borne = 0 if self.shop.pays_commission else price.fee
        pays = payment.amount + borne + price.added("customer")
        if price != payment.price or payable not in (None, pays):
            return f"{payment.trx_id} costs the customer {payable} with {price}, expected {pays}"
        return None

    def _about_payment(self, payment: Operation) -> tuple[int, str, int, str, Terms]:
        payer = "merchant" if self.shop.pays_commission else "customer"
        return payment.merchant, prices.PAYMENT, payment.amount, payer, COMMISSION

    def _count_price(self) -> None:
        if self.world.prices.have_changed:
            is_certain = len(self.world.prices.books) == 1
            self.world.checks["price" if is_certain else "price while prices change"] += 1

    # Customers.

    def _payment(self, reference: str, amount: int) -> Operation:
        return Operation(self.shop.id, Kind.PAYMENT, reference, credit=amount, amount=amount)

    async def _check_out(
        self,
        url: str,
        wanted: Operation,
        rail: str,
        outcome: str,
        percent: int = 100,
        *,
        saves_card: bool = False,
    ) -> None:
        """The customer chooses a gateway on checkout, and pays or declines at the provider.

        `percent`: the part of the amount that the customer transfers to the gateway's account.
        """
        if outcome == "abandoned":
            return
        parts = urlsplit(url)
        target = f"{parts.path}/choose?{parts.query}"
        kind = BY_RAIL[rail]
        method = kind.checkout_method if percent == 100 else kind.account_method
        form = {"method": method} | ({"offers_saving": "1", "save": "1"} if saves_card else {})
        body = urlencode(form).encode()
        reply = await self.world.send("POST", target, FORM, body)
        self._count("check out")
        if reply is None or reply.status != 303:
            return
        reference = f"{wanted.trx_id}-1"
        try:
            found = await self.world.control(f"{rail}/charges?reference={reference}")
            if not found["charges"]:
                return
            # An administrator pays the refunds of a provider that has no refunds.
            wanted.is_manual, wanted.can_be_queried = not kind.refunds, kind.queries_refunds
            wanted.rail = rail
            command = {"outcome": outcome}
            if percent != 100:
                expected = Decimal(found["charges"][0]["amount_expected"])
                command = {"amount": f"{expected * percent / 100:.2f}"}
            elif outcome == "success":
                self.world.model.pay(wanted)
            await self.world.control(f"{rail}/charges/{reference}/pay", command)
            self._count(f"customer: {outcome if percent == 100 else 'wrong amount'}")
        except LOST:
            return

    # Notes.

    def _payout(
        self, reference: str, amount: int, method: str, *, has_notice: bool = True
    ) -> Operation:
        debit = amount + amount // prices.MOST_PART + prices.MOST_FIXED
        return Operation(
            self.shop.id,
            Kind.PAYOUT,
            reference,
            debit=debit,
            credit=debit,
            amount=amount,
            method=method,
            is_manual=method == "manual",
            has_notice=has_notice,
        )

    def _reference(self, step: Step) -> str:
        return f"S-{step.round}-{step.number}"

    def _count(self, what: str) -> None:
        self.world.operations[what] += 1

    def _note(self, violation: str | None) -> None:
        if violation:
            self.world.violations.append(violation)


async def read_balance(world: MerchantWorld, shop: Shop) -> None:
    """Reads the balance through the API, and checks that the model can explain it."""
    bounds = world.model.begin_reading(shop.id)
    reply = await world.call(shop, "GET", "/api/v1/balance")
    if reply is None or reply.status != 200:
        world.model.end_reading(bounds)
        return
    available, _ = balance_of(reply)
    world.checks["balance during faults"] += 1
    violation = world.model.explain(shop.id, bounds, available)
    if violation:
        world.violations.append(violation)


def balance_of(reply: Reply) -> tuple[int, int]:
    [wallet] = decoded(reply)["balances"]
    return minor_of(wallet["available"]), minor_of(wallet["in_flight"])


def debts_of(reply: Reply) -> tuple[int, int] | None:
    """Returns what disputes withhold and what the merchant owes, or None in an old response."""
    [wallet] = decoded(reply)["balances"]
    if "short" not in wallet:
        return None
    return minor_of(wallet["withheld"]), minor_of(wallet["short"])


def _is_conclusive(reply: Reply) -> bool:
    """Whether a rejection is final. The status 401 means that the keys were just rotated."""
    return reply.status < 500 and reply.status not in (401, 429)


def _major(minor: int) -> float:
    return minor / 100
