"""Kora's adapter with Kora's simulated API, whose code is independent of the adapter."""

import msgspec
import pytest
import structlog

from manilla.kit.http_client.client import HttpClient
from manilla.kit.money import Money
from manilla.ledger import trx_ids
from manilla.providers.port import (
    Adapter,
    ChargeOrder,
    ChargeState,
    Claim,
    Done,
    Forged,
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
    WebhookEvent,
    WebhookSubject,
)
from tests.providers import samples
from tests.providers.adapters import Adapters
from tests.providers.simulated import SimulatorSetup, final_transfer
from tests.support.waiting import until

KEY = "sk_live_simulated"


@pytest.fixture
def kora(client: HttpClient, setup: SimulatorSetup) -> Adapter:
    return simulated(client, setup, KEY)


def simulated(client: HttpClient, setup: SimulatorSetup, secret_key: str) -> Adapter:
    url = f"{setup.simulator_url}/kora"
    return Adapters(client).add("kora", secret_key=secret_key, base_url=url)


def charge_order(setup: SimulatorSetup) -> ChargeOrder:
    return msgspec.structs.replace(
        samples.CHARGE,
        reference=trx_ids.new(1) + "-1",
        notification_url=f"{setup.own_url}/webhooks/kora",
    )


def transfer_order(setup: SimulatorSetup, account: str = "0690000031") -> TransferOrder:
    return msgspec.structs.replace(
        samples.TRANSFER,
        reference=trx_ids.new(1),
        account_number=account,
        notification_url=f"{setup.own_url}/webhooks/kora",
    )


async def charge_state(kora: Adapter, order: ChargeOrder) -> ChargeState:
    answer = await kora.charge_state(order.reference)
    assert isinstance(answer, Done), answer
    return answer.value


async def transfer_state(kora: Adapter, order: TransferOrder) -> TransferState:
    return await final_transfer(kora, order.reference)


async def test_a_transfer_is_resolved_sent_and_delivered(
    kora: Adapter, setup: SimulatorSetup
) -> None:
    banks, before = await kora.banks(), await kora.balance("NGN")
    assert isinstance(banks, Done)
    assert "044" in {bank.code for bank in banks.value}
    resolved = await kora.resolve("044", "0690000031")
    assert isinstance(resolved, Done)
    assert resolved.value.account_name
    order = transfer_order(setup)
    sent = await kora.send(order)
    assert isinstance(sent, Done), sent
    state = await transfer_state(kora, order)
    assert (state.status, state.amount) == (TransferStatus.DELIVERED, order.amount)
    assert state.fee is not None
    after = await kora.balance("NGN")
    assert isinstance(before, Done)
    assert isinstance(after, Done)
    assert after.value == before.value - order.amount - state.fee
    assert isinstance(await kora.send(order), Unknown)  # a duplicate
    _, headers, raw = await setup.webhook()
    event = WebhookEvent(
        *(WebhookSubject.TRANSFER, order.reference, Claim(order.amount.amount, "NGN")),
        TransferStatus.DELIVERED,
    )
    assert kora.read_webhook(headers, raw) == event
    assert kora.read_webhook(headers, raw.replace(b"NGN", b"USD")) == Forged()


@pytest.mark.parametrize("status", [400, 409])
async def test_a_rejected_payout_does_not_exist(
    kora: Adapter, setup: SimulatorSetup, status: int
) -> None:
    await setup.control("kora/account", {"payout_refusal_status": status})
    poor, invalid = transfer_order(setup, "0000000004"), transfer_order(setup, "0000000002")
    answer = await kora.send(poor)
    assert isinstance(answer, Refused)
    assert answer.code is RefusalCode.PROVIDER_INSUFFICIENT_BALANCE
    assert (await transfer_state(kora, poor)).status is TransferStatus.NOT_FOUND
    answer = await kora.send(invalid)
    assert isinstance(answer, Refused)
    assert answer.code is RefusalCode.INVALID_BENEFICIARY
    delivered = transfer_order(setup)
    assert isinstance(await kora.send(delivered), Done)
    assert isinstance(await kora.send(delivered), Unknown)


@pytest.mark.parametrize("word", [None, "reversed"])
async def test_a_payout_that_comes_back(
    kora: Adapter, setup: SimulatorSetup, word: str | None
) -> None:
    order = transfer_order(setup)
    assert isinstance(await kora.send(order), Done)
    assert (await transfer_state(kora, order)).status is TransferStatus.DELIVERED
    settled = {"status": "reversed", **({"provider_status": word} if word else {})}
    await setup.control(f"kora/transfers/{order.reference}/settle", settled)
    expected = TransferStatus.RETURNED if word else TransferStatus.FAILED
    assert (await transfer_state(kora, order)).status is expected


@pytest.mark.parametrize("field", ["both", "reference", "payment_reference"])
async def test_a_hosted_charge_is_paid_and_refunded(
    kora: Adapter, setup: SimulatorSetup, field: str
) -> None:
    await setup.control("kora/account", {"our_reference": field})
    order = charge_order(setup)
    checkout = await kora.create_checkout(order)
    assert isinstance(checkout, Done), checkout
    async with setup.session.get(checkout.value.checkout_url) as page:
        assert page.status == 200
    assert (await charge_state(kora, order)).status is ReportedChargeStatus.PENDING
    assert isinstance(await kora.create_checkout(order), Unknown)  # a duplicate
    await setup.control(f"kora/charges/{order.reference}/pay", {})
    paid = await charge_state(kora, order)
    assert (paid.status, paid.paid) == (ReportedChargeStatus.PAID, order.amount)
    assert paid.fee is not None
    _, headers, raw = await setup.webhook()
    assert kora.read_webhook(headers, raw) == WebhookEvent(
        *(WebhookSubject.CHARGE, order.reference, Claim(order.amount.amount, "NGN")),
        ReportedChargeStatus.PAID,
    )
    await _refund(kora, order)


async def _refund(kora: Adapter, charge: ChargeOrder) -> None:
    half = Money("NGN", 50000)
    order = RefundOrder(trx_ids.new(1), charge.reference, half, "Returned")
    missing = await kora.refund_state(order.reference)
    assert isinstance(missing, Done)
    assert missing.value.status is ReportedRefundStatus.NOT_FOUND
    answer = await kora.refund(order)
    assert isinstance(answer, Done), answer
    assert isinstance(await kora.refund(order), Unknown)  # a duplicate
    paid = RefundState(ReportedRefundStatus.PAID, half)

    async def is_paid() -> bool:
        return await kora.refund_state(order.reference) == Done(paid)

    await until(is_paid)


async def test_a_charge_that_is_not_settled_cannot_be_refunded(
    kora: Adapter, setup: SimulatorSetup
) -> None:
    await setup.control("kora/account", {"charges_are_settled": False})
    order = charge_order(setup)
    assert isinstance(await kora.create_checkout(order), Done)
    await setup.control(f"kora/charges/{order.reference}/pay", {})
    refund = RefundOrder(trx_ids.new(1), order.reference, order.amount, "Returned")
    answer = await kora.refund(refund)
    assert isinstance(answer, Refused)
    assert "not yet been settled" in answer.guidance


@pytest.mark.parametrize("field", ["both", "reference", "payment_reference"])
@pytest.mark.parametrize(("paid", "minor"), [(1015.5, 101550), (1000, 100000), (1200, 120000)])
async def test_a_virtual_account_is_paid(
    kora: Adapter, setup: SimulatorSetup, field: str, paid: float, minor: int
) -> None:
    await setup.control("kora/account", {"our_reference": field})
    order = charge_order(setup)
    account = await kora.create_virtual_account(order, None)
    assert isinstance(account, Done), account
    assert account.value.amount == order.amount
    assert account.value.expires_at is not None
    assert len(account.value.account_number) == 10
    await setup.control(f"kora/charges/{order.reference}/pay", {"amount": paid})
    state = await charge_state(kora, order)
    assert (state.status, state.paid) == (ReportedChargeStatus.PAID, Money("NGN", minor))


@pytest.mark.parametrize("signature", ["body-sha256", "body-sha512"])
async def test_a_webhook_with_another_signature_is_rejected_and_logged(
    kora: Adapter, setup: SimulatorSetup, signature: str
) -> None:
    await setup.control("kora/account", {"signature": signature})
    assert isinstance(await kora.send(transfer_order(setup)), Done)
    _, headers, raw = await setup.webhook()
    with structlog.testing.capture_logs() as logs:
        assert kora.read_webhook(headers, raw) == Forged()
    assert [each["event"] for each in logs] == ["kora_webhook_signed_differently"]


async def test_wrong_credentials_are_neither_success_nor_refusal(
    client: HttpClient, setup: SimulatorSetup
) -> None:
    kora = simulated(client, setup, "wrong")
    assert isinstance(await kora.balance("NGN"), Unknown)
    assert isinstance(await kora.send(transfer_order(setup)), Unknown)
