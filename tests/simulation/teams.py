"""The steps of a merchant's team in the dashboard: payout files, settlements and approvals.

Some merchants' payouts are protected: the finance member or the owner must approve a payout file
or a settlement that the other person has ordered.
"""

import asyncio
import contextlib
import re
import time
from decimal import Decimal
from typing import Any

from manilla.settlements.store import AUTOMATIC
from tests.dashboard.bulk_upload import HEADER
from tests.simulation.facts import Kind, Operation
from tests.simulation.faults import DATABASE_ERRORS
from tests.simulation.plan import Step
from tests.simulation.prices import PAYOUT, SETTLEMENT, Price
from tests.simulation.shops import BANK, CODES, LOST, minor_of
from tests.simulation.splits import SplitSteps
from tests.simulation.world import TeamShop, World
from tests.support.client import Reply

BULK = "/production/payouts/bulk"
SETTLEMENTS = "/production/settlements"
FILE_PREFIX = "BULK-"
RETRY_SECONDS = 0.25
CONFIRMATIONS = 40
KEY_SECONDS = 23 * 3600  # an idempotency key is valid for at least this time
FIELD = re.compile(r'name="(currency|amount|account)" value="([^"]*)"')
A_DAY_PASSES = """
    UPDATE payout_batch SET expires_at = expires_at - interval '25 hours'
     WHERE merchant_id = $1 AND id = $2 AND status = 'asked'"""
EXPECTED = (*LOST, *DATABASE_ERRORS, AssertionError)


class TeamSteps(SplitSteps):
    """Runs the steps of one merchant's lane: its requests, its customers and its team."""

    world: World
    shop: TeamShop

    async def pay_file(self, step: Step, amounts: list[int], account: str) -> None:
        """Uploads a payout file in the dashboard, and confirms it when its names are checked."""
        wanted = [
            self._payout(f"{self._reference(step)}-{number}", amount, "a", has_notice=False)
            for number, amount in enumerate(amounts)
        ]
        rows = [
            f"{Decimal(each.amount) / 100:.2f},{BANK['a']},{account},Ada,{each.reference},July"
            for each in wanted
        ]
        content = "\n".join([HEADER, *rows]).encode()
        with contextlib.suppress(*EXPECTED):
            owner = await self.world.sign_in(self.shop.owner, self.shop)
            method = {"method": str(self.world.methods[CODES["a"]])}
            reply = await owner.upload(BULK, method, "july.csv", content)
            batch = reply.location.rsplit("/", 1)[1] if reply.status == 303 else ""
            if not batch.startswith(FILE_PREFIX):
                return  # If the clock has jumped, the session has ended.
            self._count("upload file")
            self.shop.files[batch] = [self.world.model.request(each) for each in wanted]
            for _ in range(CONFIRMATIONS):
                await owner.post(f"{BULK}/{batch}/confirm", {"names": "yes"})
                if await self._batch_status(batch) != "draft":
                    self._count("confirm file")
                    return
                await asyncio.sleep(RETRY_SECONDS)

    async def _batch_status(self, batch: str) -> str | None:
        status: str | None = await self.world.live.db.value(
            "SELECT status FROM payout_batch WHERE merchant_id = $1 AND id = $2",
            *(self.shop.id, batch),
        )
        return status

    async def resolve_files(self) -> bool:
        """Learns from the files' rows which payouts were created. Returns whether all are known."""
        for batch, wanted in list(self.shop.files.items()):
            status = await self._batch_status(batch)
            if status is None:
                self._note(f"the payout file {batch} was accepted and does not exist")
                return False
            if status == "asked":
                await self._resolve_request(batch)
                return False
            rows = await self.world.live.db.records(
                """
                SELECT r.state, r.trx_id, p.amount_minor, p.fee_minor, p.tax_minor, p.price
                  FROM payout_batch_row r LEFT JOIN payout p USING (merchant_id, trx_id)
                 WHERE r.merchant_id = $1 AND r.batch_id = $2 ORDER BY r.number""",
                *(self.shop.id, batch),
            )
            if status == "running" and any(row["state"] == "ready" for row in rows):
                return False
            for operation, row in zip(wanted, rows, strict=True):
                if row["state"] == "paid":
                    self._note(self.world.model.accept(operation, row["trx_id"]))
                    self._check_row(operation, row)
                    self._count("payout of a file")
                else:
                    self._note(self.world.model.reject(operation))
            del self.shop.files[batch]
        return True

    async def settle(self, step: Step) -> None:
        """Reviews and confirms a settlement of the balance, above the reserve."""
        with contextlib.suppress(*EXPECTED):
            user = await self.world.sign_in(self.shop.finance, self.shop)
            review = await user.get(f"{SETTLEMENTS}/new?currency=NGN")
            if review.status != 200:
                return
            fields = dict(FIELD.findall(review.body.decode()))
            wanted = self._payout(
                self._reference(step), minor_of(fields["amount"]), "a", has_notice=False
            )
            self.shop.settlements.append(self.world.model.request(wanted))
            await user.post(SETTLEMENTS, {**fields, "name": "yes"})
            self._count("settle")

    async def resolve_settlements(self) -> bool:
        """Learns which settlements were started. Returns whether all of them have ended."""
        rows = await self.world.live.db.records(
            """
            SELECT s.id, s.state, s.trx_id, s.batch_id, s.amount_minor, s.ordered_by,
                   p.fee_minor, p.tax_minor, p.price
              FROM settlement s LEFT JOIN payout p USING (merchant_id, trx_id)
             WHERE s.merchant_id = $1 AND s.id > $2 ORDER BY s.id""",
            *(self.shop.id, self.shop.last_settlement),
        )
        for row in rows:
            if row["state"] == "open":
                if row["batch_id"] and row["trx_id"] is None:
                    await self._resolve_request(row["batch_id"])
                return False
            wanted = self._settlement_of(row)
            self.shop.last_settlement = row["id"]
            if wanted is not None:
                self._resolve_settlement(wanted, row)
        for unwanted in self.shop.settlements:
            self._note(self.world.model.reject(unwanted))
        self.shop.settlements.clear()
        return True

    def _settlement_of(self, row: Any) -> Operation | None:
        """Returns the settlement that a member has ordered, or that the merchant's plan orders."""
        amount: int = row["amount_minor"]
        wanted = self.shop.automatic
        if wanted is not None and row["ordered_by"] == AUTOMATIC:
            wanted.amount = amount
            return wanted
        found = [each for each in self.shop.settlements if each.amount == amount]
        if not found:
            self._note(f"merchant {self.shop.id} settled {amount}, which nobody ordered")
            return None
        self.shop.settlements.remove(found[0])
        return found[0]

    def _check_row(self, wanted: Operation, row: Any, direction: str = PAYOUT) -> None:
        payable = row["amount_minor"] + row["fee_minor"] + row["tax_minor"]
        self._note(self._check_payout(wanted, Price.of_row(row), payable, direction))

    def _resolve_settlement(self, wanted: Operation, row: Any) -> None:
        if row["trx_id"] is None:
            self._note(self.world.model.reject(wanted))
        else:
            self._note(self.world.model.accept(wanted, row["trx_id"]))
            self._check_row(wanted, row, SETTLEMENT)
            is_automatic = wanted is self.shop.automatic
            self._count(
                "payout of an automatic settlement" if is_automatic else "payout of a settlement"
            )
        if wanted is self.shop.automatic:
            self.world.expect_settlement(self.shop)

    async def decide_request(self, step: Step, is_approved: bool) -> None:
        """Two people decide at the same time on a payout file or settlement that waits."""
        with contextlib.suppress(*EXPECTED):
            waiting = await self.world.live.db.records(
                "SELECT id FROM payout_batch WHERE merchant_id = $1 AND status = 'asked'",
                self.shop.id,
            )
            for record in waiting:
                await self._decide_request(record["id"], is_approved=is_approved)
                self._count("decide request")

    async def _resolve_request(self, batch: str) -> None:
        """Approves a request that waits. It expires if the wallet does not cover it any more."""
        await self._decide_request(batch, is_approved=True)
        await self.world.live.db.execute(A_DAY_PASSES, self.shop.id, batch)

    async def _decide_request(self, batch: str, *, is_approved: bool) -> None:
        action = "approve" if is_approved else "refuse"
        for person in (self.shop.owner, self.shop.finance):
            user = await self.world.sign_in(person, self.shop)
            # The person who ordered the payouts is rejected, and so is a repeated decision.
            post = user.post(f"{BULK}/{batch}/{action}", {})
            await asyncio.gather(post, user.post(f"{BULK}/{batch}/approve", {}))

    async def rotate_keys(self, step: Step, overlap_minutes: int) -> None:
        words = ("--environment", "production", "--overlap-minutes", str(overlap_minutes))
        await rotate(self.world, self.shop, *words)
        self._count("rotate keys")

    async def _reject(self, key: str, wanted: Operation, reply: Reply) -> None:
        self.shop.unknown.discard(key)
        has_expired = time.time() - self.shop.sent_at[key] > KEY_SECONDS
        if not (has_expired and await self._was_accepted(key, wanted)):
            await super()._reject(key, wanted, reply)

    async def _was_accepted(self, key: str, wanted: Operation) -> bool:
        """Finds a transaction by its reference, because its idempotency key has expired.

        Without the key, the repeated request is a new request, which can be rejected.
        """
        try:
            found = await self.world.live.db.record(
                f"SELECT * FROM {wanted.kind} WHERE merchant_id = $1 AND ref_trx = $2",
                *(self.shop.id, wanted.reference),
            )
        except DATABASE_ERRORS:
            self.shop.unknown.add(key)
            return True
        if found is None:
            return False
        self._note(self.world.model.accept(wanted, found["trx_id"]))
        if wanted.kind is Kind.PAYOUT:
            self._check_row(wanted, found)
        return True


async def rotate(world: World, shop: TeamShop, *words: str) -> None:
    new = await world.try_command("merchant", "rotate", str(shop.id), *words)
    # If the command has failed after its commit, only the ledger knows the new keys.
    shop.may_lack_new_keys = new is None
    if new is not None:
        shop.main_keys.api_key, shop.main_keys.api_secret = new["api_key"], new["api_secret"]
        world.receiver.secrets[shop.id].add(new["api_secret"])
