"""Monnify's adapter with Monnify's simulated API, whose code is independent of the adapter."""

import time
from datetime import timedelta
from types import SimpleNamespace

import msgspec
import pytest
from manilla_simulator.dialects.monnify import contract
from manilla_simulator.settings import MonnifyAccount
from manilla_simulator.state import now

from manilla.kit.http_client.client import HttpClient
from manilla.kit.money import Money
from manilla.ledger import trx_ids
from manilla.providers.kinds.monnify import tokens
from manilla.providers.kinds.monnify.adapter import Monnify
from manilla.providers.kinds.monnify.answers import OTP
from manilla.providers.port import (
    Answer,
    ChargeOrder,
    Claim,
    Done,
    Forged,
    RefundState,
    RefusalCode,
    Refused,
    ReportedChargeStatus,
    ReportedRefundStatus,
    TransferOrder,
    TransferStatus,
    Unknown,
    Unreadable,
    WebhookEvent,
    WebhookSubject,
)
from tests.providers.monnify.conftest import build
from tests.providers.samples import CHARGE, REFUND
from tests.providers.simulated import SimulatorSetup
from tests.providers.test_against_simulator import final_state, transfer
from tests.support.waiting import until

NAMES = ("api_key", "secret_key", "contract_code", "source_account_number")


@pytest.fixture
def each(setup: SimulatorSetup, client: HttpClient) -> Monnify:
    return _adapter(setup, client)


def _adapter(setup: SimulatorSetup, client: HttpClient, **more: str) -> Monnify:
    account = msgspec.to_builtins(MonnifyAccount())
    keys = {name: account[name] for name in NAMES}
    return build(client, f"{setup.simulator_url}/monnify", **{**keys, **more})


def _claim(order: ChargeOrder | TransferOrder) -> Claim:
    return Claim(order.amount.amount, order.amount.currency)


def _charge() -> ChargeOrder:
    return msgspec.structs.replace(CHARGE, reference=f"{trx_ids.new(1)}-1")


async def _paid_charge(each: Monnify, setup: SimulatorSetup) -> ChargeOrder:
    order = _charge()
    assert isinstance(await each.create_checkout(order), Done)
    await setup.control(f"monnify/charges/{order.reference}/pay", {})
    return order


async def test_a_transfer_is_resolved_sent_and_delivered(
    each: Monnify, setup: SimulatorSetup
) -> None:
    before = await each.balance("NGN")
    assert isinstance(before, Done)
    order = await transfer(each)
    sent = await each.send(order)
    assert isinstance(sent, Done)
    assert await final_state(each, order.reference) is TransferStatus.DELIVERED
    state = await each.transfer_state(order.reference)
    assert isinstance(state, Done)
    assert state.value.amount == order.amount
    after = await each.balance("NGN")
    assert isinstance(after, Done)
    assert after.value.minor <= before.value.minor - order.amount.minor
    # If a transfer is sent again, Manilla must query its status.
    assert isinstance(await each.send(order), Unknown)
    sender, headers, raw = await setup.webhook()
    event = each.read_webhook(headers, raw)
    assert isinstance(event, WebhookEvent)
    assert event == WebhookEvent(
        *(WebhookSubject.TRANSFER, order.reference, _claim(order), TransferStatus.DELIVERED),
        event.session_id,
    )
    assert event.session_id is not None
    assert len(event.session_id) == 30
    assert each.read_webhook(headers, raw + b"\n") == Forged()
    assert sender == "monnify"


async def test_a_duplicate_may_give_the_first_result(each: Monnify, setup: SimulatorSetup) -> None:
    await setup.control("monnify/account", {"duplicate_transfer_returns_first": True})
    order = await transfer(each)
    assert isinstance(await each.send(order), Done)
    assert isinstance(await each.send(order), Done)
    assert await final_state(each, order.reference) is TransferStatus.DELIVERED


async def test_a_transfer_that_waits_for_a_password(each: Monnify, setup: SimulatorSetup) -> None:
    await setup.control("monnify/account", {"transfers_need_otp": True})
    order = await transfer(each)
    sent = await each.send(order)
    assert isinstance(sent, Done)
    assert sent.value.needs_action == OTP
    state = await each.transfer_state(order.reference)
    assert isinstance(state, Done)
    assert (state.value.status, state.value.needs_action) == (TransferStatus.PENDING, OTP)
    await setup.control(f"monnify/transfers/{order.reference}/approve", {})
    assert await final_state(each, order.reference) is TransferStatus.DELIVERED


@pytest.mark.parametrize(
    ("steps", "word", "status"),
    [
        (["awaiting_approval"], "OTP_EMAIL_DISPATCH_FAILED", TransferStatus.PENDING),
        (["awaiting_approval"], "PENDING_BATCH_AUTHORIZATION", TransferStatus.PENDING),
        (["processing"], "AWAITING_PROCESSING", TransferStatus.PENDING),
        (["processing"], "IN_PROGRESS", TransferStatus.PENDING),
        (["processing", "success"], "COMPLETED", TransferStatus.DELIVERED),
        (["processing", "failed"], "EXPIRED", TransferStatus.FAILED),
        (["processing", "success", "reversed"], "REVERSED", TransferStatus.RETURNED),
    ],
)
async def test_every_word_for_a_transfer(
    each: Monnify, setup: SimulatorSetup, steps: list[str], word: str, status: TransferStatus
) -> None:
    await setup.control("monnify/account", {"transfers_need_otp": True})
    order = await transfer(each, "0000000003")
    assert isinstance(await each.send(order), Done)
    for step in steps:
        more = {"provider_status": word} if step == steps[-1] else {}
        path = f"monnify/transfers/{order.reference}/settle"
        await setup.control(path, {"status": step, **more})
    state = await each.transfer_state(order.reference)
    assert isinstance(state, Done)
    assert state.value.status is status


async def test_a_token_that_ends_is_renewed(each: Monnify, monkeypatch: pytest.MonkeyPatch) -> None:
    order = await transfer(each)
    two_hours = timedelta(hours=2)  # The access token is valid for one hour.
    late = SimpleNamespace(monotonic=lambda: time.monotonic() + two_hours.total_seconds())
    monkeypatch.setattr(tokens, "time", late)
    monkeypatch.setattr(contract, "now", lambda: now() + two_hours)
    assert isinstance(await each.send(order), Done)
    assert await final_state(each, order.reference) is TransferStatus.DELIVERED


async def test_answers_may_omit_the_flag_and_quote_no_amounts(
    each: Monnify, setup: SimulatorSetup
) -> None:
    changed = {"omits_request_successful": True, "balances_are_text": False}
    await setup.control("monnify/account", changed)
    assert isinstance(await each.balance("NGN"), Done)
    order = await transfer(each)
    assert isinstance(await each.send(order), Done)
    assert isinstance(await each.send(order), Unknown)
    assert await final_state(each, order.reference) is TransferStatus.DELIVERED


async def test_a_hosted_charge_is_paid(each: Monnify, setup: SimulatorSetup) -> None:
    order = _charge()
    checkout = await each.create_checkout(order)
    assert isinstance(checkout, Done)
    async with setup.session.get(checkout.value.checkout_url) as page:
        assert page.status == 200
    pending = await each.charge_state(order.reference)
    assert isinstance(pending, Done)
    assert pending.value.status is ReportedChargeStatus.PENDING
    assert isinstance(await each.create_checkout(order), Unknown)  # a duplicate
    await setup.control(f"monnify/charges/{order.reference}/pay", {})
    paid = await each.charge_state(order.reference)
    assert isinstance(paid, Done)
    assert (paid.value.status, paid.value.paid) == (ReportedChargeStatus.PAID, order.amount)
    _, headers, raw = await setup.webhook()
    read = each.read_webhook(headers, raw)
    assert read == WebhookEvent(
        *(WebhookSubject.CHARGE, order.reference, _claim(order), ReportedChargeStatus.PAID)
    )
    missing = await each.charge_state("TXN404-1")
    assert isinstance(missing, Done)
    assert missing.value.status is ReportedChargeStatus.NOT_FOUND


@pytest.mark.parametrize("amount", [1000, 2000])
async def test_a_one_time_account_and_a_wrong_amount(
    each: Monnify, setup: SimulatorSetup, amount: int
) -> None:
    await setup.control("monnify/account", {"accepts_underpayment": True})
    order = _charge()
    account = await each.create_virtual_account(order, None)
    assert isinstance(account, Done)
    assert account.value.amount == order.amount
    assert len(account.value.account_number) == 10
    assert account.value.expires_at is not None
    await setup.control(f"monnify/charges/{order.reference}/pay", {"amount": amount})
    state = await each.charge_state(order.reference)
    assert isinstance(state, Done)
    assert state.value.status is ReportedChargeStatus.PAID
    assert state.value.paid == Money("NGN", amount * 100)


async def test_a_rejected_payment_leaves_the_charge_open(
    each: Monnify, setup: SimulatorSetup
) -> None:
    order = _charge()
    assert isinstance(await each.create_virtual_account(order, None), Done)
    url = f"{setup.simulator_url}/control/api/monnify/charges/{order.reference}/pay"
    async with setup.session.post(url, json={"amount": 10}) as reply:
        assert reply.status == 409
    _, headers, raw = await setup.webhook()
    assert each.read_webhook(headers, raw) == WebhookEvent(WebhookSubject.CHARGE, order.reference)
    state = await each.charge_state(order.reference)
    assert isinstance(state, Done)
    assert state.value.status is ReportedChargeStatus.PENDING


async def test_a_refund_of_a_card_payment_is_rejected(each: Monnify, setup: SimulatorSetup) -> None:
    await setup.control("monnify/account", {"rejects_card_refunds": True})
    charge = await _paid_charge(each, setup)
    order = msgspec.structs.replace(
        REFUND, reference=trx_ids.new(1), charge_reference=charge.reference
    )
    message = "Refund not permitted for specified transaction."
    assert await each.refund(order) == Refused(RefusalCode.PAYMENT_DECLINED, message)


@pytest.mark.parametrize("says_early", [False, True])
async def test_a_refund(each: Monnify, setup: SimulatorSetup, says_early: bool) -> None:
    await setup.control("monnify/account", {"refunds_say_completed_early": says_early})
    charge = await _paid_charge(each, setup)
    order = msgspec.structs.replace(
        REFUND, reference=trx_ids.new(1), charge_reference=charge.reference
    )
    missing = Done(RefundState(ReportedRefundStatus.NOT_FOUND))
    assert await each.refund_state(order.reference) == missing
    pending = Done(RefundState(ReportedRefundStatus.PENDING, order.amount))
    assert await each.refund(order) == pending

    async def settled() -> Answer[RefundState] | None:
        state = await each.refund_state(order.reference)
        return None if state == pending else state

    assert await until(settled) == Done(RefundState(ReportedRefundStatus.PAID, order.amount))
    assert isinstance(await each.refund(order), Unknown)  # a duplicate
    events = [each.read_webhook(*(await setup.webhook())[1:]) for _ in range(2)]
    claim = Claim(order.amount.amount, None)
    refunded = WebhookEvent(
        *(WebhookSubject.REFUND, order.reference, claim, ReportedRefundStatus.PAID)
    )
    assert refunded in events


async def test_the_sandboxs_webhooks_settle_nothing(
    setup: SimulatorSetup, client: HttpClient
) -> None:
    await setup.control("monnify/account", {"api_key": "MK_TEST_1"})
    sandbox = _adapter(setup, client, api_key="MK_TEST_1", sandbox="true")
    order = await transfer(sandbox)
    assert isinstance(await sandbox.send(order), Done)
    assert await final_state(sandbox, order.reference) is TransferStatus.DELIVERED
    _, headers, raw = await setup.webhook()
    assert isinstance(sandbox.read_webhook(headers, raw), Unreadable)
    live = _adapter(setup, client)
    assert live.read_webhook(headers, raw) == Forged()


async def test_wrong_keys_are_neither_success_nor_refusal(
    setup: SimulatorSetup, client: HttpClient
) -> None:
    wrong = _adapter(setup, client, secret_key="wrong")
    order = await transfer(_adapter(setup, client))
    answer = await wrong.send(order)
    assert isinstance(answer, Unknown)
    assert not answer.can_pass
