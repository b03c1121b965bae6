"""Disputes at the simulated Paystack, Flutterwave and Kora, from the claim to the outcome."""

from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from manilla import worker
from manilla.disputes.dispute import (
    AnswerState,
    Dispute,
    DisputeStatus,
    EvidenceIncomplete,
)
from manilla.providers.port import StatementLine
from manilla.reconciliation import importing, unmatched
from manilla.reconciliation.lines import day_of
from manilla.reconciliation.unmatched import Unmatched
from manilla.services import Services
from tests.compliance.files import PDF
from tests.disputes.steps import LOST, NEEDS_RESPONSE, Disputes, Paid
from tests.payments.shop import Shop
from tests.reconciliation.provider_story import Altered
from tests.support.client import Merchant, Site
from tests.support.provider_simulator import ProviderSimulator, running_simulator

RAILS = ("paystack", "flutterwave", "kora")


@pytest.fixture(scope="module")
async def providers(services: Services, site: Site) -> AsyncIterator[ProviderSimulator]:
    async with running_simulator(services, RAILS) as running:
        yield running


@pytest.fixture
async def seller(
    services: Services, providers: ProviderSimulator, production: Merchant
) -> AsyncIterator["Seller"]:
    await providers.reset()
    steps = Seller(Shop(services, providers, production))
    yield steps
    assert await steps.broken_rules() == []


class Seller(Disputes):
    """A merchant whose customers pay through the simulated provider."""

    async def pay_at(self, rail: str) -> Paid:
        started = await self.shop.start(payment_amount=1000)
        charge = await self.shop.choose(started, f"{rail}-ngn")
        await self.shop.pay(charge)
        await self.shop.until(started, "success")
        return Paid(started, charge)

    async def dispute_at(self, paid: Paid, **claim: Any) -> str:
        target = f"{paid.charge.provider}/charges/{paid.charge.reference}/dispute"
        return str((await self.shop.simulator.control(target, claim))["reference"])

    async def poll(self) -> None:
        await worker._disputes(self.shop.services).schedule()
        await self.shop.simulator.run_jobs()

    async def only(self, paid: Paid) -> Dispute:
        [dispute] = await self.of(paid)
        return dispute

    async def until(self, paid: Paid, status: DisputeStatus) -> Dispute:
        """Waits until the payment has one dispute with this status."""

        async def is_so() -> bool:
            await self.db.execute(
                "UPDATE job SET due_at = now() WHERE kind IN ('dispute', 'disputes')"
                " AND due_at < now() + interval '1 day'"
            )
            return [each.status for each in await self.of(paid)] == [status]

        await self.shop.simulator.until(is_so)
        return await self.only(paid)

    async def import_history(self, rail: str, names: Mapping[str, str] = {}) -> None:
        """Imports the provider's statement. `names` replaces references on its lines."""
        adapter = self.shop.services.rails.adapter(rail)
        assert adapter is not None

        def rename(lines: list[StatementLine]) -> list[StatementLine]:
            return [
                msgspec.structs.replace(
                    each, reference=names.get(each.reference or "", each.reference)
                )
                for each in lines
            ]

        altered: Any = Altered(adapter, rename)
        today = day_of(datetime.now(UTC))
        kinds = self.shop.services.rails.credentials(rail).kind.capabilities.statements
        first, last = today - timedelta(days=1), today + timedelta(days=1)
        await importing.import_from_provider(self.db, altered, kinds, first, last)

    async def unmatched_lines(self, rail: str, paid: Paid) -> list[Unmatched]:
        found = await unmatched.find_unmatched(self.db, rail)
        return [each for each in found if each.trx_id in (None, paid.started.trx_id)]

    async def at_provider(self, paid: Paid) -> dict[str, Any]:
        path = f"{paid.charge.provider}/disputes?reference={paid.charge.reference}"
        return dict((await self.shop.simulator.read(path))["disputes"][0])


async def opened(seller: Seller, rail: str, **claim: Any) -> tuple[Paid, Dispute]:
    paid = await seller.pay_at(rail)
    await seller.dispute_at(paid, **claim)
    if rail == "flutterwave":
        await seller.poll()
    return paid, await seller.until(paid, DisputeStatus.NEEDS_RESPONSE)


@pytest.mark.parametrize("rail", ["paystack", "flutterwave"])
async def test_webhooks_and_polls_find_one_dispute(seller: Seller, rail: str) -> None:
    await seller.shop.simulator.control(f"{rail}/faults", {"webhooks": {"mode": "duplicate"}})
    paid, dispute = await opened(seller, rail, amount="400.00")
    await seller.poll()
    assert await seller.only(paid) == await seller.now(dispute)
    assert (dispute.amount_minor, dispute.withheld_minor) == (400_00, 400_00)


@pytest.mark.parametrize("rail", ["paystack", "flutterwave"])
async def test_a_lost_dispute_is_taken_and_returned_after_another_stage(
    seller: Seller, rail: str
) -> None:
    paid, dispute = await opened(seller, rail)
    target = f"{rail}/disputes/{dispute.provider_reference}"
    await seller.shop.simulator.control(f"{target}/resolve", {"status": "lost"})
    await seller.poll()
    lost = await seller.until(paid, DisputeStatus.LOST)
    assert (lost.withheld_minor, lost.taken_minor) == (0, 1000_00)
    await seller.shop.simulator.control(f"{target}/reopen", {})
    await seller.poll()
    await seller.until(paid, DisputeStatus.NEEDS_RESPONSE)
    await seller.shop.simulator.control(f"{target}/resolve", {"status": "won"})
    await seller.poll()
    won = await seller.until(paid, DisputeStatus.WON)
    assert (won.withheld_minor, won.taken_minor) == (0, 0)


@pytest.mark.parametrize("rail", ["paystack", "flutterwave"])
async def test_a_dispute_is_accepted_at_the_provider(seller: Seller, rail: str) -> None:
    paid, dispute = await opened(seller, rail)
    await seller.service.accept(seller.tenant, dispute.trx_id)
    accepted = await seller.until(paid, DisputeStatus.ACCEPTED)
    assert accepted.taken_minor == 1000_00
    assert (await seller.at_provider(paid))["status"] == "accepted"


@pytest.mark.parametrize(
    ("rail", "status"),
    [("paystack", DisputeStatus.WON), ("flutterwave", DisputeStatus.SUBMITTED)],
)
async def test_evidence_reaches_the_provider(
    seller: Seller, rail: str, status: DisputeStatus
) -> None:
    paid, dispute = await opened(seller, rail)
    await seller.service.set_evidence(seller.tenant, dispute.trx_id, "Delivered on Monday")
    with pytest.raises(EvidenceIncomplete):
        await seller.service.submit(seller.tenant, dispute.trx_id)
    await seller.service.add_file(seller.tenant, dispute.trx_id, "receipt.pdf", PDF)
    await seller.service.submit(seller.tenant, dispute.trx_id)
    await seller.until(paid, status)

    async def is_sent() -> bool:
        return (await seller.now(dispute)).answer is AnswerState.SENT

    await seller.shop.simulator.until(is_sent)
    shown = await seller.at_provider(paid)
    assert shown["message"] == "Delivered on Monday"
    assert [file["size"] for file in shown["files"]] == [len(PDF)]


@pytest.mark.parametrize("rail", ["paystack", "flutterwave"])
async def test_a_lost_response_leads_to_one_answer(seller: Seller, rail: str) -> None:
    paid, dispute = await opened(seller, rail)
    fault = {"call": "dispute_answer", "fault": "reset_after_accept"}
    await seller.shop.simulator.control(f"{rail}/faults", {"next": [fault]})
    await seller.service.accept(seller.tenant, dispute.trx_id)
    await seller.until(paid, DisputeStatus.ACCEPTED)
    sent = (await seller.shop.simulator.read(f"{rail}/requests"))["requests"]
    assert [each["method"] for each in sent].count("PUT") == 1


@pytest.mark.parametrize("rail", ["paystack", "flutterwave"])
async def test_an_unknown_status_opens_a_case(seller: Seller, rail: str) -> None:
    paid = await seller.pay_at(rail)
    await seller.shop.simulator.control(f"{rail}/faults", {"disputes": "unknown_status"})
    reference = await seller.dispute_at(paid)
    await seller.poll()

    async def is_open() -> bool:
        return bool(
            await seller.db.value(
                "SELECT true FROM operator_case WHERE kind = 'unknown_dispute' AND reference = $1",
                f"{rail}:{reference}",
            )
        )

    await seller.shop.simulator.until(is_open)
    assert await seller.of(paid) == []


async def test_an_administrator_contests_at_kora(seller: Seller) -> None:
    paid = await seller.pay_at("kora")
    reference = await seller.dispute_at(paid)
    state = paid.reported(status=NEEDS_RESPONSE, provider_reference=reference, amount="1000")
    dispute = seller.one(await seller.report(state, provider="kora"))
    await seller.service.set_evidence(seller.tenant, dispute.trx_id, "Delivered")
    await seller.service.submit(seller.tenant, dispute.trx_id)
    await seller.shop.simulator.run_jobs()
    assert (await seller.now(dispute)).answer is AnswerState.MANUAL
    assert (await seller.at_provider(paid))["status"] == "open"


async def test_kora_accepts_a_whole_chargeback(seller: Seller) -> None:
    paid = await seller.pay_at("kora")
    reference = await seller.dispute_at(paid)
    state = paid.reported(status=NEEDS_RESPONSE, provider_reference=reference, amount="1000")
    dispute = seller.one(await seller.report(state, provider="kora"))
    await seller.service.accept(seller.tenant, dispute.trx_id)
    await seller.until(paid, DisputeStatus.ACCEPTED)
    assert (await seller.at_provider(paid))["status"] == "accepted"


async def test_koras_balance_history_agrees_with_a_lost_chargeback(seller: Seller) -> None:
    paid = await seller.pay_at("kora")
    reference = await seller.dispute_at(paid)
    await seller.shop.simulator.control(f"kora/disputes/{reference}/resolve", {"status": "lost"})
    state = paid.reported(status=LOST, provider_reference=reference, amount="1000")
    seller.one(await seller.report(state, provider="kora"))
    await seller.import_history("kora")
    assert await seller.unmatched_lines("kora", paid) == []


async def test_a_chargeback_in_koras_balance_history_opens_a_dispute(seller: Seller) -> None:
    paid = await seller.pay_at("kora")
    reference = await seller.dispute_at(paid)
    await seller.shop.simulator.control(f"kora/disputes/{reference}/resolve", {"status": "lost"})
    await seller.import_history("kora", {reference: paid.charge.reference})
    await seller.poll()
    dispute = await seller.only(paid)
    assert (dispute.status, dispute.withheld_minor) == (DisputeStatus.NEEDS_RESPONSE, 1000_00)
    state = paid.reported(status=LOST, provider_reference=reference, amount="1000")
    after = seller.one(await seller.report(state, provider="kora"))
    assert (after.trx_id, after.provider_reference) == (dispute.trx_id, reference)
    await seller.import_history("kora", {reference: paid.charge.reference})
    assert await seller.unmatched_lines("kora", paid) == []
