"""The steps of merchants and their customers, as real HTTP requests."""

import asyncio
import contextlib
import json
import time
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from typing import Any
from urllib.parse import urlencode, urlsplit

from tests.client import Reply
from tests.kinds import BY_RAIL
from tests.simulation.faults import DATABASE_ERRORS
from tests.simulation.model import Kind, Operation
from tests.simulation.plan import Step
from tests.simulation.teams import TeamSteps
from tests.simulation.world import (
    BANK,
    CODES,
    COMMISSION_PERCENT,
    LOST,
    Shop,
    World,
    decoded,
    minor_of,
)

PAYMENT, PAYOUT = "/api/v1/initiate-payment", "/api/v1/initiate-payout"
REFUND, LINKS = "/api/v1/initiate-refund", "/api/v1/payment-links"
VERIFY = {kind: f"/api/v1/verify-{kind}/" for kind in (Kind.PAYMENT, Kind.PAYOUT, Kind.REFUND)}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
RETRY_SECONDS = 0.25
TRIES = 24
DUPLICATE = "DUPLICATE_REFERENCE"
KEY_SECONDS = 23 * 3600  # an idempotency key is valid for at least this time


class MerchantSteps(TeamSteps):
    """Runs the steps of one merchant's lane."""

    async def run(self, step: Step) -> None:
        run: Callable[..., Any] = getattr(self, step.name)
        await run(step, **step.arguments)

    # Steps.

    async def pay(self, step: Step, amount: int, rail: str, outcome: str) -> None:
        fields = {
            "payment_amount": _major(amount),
            "success_redirect": "https://shop.example/thanks",
            "cancel_redirect": "https://shop.example/basket",
        }
        wanted = self._payment(self._reference(step), amount)
        reply = await self._initiate(step, PAYMENT, fields, wanted)
        if reply is not None and wanted.trx_id:
            await self._check_out(decoded(reply)["payment_url"], wanted, rail, outcome)

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
        await self._check_out(reply.location, wanted, rail, outcome)

    async def pay_out(self, step: Step, amount: int, method: str, account: str) -> None:
        beneficiary = {"bank_code": BANK[method], "account_number": account}
        if method == "manual":
            beneficiary = {"Bank Name": "GTBank", "Account Number": account}
        fields = {
            "payout_amount": _major(amount),
            "withdraw_method_id": self.world.methods[CODES[method]],
            "beneficiary": beneficiary,
        }
        wanted = self._payout(self._reference(step), amount, method)
        await self._initiate(step, PAYOUT, fields, wanted)

    async def refund(self, step: Step, back: int, percent: int) -> None:
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
            self._reference(step),
            debit=amount,
            credit=amount,
            amount=amount,
            can_be_queried=payment.can_be_queried,
            is_manual=payment.is_manual,
            has_notice=payment.has_notice,
        )
        fields = {"trx_id": payment.trx_id, "amount": _major(amount)}
        await self._initiate(step, REFUND, fields, wanted)

    async def repeat(self, step: Step, back: int) -> None:
        """Sends an earlier request again, with the same key and the same bytes."""
        if self.shop.requests:
            number = list(self.shop.requests)[-1 - back % len(self.shop.requests)]
            await self._send(number)
            self._count("repeat")

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

    async def rotate_keys(self, step: Step, overlap_minutes: int) -> None:
        words = ("--environment", "production", "--overlap-minutes", str(overlap_minutes))
        await rotate(self.world, self.shop, *words)
        self._count("rotate keys")

    # Requests.

    async def _initiate(
        self, step: Step, target: str, fields: dict[str, Any], wanted: Operation
    ) -> Reply | None:
        common = {"currency_code": "NGN", "ref_trx": wanted.reference}
        if target != REFUND:
            common["ipn_url"] = f"{self.world.receiver.url}/{self.shop.id}"
        else:
            del common["currency_code"]
        number = step.round * 10_000 + step.number
        body = json.dumps({**common, **fields}).encode()
        self.shop.requests[number] = (target, body, wanted)
        self.shop.sent_at[number] = time.time()
        reply = await self._send(number)
        self._count(str(wanted.kind))
        return reply

    async def _send(self, number: int, tries: int = TRIES) -> Reply | None:
        """Sends a request until its outcome is known, always with the same key.

        The key makes a rejection conclusive, even after requests whose outcome was unknown.
        """
        target, body, wanted = self.shop.requests[number]
        wanted = self.world.model.request(wanted)
        self.shop.unknown.add(number)
        for _ in range(tries):
            key = f"{wanted.kind}-{number}"
            reply = await self.world.call(self.shop, "POST", target, body, key=key)
            # The response 401 means that the keys were rotated while the request was under way.
            if reply is None or reply.status >= 500 or reply.status in (401, 429):
                self.world.outcomes["unknown, so the request was repeated"] += 1
                await asyncio.sleep(RETRY_SECONDS)
                continue
            self.shop.unknown.discard(number)
            if reply.status == 200:
                self._accept(wanted, reply)
                return reply
            if reply.code == DUPLICATE and await self._has_expired(number, wanted):
                return None
            self._note(self.world.model.reject(wanted))
            self.world.outcomes[f"rejected: {reply.code}"] += 1
            self.shop.requests.pop(number)
            return None
        return None

    async def _has_expired(self, number: int, wanted: Operation) -> bool:
        """Whether the key has expired. The reference then shows that the request was accepted."""
        if time.time() - self.shop.sent_at[number] < KEY_SECONDS:
            return False
        with contextlib.suppress(*DATABASE_ERRORS):
            trx_id = await self.world.live.db.value(
                f"SELECT trx_id FROM {wanted.kind} WHERE merchant_id = $1 AND ref_trx = $2",
                *(self.shop.id, wanted.reference),
            )
            self._note(self.world.model.accept(wanted, trx_id))
            return True
        self.shop.unknown.add(number)
        return True

    async def resolve_unknown(self) -> None:
        """Repeats the requests whose outcome is unknown, when the faults have ended."""
        for number in sorted(self.shop.unknown):
            await self._send(number, tries=1)

    def _accept(self, wanted: Operation, reply: Reply) -> None:
        answer = decoded(reply)
        trx_id = reply.headers["x-transaction-id"].upper()
        self._note(self.world.model.accept(wanted, trx_id))
        if wanted.kind is Kind.PAYOUT:
            payable = minor_of(answer["info"]["payable_amount"])
            if payable != wanted.debit:
                self._note(f"{trx_id} debits {payable} instead of {wanted.debit}")

    # Customers.

    def _payment(self, reference: str, amount: int) -> Operation:
        percent = COMMISSION_PERCENT if self.shop.pays_commission else Decimal(0)
        commission = int((amount * percent / 100).quantize(Decimal(1), ROUND_HALF_UP))
        credit = amount - commission
        return Operation(self.shop.id, Kind.PAYMENT, reference, credit=credit, amount=amount)

    async def _check_out(self, url: str, wanted: Operation, rail: str, outcome: str) -> None:
        """The customer chooses a gateway on checkout, and pays or declines at the provider."""
        if outcome == "abandoned":
            return
        parts = urlsplit(url)
        target = f"{parts.path}/choose?{parts.query}"
        kind = BY_RAIL[rail]
        body = urlencode({"method": kind.checkout_method}).encode()
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
            if outcome == "success":
                self.world.model.pay(wanted)
            command = {"outcome": outcome}
            await self.world.control(f"{rail}/charges/{reference}/pay", command)
            self._count(f"customer: {outcome}")
        except LOST:
            return


async def read_balance(world: World, shop: Shop) -> None:
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


async def rotate(world: World, shop: Shop, *words: str) -> None:
    new = await world.try_command("merchant", "rotate", str(shop.id), *words)
    if new is not None:
        shop.main_keys.api_key, shop.main_keys.api_secret = new["api_key"], new["api_secret"]
        world.receiver.secrets[shop.id].add(new["api_secret"])


def _major(minor: int) -> float:
    return minor / 100
