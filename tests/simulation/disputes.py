"""The steps of customers' banks, which dispute payments, and of the merchants who answer."""

import asyncio
import json
from typing import Any

from tests.compliance.files import PDF
from tests.simulation.disputed import NEEDS_RESPONSE
from tests.simulation.facts import Kind, Operation
from tests.simulation.operations import MerchantSteps
from tests.simulation.plan import DISPUTED, Step
from tests.simulation.shops import LOST, OpenedDispute, decoded, minor_of
from tests.support.client import Reply

DISPUTES = "/api/v1/disputes"
BOUNDARY = "dispute-evidence"
FORM = f"multipart/form-data; boundary={BOUNDARY}"
FIELDS = {
    "customer_email": "ada@example.com",
    "customer_name": "Ada Obi",
    "customer_phone": "08012345678",
    "service_details": "Shoes",
}


class DisputeSteps(MerchantSteps):
    """Adds the disputes of a merchant's payments to its steps."""

    async def dispute(
        self, step: Step, back: int, has_api: bool, percent: int, category: str, due_seconds: int
    ) -> None:
        """A bank disputes a part of a payment, or more than it, whatever its status is.

        `has_api`: whether the provider's API has disputes.
        """
        paid = [
            each
            for each in self.world.model.operations.values()
            if (each.merchant, each.kind) == (self.shop.id, Kind.PAYMENT) and each.rail
            if (each.rail in DISPUTED) == has_api
        ]
        if paid:
            payment = paid[-1 - back % len(paid)]
            await self._dispute(self._reference(step), payment, percent, category, due_seconds)

    async def _dispute(
        self, reference: str, payment: Operation, percent: int, category: str, due_seconds: int
    ) -> None:
        # The customer may have paid the commission too.
        amount = payment.amount * percent // 100
        self.world.model.dispute(self.shop.id, reference, amount)
        path = f"{payment.rail}/charges/{payment.trx_id}-1/dispute"
        claim = {"amount": f"{amount / 100:.2f}", "category": category, "due_seconds": due_seconds}
        try:
            opened = await self.world.control(path, {**claim, "insist": True})
        except LOST:
            return
        key = payment.rail, opened["reference"]
        self.shop.disputes.append(OpenedDispute(*key, amount, reference))
        self._count("bank: dispute")

    async def bank_acts(self, step: Step, back: int, how: str) -> None:
        """A bank decides or reopens a dispute, or its provider repeats the request to answer."""
        if not self.shop.disputes:
            return
        found = self.shop.disputes[-1 - back % len(self.shop.disputes)]
        self._expect(found)
        action, command = "resolve", {"status": how, "insist": True}
        if how in ("reopen", "remind"):
            action, command = how, {"insist": True} if how == "reopen" else {}
        try:
            path = f"{found.rail}/disputes/{found.reference}/{action}"
            await self.world.control(path, command)
        except LOST:
            return
        self._count(f"bank: {how}")

    def _expect(self, opened: OpenedDispute) -> None:
        """From now on, the dispute may hold any part of its amount."""
        self.world.model.change_dispute(self.shop.id, opened.keys, opened.amount)

    async def answer_dispute(self, step: Step, back: int, how: str, copies: int) -> None:
        """Accepts or contests a dispute through the API, several times at the same time."""
        target = f"{DISPUTES}?status={NEEDS_RESPONSE}"
        reply = await self.world.call(self.shop, "GET", target)
        if reply is None or reply.status != 200 or not (found := decoded(reply)["data"]):
            return
        dispute = found[back % len(found)]
        for opened in self.shop.disputes:
            if opened.reference == dispute["provider_reference"]:
                self._expect(opened)
        if how == "contest":
            await self._give_evidence(f"{DISPUTES}/{dispute['id']}")
        key = f"answer-{self._reference(step)}"
        answers = [self._answer(dispute, how, key) for _ in range(copies)]
        replies = await asyncio.gather(*answers)
        self._count(f"dispute: {how}")
        for refused in replies:
            if refused is not None and refused.status != 200:
                self.world.outcomes[f"answer to a dispute: {refused.status}"] += 1

    async def _give_evidence(self, target: str) -> None:
        evidence = json.dumps({"text": "It was delivered.", "fields": FIELDS}).encode()
        await self.world.call(self.shop, "PUT", f"{target}/evidence", evidence)
        await self.world.call(
            self.shop, "POST", f"{target}/files", _form("note.pdf", PDF), content_type=FORM
        )

    async def _answer(self, dispute: Any, how: str, key: str) -> Reply | None:
        target, body = f"{DISPUTES}/{dispute['id']}", b"{}"
        if how == "contest":
            return await self.world.call(self.shop, "POST", f"{target}/submit", b"", key)
        if how == "accept_part":
            part = max(1, minor_of(dispute["amount"]) * 3 // 10)
            body = json.dumps({"amount": part / 100}).encode()
        return await self.world.call(self.shop, "POST", f"{target}/accept", body, key)


def _form(name: str, content: bytes) -> bytes:
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
    return f"{head}Content-Type: application/pdf\r\n\r\n".encode() + content + _end()


def _end() -> bytes:
    return f"\r\n--{BOUNDARY}--\r\n".encode()
