"""Paystack's adapter with Paystack's simulated API, whose code is independent of the adapter."""

from typing import Any

import msgspec
import pytest

from manilla.kit.http_client.client import HttpClient
from manilla.kit.money import Money
from manilla.ledger import trx_ids
from manilla.providers.kind import Credentials
from manilla.providers.kinds import KINDS
from manilla.providers.kinds.paystack import answers
from manilla.providers.port import (
    Adapter,
    ChargeOrder,
    ChargeState,
    Claim,
    Done,
    Forged,
    KnownAs,
    RefundOrder,
    RefundState,
    RefusalCode,
    Refused,
    ReportedChargeStatus,
    ReportedRefundStatus,
    TransferOrder,
    TransferState,
    TransferStatus,
    Unknown,
    Unreadable,
    Webhook,
    WebhookEvent,
    WebhookSubject,
)
from tests.providers import samples
from tests.providers.adapters import Adapters
from tests.providers.simulated import SimulatorSetup, final_transfer


@pytest.fixture
def paystack(client: HttpClient, setup: SimulatorSetup) -> Adapter:
    return simulated(client, setup, "sk_live_simulated")


def simulated(client: HttpClient, setup: SimulatorSetup, secret_key: str) -> Adapter:
    url = f"{setup.simulator_url}/paystack"
    return Adapters(client).add("paystack", secret_key=secret_key, base_url=url)


def charge_order() -> ChargeOrder:
    return msgspec.structs.replace(samples.CHARGE, reference=trx_ids.new(1) + "-1")


def transfer_order(account: str = "0690000031") -> TransferOrder:
    reference = trx_ids.new(1).lower()
    return msgspec.structs.replace(samples.TRANSFER, reference=reference, account_number=account)


async def charge_state(paystack: Adapter, order: ChargeOrder) -> ChargeState:
    answer = await paystack.charge_state(order.reference)
    assert isinstance(answer, Done), answer
    return answer.value


async def transfer_state(paystack: Adapter, order: TransferOrder) -> TransferState:
    answer = await paystack.transfer_state(order.reference)
    assert isinstance(answer, Done), answer
    return answer.value


async def final_state(paystack: Adapter, order: TransferOrder) -> TransferState:
    return await final_transfer(paystack, order.reference)


async def webhook(paystack: Adapter, setup: SimulatorSetup) -> Webhook:
    provider, headers, raw = await setup.webhook()
    assert provider == "paystack"
    assert paystack.read_webhook(headers, raw + b"\n") == Forged()
    return paystack.read_webhook(headers, raw)


async def paid_charge(paystack: Adapter, setup: SimulatorSetup) -> ChargeOrder:
    order = charge_order()
    assert isinstance(await paystack.create_checkout(order), Done)
    await setup.control(f"paystack/charges/{order.reference}/pay", {})
    await webhook(paystack, setup)
    return order


def refund_order(charge: ChargeOrder, minor: int = 40050) -> RefundOrder:
    return RefundOrder(trx_ids.new(1), charge.reference, Money("NGN", minor), "Returned")


def known(order: RefundOrder, provider_reference: str | None = None) -> KnownAs:
    return KnownAs(
        provider_reference=provider_reference,
        charge_reference=order.charge_reference,
        amount=order.amount,
    )


async def refund(paystack: Adapter, order: RefundOrder) -> RefundState:
    answer = await paystack.refund(order)
    assert isinstance(answer, Done), answer
    return answer.value


async def test_a_transfer_is_resolved_sent_and_delivered(
    paystack: Adapter, setup: SimulatorSetup
) -> None:
    banks, before = await paystack.banks(), await paystack.balance("NGN")
    assert isinstance(banks, Done)
    assert {"044", "035A"} <= {bank.code for bank in banks.value}
    resolved = await paystack.resolve("044", "0690000031")
    assert isinstance(resolved, Done)
    assert resolved.value.account_name
    order = transfer_order()
    sent = await paystack.send(order)
    assert isinstance(sent, Done), sent
    state = await final_state(paystack, order)
    assert (state.status, state.amount) == (TransferStatus.DELIVERED, order.amount)
    assert state.provider_reference == sent.value.provider_reference
    assert state.session_id is not None
    assert len(state.session_id) == 30
    assert state.fee is not None
    after = await paystack.balance("NGN")
    assert isinstance(before, Done)
    assert isinstance(after, Done)
    assert after.value == before.value - order.amount - state.fee
    claim = Claim(order.amount.amount, "NGN")
    expected = WebhookEvent(
        *(WebhookSubject.TRANSFER, order.reference.upper(), claim, TransferStatus.DELIVERED)
    )
    assert await webhook(paystack, setup) == expected
    assert isinstance(await paystack.send(order), Unknown)  # The reference has been used before.


async def test_an_unknown_bank_is_rejected(paystack: Adapter) -> None:
    unknown_bank = await paystack.resolve("000013", "0690000031")
    assert isinstance(unknown_bank, Refused)
    assert unknown_bank.code is RefusalCode.INVALID_BENEFICIARY


@pytest.mark.parametrize(
    ("settle", "status"),
    [
        ({"status": "processing", "provider_status": "received"}, TransferStatus.PENDING),
        ({"status": "failed", "provider_status": "abandoned"}, TransferStatus.FAILED),
        ({"status": "failed", "provider_status": "blocked"}, TransferStatus.FAILED),
        ({"status": "failed", "provider_status": "rejected"}, TransferStatus.FAILED),
        ({"status": "reversed"}, TransferStatus.RETURNED),
    ],
)
async def test_words_of_a_transfer(
    paystack: Adapter, setup: SimulatorSetup, settle: dict[str, Any], status: TransferStatus
) -> None:
    order = transfer_order("0000000003")
    assert isinstance(await paystack.send(order), Done)
    await setup.control(f"paystack/transfers/{order.reference}/settle", settle)
    assert (await transfer_state(paystack, order)).status is status


async def test_a_transfer_waits_for_a_person(paystack: Adapter, setup: SimulatorSetup) -> None:
    await setup.control("paystack/account", {"transfers_need_otp": True})
    order = transfer_order()
    sent = await paystack.send(order)
    assert isinstance(sent, Done)
    assert sent.value.needs_action == answers.OTP
    state = await transfer_state(paystack, order)
    assert (state.status, state.needs_action) == (TransferStatus.PENDING, answers.OTP)
    await setup.control(f"paystack/transfers/{order.reference}/approve", {})
    assert (await final_state(paystack, order)).status is TransferStatus.DELIVERED


async def test_a_delivered_transfer_comes_back(paystack: Adapter, setup: SimulatorSetup) -> None:
    order = transfer_order()
    assert isinstance(await paystack.send(order), Done)
    assert (await final_state(paystack, order)).status is TransferStatus.DELIVERED
    await webhook(paystack, setup)
    await setup.control(f"paystack/transfers/{order.reference}/settle", {"status": "reversed"})
    assert (await transfer_state(paystack, order)).status is TransferStatus.RETURNED
    event = await webhook(paystack, setup)
    assert isinstance(event, WebhookEvent)
    assert event.claims_status is TransferStatus.RETURNED


async def test_a_hosted_charge_is_paid(paystack: Adapter, setup: SimulatorSetup) -> None:
    order = charge_order()
    assert (await charge_state(paystack, order)).status is ReportedChargeStatus.NOT_FOUND
    checkout = await paystack.create_checkout(order)
    assert isinstance(checkout, Done), checkout
    assert (await charge_state(paystack, order)).status is ReportedChargeStatus.PENDING
    async with setup.session.get(checkout.value.checkout_url) as page:
        assert page.status == 200
    for word in ("pending", "processing", "queued"):
        path = f"paystack/charges/{order.reference}/status"
        await setup.control(path, {"provider_status": word})
        assert (await charge_state(paystack, order)).status is ReportedChargeStatus.PENDING
    await setup.control(f"paystack/charges/{order.reference}/pay", {})
    paid = await charge_state(paystack, order)
    assert (paid.status, paid.paid) == (ReportedChargeStatus.PAID, order.amount)
    assert paid.fee is not None
    assert paid.fee.minor > 0
    claim = Claim(order.amount.amount, "NGN")
    expected = WebhookEvent(
        *(WebhookSubject.CHARGE, order.reference, claim, ReportedChargeStatus.PAID)
    )
    assert await webhook(paystack, setup) == expected
    # The reference has been used before.
    assert isinstance(await paystack.create_checkout(order), Unknown)


async def test_a_customer_who_bears_the_fee(paystack: Adapter, setup: SimulatorSetup) -> None:
    await setup.control("paystack/account", {"customer_pays_fees": True})
    order = charge_order()
    assert isinstance(await paystack.create_checkout(order), Done)
    await setup.control(f"paystack/charges/{order.reference}/pay", {})
    paid = await charge_state(paystack, order)
    assert (paid.paid, paid.fee) == (order.amount, Money("NGN", 0))
    event = await webhook(paystack, setup)
    assert isinstance(event, WebhookEvent)
    assert event.claim == Claim(order.amount.amount, "NGN")


async def test_a_charge_that_is_unknown_with_400(paystack: Adapter, setup: SimulatorSetup) -> None:
    await setup.control("paystack/account", {"unknown_charge_is_400": True})
    state = await charge_state(paystack, charge_order())
    assert state.status is ReportedChargeStatus.NOT_FOUND


async def test_a_declined_charge(paystack: Adapter, setup: SimulatorSetup) -> None:
    order = charge_order()
    assert isinstance(await paystack.create_checkout(order), Done)
    declined = {"outcome": "failed", "reason": "insufficient_funds"}
    await setup.control(f"paystack/charges/{order.reference}/pay", declined)
    state = await charge_state(paystack, order)
    assert state.status is ReportedChargeStatus.FAILED
    assert "insufficient" in state.reason.lower()


async def test_a_one_time_account_is_paid(paystack: Adapter, setup: SimulatorSetup) -> None:
    order = charge_order()
    account = await paystack.create_virtual_account(order, None)
    assert isinstance(account, Done), account
    assert account.value.amount == order.amount
    assert len(account.value.account_number) == 10
    assert account.value.expires_at is not None
    assert (await charge_state(paystack, order)).status is ReportedChargeStatus.PENDING
    url = f"{setup.simulator_url}/control/api/paystack/charges/{order.reference}/pay"
    async with setup.session.post(url, json={"amount": 1000}) as reply:
        assert reply.status == 409  # The bank returns a transfer with a wrong amount.
    # The simulator sends the event bank.transfer.rejected.
    assert isinstance(await webhook(paystack, setup), Unreadable)
    assert (await charge_state(paystack, order)).status is ReportedChargeStatus.PENDING
    await setup.control(f"paystack/charges/{order.reference}/pay", {})
    assert (await charge_state(paystack, order)).paid == order.amount


async def test_a_refund_is_paid(paystack: Adapter, setup: SimulatorSetup) -> None:
    charge = await paid_charge(paystack, setup)
    order = refund_order(charge)
    created = await refund(paystack, order)
    assert created.amount == order.amount
    event = WebhookEvent(WebhookSubject.CHARGE_REFUNDS, charge.reference)
    assert await webhook(paystack, setup) == event
    for how in (known(order, created.provider_reference), known(order)):
        answer = await paystack.refund_state(order.reference, how)
        assert isinstance(answer, Done), answer
        assert answer.value.provider_reference == created.provider_reference
        assert answer.value.amount == order.amount


async def test_a_refund_needs_attention(paystack: Adapter, setup: SimulatorSetup) -> None:
    await setup.control("paystack/faults", {"refunds": "pending"})
    charge = await paid_charge(paystack, setup)
    order = refund_order(charge)
    created = await refund(paystack, order)
    assert created.status is ReportedRefundStatus.PENDING
    path = f"paystack/refunds/{created.provider_reference}/settle"
    await setup.control(path, {"status": "processing", "provider_status": "needs-attention"})
    how = known(order, created.provider_reference)
    answer = await paystack.refund_state(order.reference, how)
    assert isinstance(answer, Done)
    assert answer.value.needs_action == answers.NEEDS_ATTENTION
    await setup.control(path, {"status": "failed"})
    answer = await paystack.refund_state(order.reference, how)
    assert isinstance(answer, Done)
    assert answer.value.status is ReportedRefundStatus.FAILED


async def test_a_refund_without_an_answer_is_found(
    paystack: Adapter, setup: SimulatorSetup
) -> None:
    charge = await paid_charge(paystack, setup)
    first, lost = refund_order(charge), refund_order(charge)
    assert await refund(paystack, first)
    fault = {"call": "refund", "fault": "5xx_after_accept"}
    await setup.control("paystack/faults", {"next": [fault]})
    assert isinstance(await paystack.refund(lost), Unknown)
    answer = await paystack.refund_state(lost.reference, known(lost))
    assert isinstance(answer, Done), answer
    again = await paystack.refund_state(first.reference, known(first))
    assert isinstance(again, Done)
    assert again.value.provider_reference != answer.value.provider_reference
    missing = refund_order(charge)
    assert isinstance(await paystack.refund_state(missing.reference, known(missing)), Unknown)


async def test_a_charge_that_is_refunded_in_full(paystack: Adapter, setup: SimulatorSetup) -> None:
    charge = await paid_charge(paystack, setup)
    await refund(paystack, refund_order(charge, charge.amount.minor))
    again = await paystack.refund(refund_order(charge, charge.amount.minor))
    assert isinstance(again, Unknown)


async def test_wrong_credentials_are_neither_success_nor_refusal(
    paystack: Adapter, setup: SimulatorSetup
) -> None:
    await setup.control("paystack/account", {"secret_key": "sk_live_other"})
    for answer in (
        await paystack.balance("NGN"),
        await paystack.send(transfer_order()),
        await paystack.create_checkout(charge_order()),
        await paystack.transfer_state("txn0000000000000001"),
    ):
        assert isinstance(answer, Unknown)
        assert not answer.can_pass


async def test_the_sandbox_delivers_at_once(client: HttpClient, setup: SimulatorSetup) -> None:
    key = "sk_test_simulated"
    assert Credentials("paystack", KINDS["paystack"], {"secret_key": key}).is_sandbox
    await setup.control("paystack/account", {"secret_key": key})
    paystack = simulated(client, setup, key)
    order = transfer_order()
    assert isinstance(await paystack.send(order), Done)
    assert (await transfer_state(paystack, order)).status is TransferStatus.DELIVERED
