"""The steps of merchants with customers: account numbers, transfers into them, and saved cards."""

import asyncio
import json
from decimal import Decimal
from typing import Any

from tests.simulation.disputes import DisputeSteps
from tests.simulation.facts import Operation
from tests.simulation.operations import COMMISSION
from tests.simulation.plan import CUSTOMERS as STEPS
from tests.simulation.plan import Step
from tests.simulation.prices import ACCOUNT, PAYMENT, Price
from tests.simulation.shops import LOST, Account, Card, decoded
from tests.simulation.world import World
from tests.support.kinds import BY_RAIL

CUSTOMERS = "/api/v1/customers"
BVN = "22222222222"
TRIES = 8
CHARGED = "CHARGE"  # how the references of charges of saved cards start
# The transfers into accounts that were received, credited or not.
RECEIVED = """
    SELECT trx_id, payer->>'name' AS payer, amount_minor, commission_minor AS fee_minor, price
      FROM payment WHERE account_id IS NOT NULL AND merchant_id = $1"""


class CustomerSteps(DisputeSteps):
    """Adds the customers of a merchant to its steps."""

    world: World

    async def run(self, step: Step) -> None:
        if step.name in STEPS:
            await self.world.upgrade()  # The previous release knows no customers.
        await super().run(step)

    # Accounts.

    async def open_account(self, step: Step, rail: str) -> None:
        if customer := await self._customer(step):
            target = f"{CUSTOMERS}/{customer}/accounts"
            fields = {
                "method_codes": [BY_RAIL[rail].account_method],
                "ipn_url": f"{self.world.receiver.url}/{self.shop.id}",
            }
            created = await self._insist(target, fields, f"account-{customer}")
            if created is not None:
                [account] = created["data"]
                self.shop.accounts.append(Account(rail, customer, account["id"]))
                self._count("open account")

    async def _customer(self, step: Step) -> str | None:
        """Creates a customer. Returns the reference, or None if the outcome is unknown."""
        reference = f"C-{step.round}-{step.number}"
        fields = {"name": "Ada Obi", "phone": "+2348012345678", "bvn": BVN, "reference": reference}
        email = f"c{step.round}.{step.number}.{self.shop.id}@example.com"
        created = await self._insist(CUSTOMERS, {**fields, "email": email})
        return None if created is None else reference

    async def _insist(self, target: str, fields: dict[str, Any], key: str = "") -> Any:
        """Repeats a request, which is harmless, until it is accepted or rejected."""
        body = json.dumps(fields).encode()
        for _ in range(TRIES):
            reply = await self.world.call(self.shop, "POST", target, body, key)
            if reply is not None and reply.status == 200:
                return decoded(reply)
            await asyncio.sleep(0.25)
        return None

    async def transfer(self, step: Step, back: int, amount: int, copies: int, rail: str) -> None:
        """A customer sends money to an account number, once or several times at once.

        `rail`: where the merchant opens its first account.
        """
        if not self.shop.accounts:
            await self.open_account(step, rail)
        account = await self._account(back)
        if account is None:
            return
        path = f"{account.rail}/accounts/{account.number}/transfer"
        sent = [
            self._transfer(path, account.rail, f"{self._payer(step)} {number}", amount)
            for number in range(copies)
        ]
        await asyncio.gather(*sent)
        self._count("customer: transfer")

    def _payer(self, step: Step) -> str:
        return f"Payer {self.shop.id} {step.round} {step.number}"

    async def _transfer(self, path: str, rail: str, payer: str, amount: int) -> None:
        wanted = self._payment(payer, amount)
        wanted.payer, wanted.rail = payer, rail
        kind = BY_RAIL[rail]
        wanted.is_manual, wanted.can_be_queried = not kind.refunds, kind.queries_refunds
        self.world.model.request(wanted)
        self.world.model.pay(wanted)
        self.world.transfers[payer] = wanted
        command = {"amount": f"{Decimal(amount) / 100:.2f}", "payer_name": payer}
        try:
            await self.world.control(path, command)
        except LOST:
            return  # At the quiet moment, the provider's list shows whether the money arrived.

    async def _account(self, back: int) -> Account | None:
        """Returns one of the merchant's accounts that has a number, as customers know it."""
        for account in self.shop.accounts:
            if not account.number:
                target = f"{CUSTOMERS}/{account.customer}/accounts"
                reply = await self.world.call(self.shop, "GET", target)
                if reply is not None and reply.status == 200:
                    [found] = decoded(reply)["data"]
                    account.number = found["account_number"] or ""
        found = [each for each in self.shop.accounts if each.number]
        return found[-1 - back % len(found)] if found else None

    async def close_account(self, step: Step, back: int) -> None:
        """Closes an account. Later transfers into it are held, whatever its provider does."""
        account = await self._account(back)
        if account is not None:
            target = f"{CUSTOMERS}/{account.customer}/accounts/{account.id}"
            await self.world.call(self.shop, "DELETE", target)
            self._count("close account")

    # Saved cards.

    async def save_card(self, step: Step, amount: int, rail: str) -> None:
        """A customer pays on checkout, and lets the merchant save the card."""
        customer = await self._customer(step)
        if customer is None:
            return
        wanted = self._payment(self._reference(step), amount)
        if url := await self._start_payment(wanted, save_for=customer):
            await self._check_out(url, wanted, rail, "success", saves_card=True)
            self.shop.cards.append(Card(rail, customer, wanted))

    async def charge_card(
        self, step: Step, back: int, amount: int, outcome: str, copies: int, rail: str
    ) -> None:
        """Charges a saved card again. The customer's bank accepts or declines it.

        `rail`: where a customer saves the merchant's first card.
        """
        if not self.shop.cards:
            await self.save_card(step, amount, rail)
            return
        card = self.shop.cards[-1 - back % len(self.shop.cards)]
        try:
            path = f"{card.rail}/charges/{card.payment.trx_id}-1/card"
            await self.world.control(path, {"outcome": outcome})
        except LOST:
            return
        await self._charge(self._reference(step), card, amount, copies)

    async def _charge(self, reference: str, card: Card, amount: int, copies: int = 1) -> None:
        target = f"{CUSTOMERS}/{card.customer}/ways"
        ways = await self.world.call(self.shop, "GET", target)
        if ways is None or ways.status != 200 or not (found := decoded(ways)["data"]):
            return
        wanted = self._payment(f"{CHARGED}-{reference}", amount)
        wanted.is_again, wanted.rail = True, card.rail
        kind = BY_RAIL[card.rail]
        wanted.is_manual, wanted.can_be_queried = not kind.refunds, kind.queries_refunds
        was_revoked = card.is_revoked
        target = f"{CUSTOMERS}/{card.customer}/charges"
        fields = {"payment_amount": amount / 100, "way_id": found[0]["id"]}
        self.world.model.pay(wanted)
        reply = await self._initiate(target, fields, wanted, copies)
        self._count("charge card")
        if reply is not None:
            status = decoded(reply)["status"]
            self._count(f"bank: charge {status}")
            if was_revoked and status != "failed":
                self._note(f"a revoked card was charged by {wanted.trx_id}, which is {status}")

    async def revoke_card(self, step: Step, back: int, amount: int, is_charged: bool) -> None:
        """Revokes a saved card, perhaps while the merchant charges it."""
        if not self.shop.cards:
            return
        card = self.shop.cards[-1 - back % len(self.shop.cards)]
        charge = self._charge(self._reference(step), card, amount)
        await asyncio.gather(self._revoke(card), *([charge] if is_charged else []))
        if not is_charged:
            charge.close()

    async def _revoke(self, card: Card) -> None:
        target = f"{CUSTOMERS}/{card.customer}/ways"
        ways = await self.world.call(self.shop, "GET", target)
        if ways is not None and ways.status == 200 and (found := decoded(ways)["data"]):
            reply = await self.world.call(self.shop, "DELETE", f"{target}/{found[0]['id']}")
            card.is_revoked = card.is_revoked or (reply is not None and reply.status == 200)
            self._count("revoke card")

    # The quiet moment.

    async def resolve_transfers(self, sent: set[str]) -> None:
        """Learns which transfers were received. `sent`: the payers that the providers know."""
        rows = await self.world.live.db.records(RECEIVED, self.shop.id)
        received = {row["payer"]: row for row in rows}
        if len(received) != len(rows):
            self._note(f"merchant {self.shop.id} has a transfer that was received twice")
        for payer, wanted in list(self.world.transfers.items()):
            if wanted.merchant != self.shop.id or wanted.trx_id:
                continue
            if payer in received:
                self._receive(wanted, received[payer])
            elif payer not in sent:
                self._note(self.world.model.reject(wanted))
                del self.world.transfers[payer]

    def _receive(self, wanted: Operation, row: Any) -> None:
        if row["amount_minor"] != wanted.amount:
            self._note(f"{wanted.payer} sent {wanted.amount}, {row['amount_minor']} was received")
        self._note(self.world.model.accept(wanted, row["trx_id"]))
        price = Price.of_row(row)
        about = (wanted.merchant, PAYMENT, wanted.amount, "merchant", COMMISSION, ACCOUNT)
        expected = {book.price(*about) for book in self.world.prices.books}
        if price not in expected:
            self._note(f"{wanted.trx_id} of {wanted.amount} costs {price}, expected {expected}")
        wanted.credit = wanted.amount - price.fee - price.added("merchant")
