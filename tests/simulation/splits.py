"""The steps of merchants whose payments are divided between them and other merchants."""

from tests.simulation import shares
from tests.simulation.customers import CustomerSteps
from tests.simulation.divided import RELEASE, ShareRecord, Split
from tests.simulation.facts import Kind, Operation
from tests.simulation.operations import DELIVERED, OVERDRAFT_MAX, balance_of
from tests.simulation.plan import Step
from tests.simulation.prices import Price
from tests.simulation.shops import MerchantWorld, decoded, minor_of
from tests.support.client import Reply

SHARES = """
    SELECT merchant_id, trx_id, owner_id, payment_trx_id, amount_minor, withheld_minor,
           returned_minor, short_minor
      FROM split ORDER BY merchant_id, trx_id"""

EMPTYING_PAYOUTS, LEAST_PAYOUT = 3, 1000_00


class SplitSteps(CustomerSteps):
    """Adds payments with a split to a merchant's steps."""

    async def pay_split(
        self,
        step: Step,
        amount: int,
        rail: str,
        outcome: str,
        percents: list[str],
        fees: str,
        hold: str | int,
    ) -> None:
        await self.world.upgrade()  # the previous release knows no splits
        receivers = self.world.receivers_of(self.shop)
        wanted = self._payment(self._reference(step), amount)
        wanted.split = Split(dict(zip(receivers, percents, strict=False)), fees, hold)
        if url := await self._start_payment(wanted, split=wanted.split.request):
            await self._check_out(url, wanted, rail, outcome)

    async def empty_wallet(self, step: Step) -> None:
        """Pays out nearly everything, so that the merchant cannot give its shares back."""
        for number in range(EMPTYING_PAYOUTS):
            reply = await self.world.call(self.shop, "GET", "/api/v1/balance")
            if reply is None or reply.status != 200:
                return
            amount = min(balance_of(reply)[0] * 98 // 100, OVERDRAFT_MAX)
            if amount >= LEAST_PAYOUT:
                reference = f"{self._reference(step)}-{number}"
                await self._pay_out(reference, amount, "manual", DELIVERED)

    async def release_shares(self, step: Step, back: int) -> None:
        """Releases the held shares of a payment, or of one that is not paid yet."""
        held = [
            each
            for each in self.world.model.operations.values()
            if (each.merchant, each.kind) == (self.shop.id, Kind.PAYMENT) and each.trx_id
            if each.split is not None and each.split.hold == RELEASE
        ]
        if not held:
            return
        payment = held[-1 - back % len(held)]
        assert payment.split is not None
        before, payment.split.is_released = payment.split.is_released, None
        target = f"/api/v1/payments/{payment.trx_id}/release"
        key = f"release-{self._reference(step)}"
        reply = await self.world.call(self.shop, "POST", target, b"{}", key)
        self._count("release shares")
        if reply is not None and reply.status == 200:
            # Shares exist when the payment is paid.
            payment.split.is_released = True if decoded(reply)["shares"] else before

    def _check_payment(
        self, payment: Operation, price: Price, payable: int | None = None
    ) -> str | None:
        """A payment with a split has one price, whatever way the customer chooses."""
        violation = super()._check_payment(payment, price, payable)
        if payment.split is not None:
            borne = price.fee if self.shop.pays_commission else 0
            payment.credit = payment.amount - borne - price.added("merchant")
        return violation

    def _accept(self, wanted: Operation, reply: Reply) -> None:
        super()._accept(wanted, reply)
        if wanted.kind is Kind.PAYMENT and wanted.split is not None:
            given = decoded(reply)["info"]["split"]["shares"]
            found = {each["receiver"]: minor_of(each["amount"]) for each in given}
            parts = wanted.split.divide(wanted.amount, wanted.credit)
            expected = {str(receiver): part for receiver, part in parts.items()}
            expected["owner"] = wanted.credit - sum(parts.values())
            if found != expected:
                self._note(f"{wanted.trx_id} has the shares {found}, expected {expected}")
            wanted.split.shares = parts
            for each in shares.operations_of(wanted):
                self.world.model.request(each)
            self.world.checks["division"] += 1


async def records_of(world: MerchantWorld) -> list[ShareRecord]:
    """Returns all shares in the ledger."""
    return [ShareRecord(*row) for db in world.databases for row in await db.records(SHARES)]
