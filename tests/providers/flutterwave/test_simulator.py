"""Flutterwave's adapter with Flutterwave's simulated API, over HTTP."""

import msgspec
import pytest
from manilla_simulator.settings import FlutterwaveAccount

from manilla.kit.http_client.client import HttpClient
from manilla.kit.money import Money
from manilla.ledger import trx_ids
from manilla.providers.kinds.flutterwave.answers import APPROVAL, SEVERAL
from manilla.providers.port import (
    Adapter,
    ChargeOrder,
    Claim,
    Done,
    Forged,
    KnownAs,
    RefundState,
    ReportedChargeStatus,
    ReportedRefundStatus,
    TransferOrder,
    TransferState,
    TransferStatus,
    Unknown,
    WebhookEvent,
    WebhookSubject,
)
from tests.providers.flutterwave.conftest import adapter_of
from tests.providers.samples import CHARGE, REFUND, TRANSFER
from tests.providers.simulated import SimulatorSetup, final_transfer
from tests.support.waiting import until

KEYS = FlutterwaveAccount()
TEST_KEY = "FLWSECK_TEST-simulated-X"


@pytest.fixture
async def each(client: HttpClient, setup: SimulatorSetup) -> Adapter:
    return simulated(client, setup)


def simulated(
    client: HttpClient,
    setup: SimulatorSetup,
    *,
    secret_key: str = KEYS.secret_key,
    **given: str,
) -> Adapter:
    keys = {"secret_key": secret_key, "secret_hash": KEYS.secret_hash}
    return adapter_of(client, f"{setup.simulator_url}/flutterwave", **keys, **given)


async def transfer(each: Adapter, account_number: str = "0690000031") -> TransferOrder:
    resolved = await each.resolve("044", account_number)
    assert isinstance(resolved, Done)
    return msgspec.structs.replace(
        TRANSFER,
        reference=each.transfer_reference(trx_ids.new(1)),
        account_number=account_number,
        account_name=resolved.value.account_name,
    )


def charge() -> ChargeOrder:
    return msgspec.structs.replace(CHARGE, reference=trx_ids.new(1) + "-1")


async def state(each: Adapter, reference: str) -> TransferState:
    answer = await each.transfer_state(reference)
    assert isinstance(answer, Done)
    return answer.value


async def final(each: Adapter, reference: str) -> TransferState:
    return await final_transfer(each, reference)


async def test_a_transfer_is_delivered(each: Adapter, setup: SimulatorSetup) -> None:
    banks = await each.banks()
    assert isinstance(banks, Done)
    assert "044" in {bank.code for bank in banks.value}
    before = await each.balance("NGN")
    order = await transfer(each)
    sent = await each.send(order)
    assert isinstance(sent, Done)
    found = await final(each, order.reference)
    assert (found.status, found.amount) == (TransferStatus.DELIVERED, order.amount)
    assert found.provider_reference == sent.value.provider_reference
    assert found.fee == sent.value.fee == Money("NGN", 2688)  # 26.875 naira, rounded
    after = await each.balance("NGN")
    assert isinstance(before, Done)
    assert isinstance(after, Done)
    assert after.value.minor <= before.value.minor - order.amount.minor
    assert isinstance(await each.send(order), Unknown)  # The reference has been used before.
    _, headers, raw = await setup.webhook()
    claim = Claim(order.amount.amount, "NGN")
    assert each.read_webhook(headers, raw) == WebhookEvent(
        WebhookSubject.TRANSFER, order.reference, claim, TransferStatus.DELIVERED
    )
    assert each.read_webhook({**headers, b"verif-hash": [b"x"]}, raw) == Forged()


async def test_a_transfer_that_waits_for_approval(each: Adapter, setup: SimulatorSetup) -> None:
    await setup.control("flutterwave/account", {"transfers_need_approval": True})
    order = await transfer(each)
    sent = await each.send(order)
    assert isinstance(sent, Done)
    assert sent.value.needs_action == APPROVAL
    assert (await state(each, order.reference)).needs_action == APPROVAL
    await setup.control(f"flutterwave/transfers/{order.reference}/approve", {})
    assert (await final(each, order.reference)).status is TransferStatus.DELIVERED


async def test_a_second_transfer_with_the_same_reference(
    each: Adapter, setup: SimulatorSetup
) -> None:
    await setup.control("flutterwave/account", {"references_are_unique": False})
    order = await transfer(each)
    for _ in range(2):
        assert isinstance(await each.send(order), Done)
    assert await state(each, order.reference) == TransferState(
        TransferStatus.PENDING, needs_action=SEVERAL
    )


async def test_the_filter_is_ignored(each: Adapter, setup: SimulatorSetup) -> None:
    await setup.control("flutterwave/account", {"ignores_reference_filter": True})
    first, second = await transfer(each), await transfer(each)
    assert await state(each, first.reference) == TransferState(TransferStatus.NOT_FOUND)
    assert isinstance(await each.send(first), Done)
    assert isinstance(await each.transfer_state(second.reference), Unknown)
    assert (await final(each, first.reference)).status is TransferStatus.DELIVERED


@pytest.mark.parametrize(
    ("word", "status"), [(None, TransferStatus.FAILED), ("REVERSED", TransferStatus.RETURNED)]
)
async def test_a_transfer_comes_back(
    each: Adapter, setup: SimulatorSetup, word: str | None, status: TransferStatus
) -> None:
    order = await transfer(each)
    await each.send(order)
    assert (await final(each, order.reference)).status is TransferStatus.DELIVERED
    outcome = {"status": "reversed"} | ({"provider_status": word} if word else {})
    await setup.control(f"flutterwave/transfers/{order.reference}/settle", outcome)
    assert (await state(each, order.reference)).status is status


@pytest.mark.parametrize(
    ("suffix", "status"),
    [
        ("_PMCK", TransferStatus.DELIVERED),
        ("_PMCK_ST_F", TransferStatus.FAILED),
        ("", TransferStatus.PENDING),
    ],
)
async def test_the_sandbox(
    client: HttpClient, setup: SimulatorSetup, suffix: str, status: TransferStatus
) -> None:
    await setup.control("flutterwave/account", {"secret_key": TEST_KEY})
    each = simulated(
        client, setup, secret_key=TEST_KEY, sandbox="true", test_reference_suffix=suffix
    )
    order = await transfer(each)
    assert isinstance(await each.send(order), Done)
    if status is TransferStatus.PENDING:
        marked = {"sandbox": "true", "test_reference_suffix": "_PMCK"}
        other = simulated(client, setup, secret_key=TEST_KEY, **marked)
        later = await transfer(other)
        assert isinstance(await other.send(later), Done)
        await final(other, later.reference)
        assert (await state(each, order.reference)).status is status
        return
    assert (await final(each, order.reference)).status is status
    _, headers, raw = await setup.webhook()
    event = each.read_webhook(headers, raw)
    assert isinstance(event, WebhookEvent)
    assert event.reference == order.reference.partition("_")[0]


async def test_a_payment_link_is_paid_and_refunded(each: Adapter, setup: SimulatorSetup) -> None:
    order = charge()
    checkout = await each.create_checkout(order)
    assert isinstance(checkout, Done)
    unpaid = await each.charge_state(order.reference)
    assert isinstance(unpaid, Done)
    assert unpaid.value.status is ReportedChargeStatus.NOT_FOUND
    await setup.control("flutterwave/account", {"unpaid_links_are_unknown": False})
    pending = await each.charge_state(order.reference)
    assert isinstance(pending, Done)
    assert pending.value.status is ReportedChargeStatus.PENDING
    await setup.control(f"flutterwave/charges/{order.reference}/pay", {})
    paid = await each.charge_state(order.reference)
    assert isinstance(paid, Done)
    assert (paid.value.status, paid.value.paid) == (ReportedChargeStatus.PAID, order.amount)
    _, headers, raw = await setup.webhook()
    claim = Claim(order.amount.amount, "NGN")
    assert each.read_webhook(headers, raw) == WebhookEvent(
        WebhookSubject.CHARGE, order.reference, claim, ReportedChargeStatus.PAID
    )
    refund = msgspec.structs.replace(
        REFUND, reference=trx_ids.new(1), charge_reference=order.reference
    )
    refunded = await each.refund(refund)
    assert isinstance(refunded, Done)
    assert (refunded.value.status, refunded.value.amount) == (
        ReportedRefundStatus.PENDING,
        refund.amount,
    )
    assert await final_refund(each, refunded.value) is ReportedRefundStatus.PAID
    # The amount exceeds the amount that can still be refunded.
    assert isinstance(await each.refund(refund), Unknown)


async def final_refund(each: Adapter, started: RefundState) -> ReportedRefundStatus:
    known = KnownAs(provider_reference=started.provider_reference, amount=started.amount)

    async def read() -> RefundState | None:
        answer = await each.refund_state("TXN9", known)
        assert isinstance(answer, Done), answer
        is_open = answer.value.status is ReportedRefundStatus.PENDING
        return None if is_open else answer.value

    found = await until(read)
    assert found is not None
    assert found.amount == started.amount
    return found.status


async def started_refund(each: Adapter, setup: SimulatorSetup) -> RefundState:
    order = charge()
    await each.create_checkout(order)
    await setup.control(f"flutterwave/charges/{order.reference}/pay", {})
    answer = await each.refund(msgspec.structs.replace(REFUND, charge_reference=order.reference))
    assert isinstance(answer, Done)
    return answer.value


async def test_a_started_refund_is_pending_until_flutterwave_has_paid_it(
    each: Adapter, setup: SimulatorSetup
) -> None:
    await setup.control("flutterwave/faults", {"refunds": "pending"})
    started = await started_refund(each, setup)
    known = KnownAs(provider_reference=started.provider_reference)
    path = f"flutterwave/refunds/{started.provider_reference}/settle"
    for word in ("completed", "processing", "pending-momo"):
        await setup.control(path, {"status": "processing", "provider_status": word})
        assert await each.refund_state("TXN9", known) == Done(started)
    await setup.control(path, {"status": "success", "provider_status": "completed-offline"})
    assert await final_refund(each, started) is ReportedRefundStatus.PAID


@pytest.mark.parametrize("is_in_meta", [False, True])
@pytest.mark.parametrize("outcome", ["success", "failed"])
async def test_the_result_of_a_refund(
    each: Adapter, setup: SimulatorSetup, outcome: str, is_in_meta: bool
) -> None:
    await setup.control("flutterwave/account", {"refund_result_is_in_meta": is_in_meta})
    await setup.control("flutterwave/faults", {"refunds": outcome})
    status = await final_refund(each, await started_refund(each, setup))
    assert status is ReportedRefundStatus("paid" if outcome == "success" else "failed")


async def test_a_one_time_account_is_paid(each: Adapter, setup: SimulatorSetup) -> None:
    order = charge()
    account = await each.create_virtual_account(order, None)
    assert isinstance(account, Done)
    assert account.value.amount == order.amount
    assert account.value.expires_at is not None
    await setup.control(f"flutterwave/charges/{order.reference}/pay", {})
    paid = await each.charge_state(order.reference)
    assert isinstance(paid, Done)
    assert paid.value.paid == order.amount


async def test_a_duplicate_charge_is_unknown(each: Adapter) -> None:
    order = charge()
    assert isinstance(await each.create_checkout(order), Done)
    assert isinstance(await each.create_checkout(order), Unknown)


async def test_wrong_keys(client: HttpClient, setup: SimulatorSetup) -> None:
    each = simulated(client, setup, secret_key="FLWSECK-wrong-X")
    for answer in (await each.balance("NGN"), await each.send(TRANSFER)):
        assert isinstance(answer, Unknown)
        assert not answer.can_pass
