"""Provider adapters with the simulator over HTTP: success, faults and webhooks."""

import msgspec
import pytest

from manilla.kit.http_client.client import HttpClient
from manilla.kit.money import Money
from manilla.ledger import trx_ids
from manilla.providers.port import (
    Adapter,
    ChargeOrder,
    Claim,
    Done,
    Forged,
    RefusalCode,
    Refused,
    ReportedChargeStatus,
    ReportedRefundStatus,
    TransferOrder,
    TransferStatus,
    Unknown,
    WebhookEvent,
    WebhookSubject,
)
from tests.providers.adapters import Adapters
from tests.providers.conftest import ABC
from tests.providers.samples import CHARGE, REFUND, TRANSFER
from tests.providers.simulated import SimulatorSetup, final_transfer
from tests.support import kinds

EVERY_KIND = tuple(kinds.BY_PROVIDER)
# Before a transfer, Paystack's adapter creates the recipient.
LOST = [(provider, "transfer") for provider in EVERY_KIND] + [("paystack", "recipient")]


def _claim(order: ChargeOrder | TransferOrder) -> Claim:
    return Claim(order.amount.amount, order.amount.currency)


@pytest.fixture
def adapters(client: HttpClient, setup: SimulatorSetup) -> Adapters:
    adapters = Adapters(client)
    for provider, kind in kinds.BY_PROVIDER.items():
        adapters.add(provider, **kind.credentials(setup.simulator_url))
    return adapters


async def transfer(each: Adapter, account_number: str = "0690000031") -> TransferOrder:
    """Returns a transfer order like a payout's, with an account name that is already resolved."""
    bank_code = await first_bank(each)
    resolved = await each.resolve(bank_code, account_number)
    assert isinstance(resolved, Done)
    return msgspec.structs.replace(
        TRANSFER,
        reference=each.transfer_reference(trx_ids.new(1)),
        bank_code=bank_code,
        account_number=account_number,
        account_name=resolved.value.account_name,
        name_enquiry_reference=resolved.value.name_enquiry_reference,
        notification_url="",
    )


async def first_bank(each: Adapter) -> str:
    banks = await each.banks()
    assert isinstance(banks, Done)
    return banks.value[0].code


async def final_state(each: Adapter, reference: str) -> TransferStatus:
    return (await final_transfer(each, reference)).status


@pytest.mark.parametrize("provider", ABC)
async def test_a_transfer_is_resolved_sent_and_delivered(
    adapters: Adapters, setup: SimulatorSetup, provider: str
) -> None:
    each = adapters.of(provider)
    before = await each.balance("NGN")
    assert isinstance(before, Done)
    order = await transfer(each)
    assert order.account_name
    sent = await each.send(order)
    assert isinstance(sent, Done)
    assert await final_state(each, order.reference) is TransferStatus.DELIVERED
    after = await each.balance("NGN")
    assert isinstance(after, Done)
    assert after.value.minor <= before.value.minor - order.amount.minor
    # If a transfer is sent again, Manilla must query its status.
    assert isinstance(await each.send(order), Unknown)
    if provider != "providerb":
        sender, headers, raw = await setup.webhook()
        assert each.read_webhook(headers, raw) == WebhookEvent(
            *(WebhookSubject.TRANSFER, order.reference, _claim(order), TransferStatus.DELIVERED)
        )
        assert each.read_webhook(headers, raw + b"\n") == Forged()
        assert sender == provider


@pytest.mark.parametrize("provider", EVERY_KIND)
async def test_test_account_numbers_force_their_outcome(adapters: Adapters, provider: str) -> None:
    each = adapters.of(provider)
    fails = await transfer(each, "0000000001")
    assert isinstance(await each.send(fails), Done)
    failed = await final_transfer(each, fails.reference)
    assert (failed.status, bool(failed.message)) == (TransferStatus.FAILED, True)
    unresolved = await each.resolve(await first_bank(each), "0000000002")
    assert isinstance(unresolved, Refused)
    assert unresolved.code is RefusalCode.INVALID_BENEFICIARY
    stays = await transfer(each, "0000000003")
    assert isinstance(await each.send(stays), Done)
    later = await transfer(each)
    assert isinstance(await each.send(later), Done)
    assert await final_state(each, later.reference) is TransferStatus.DELIVERED
    state = await each.transfer_state(stays.reference)
    assert isinstance(state, Done)
    assert state.value.status is TransferStatus.PENDING
    poor = await each.send(await transfer(each, "0000000004"))
    assert isinstance(poor, Refused)
    assert poor.code is RefusalCode.PROVIDER_INSUFFICIENT_BALANCE


async def test_a_bank_code_of_another_rail_is_rejected(adapters: Adapters) -> None:
    codes: dict[str, set[str]] = {}
    for provider in ABC:
        banks = await adapters.of(provider).banks()
        assert isinstance(banks, Done)
        codes[provider] = {bank.code for bank in banks.value}
    for provider in ABC:
        foreign = set().union(*(codes[other] for other in ABC if other != provider))
        code = min(foreign - codes[provider])
        answer = await adapters.of(provider).resolve(code, "0690000031")
        assert isinstance(answer, Refused)
        assert answer.code is RefusalCode.INVALID_BENEFICIARY


@pytest.mark.parametrize("provider", EVERY_KIND)
@pytest.mark.parametrize(
    "fault", ["timeout_after_accept", "5xx_after_accept", "reset_after_accept"]
)
@pytest.mark.usefixtures("hanging_calls_end")
async def test_a_transfer_accepted_without_a_response_is_unknown_and_then_found(
    adapters: Adapters,
    setup: SimulatorSetup,
    provider: str,
    fault: str,
) -> None:
    each = adapters.of(provider)
    order = await transfer(each)
    await setup.control(f"{provider}/faults", {"next": [{"call": "transfer", "fault": fault}]})
    assert isinstance(await each.send(order), Unknown)
    assert await final_state(each, order.reference) is TransferStatus.DELIVERED


@pytest.mark.parametrize(("provider", "call"), LOST)
@pytest.mark.parametrize("fault", ["timeout_before", "5xx_before"])
@pytest.mark.usefixtures("hanging_calls_end")
async def test_a_lost_transfer_is_not_found_and_can_be_sent_again(
    adapters: Adapters, setup: SimulatorSetup, provider: str, call: str, fault: str
) -> None:
    each = adapters.of(provider)
    order = await transfer(each)
    await setup.control(f"{provider}/faults", {"next": [{"call": call, "fault": fault}]})
    assert isinstance(await each.send(order), Unknown)
    assert await final_state(each, order.reference) is TransferStatus.NOT_FOUND
    assert isinstance(await each.send(order), Done)
    assert await final_state(each, order.reference) is TransferStatus.DELIVERED


@pytest.mark.parametrize("provider", [each for each in EVERY_KIND if each != "providerb"])
async def test_forged_webhooks_are_detected(
    adapters: Adapters, setup: SimulatorSetup, provider: str
) -> None:
    each = adapters.of(provider)
    await setup.control(f"{provider}/faults", {"webhooks": {"mode": "forge"}})
    assert isinstance(await each.send(await transfer(each)), Done)
    _, headers, raw = await setup.webhook()
    assert each.read_webhook(headers, raw) == Forged()


@pytest.mark.parametrize("provider", ABC)
async def test_a_hosted_charge_is_paid(
    adapters: Adapters, setup: SimulatorSetup, provider: str
) -> None:
    each = adapters.of(provider)
    order = msgspec.structs.replace(
        CHARGE,
        reference=trx_ids.new(1) + "-1",
        notification_url=f"{setup.own_url}/webhooks/{provider}",
    )
    checkout = await each.create_checkout(order)
    assert isinstance(checkout, Done)
    async with setup.session.get(checkout.value.checkout_url) as page:
        assert page.status == 200
    pending = await each.charge_state(order.reference)
    assert isinstance(pending, Done)
    assert pending.value.status is ReportedChargeStatus.PENDING
    await setup.control(f"{provider}/charges/{order.reference}/pay", {})
    paid = await each.charge_state(order.reference)
    assert isinstance(paid, Done)
    assert (paid.value.status, paid.value.paid) == (ReportedChargeStatus.PAID, order.amount)
    _, headers, raw = await setup.webhook()
    assert each.read_webhook(headers, raw) == WebhookEvent(
        *(WebhookSubject.CHARGE, order.reference, _claim(order), ReportedChargeStatus.PAID)
    )


async def test_virtual_accounts_at_providers_a_and_b(
    adapters: Adapters, setup: SimulatorSetup
) -> None:
    for provider in ("providera", "providerb"):
        each = adapters.of(provider)
        order = msgspec.structs.replace(CHARGE, reference=trx_ids.new(1) + "-1")
        account = await each.create_virtual_account(order, "22222222222")
        assert isinstance(account, Done)
        assert account.value.amount == order.amount
        assert len(account.value.account_number) == 10
    short = msgspec.structs.replace(CHARGE, reference=trx_ids.new(1) + "-1")
    a = adapters.of("providera")
    await a.create_virtual_account(short, "22222222222")
    await setup.control(f"providera/charges/{short.reference}/pay", {"amount": 1000})
    state = await a.charge_state(short.reference)
    assert isinstance(state, Done)
    assert state.value.paid == Money("NGN", 100000)


@pytest.mark.parametrize("provider", ["providera", "providerc"])
async def test_a_paid_charge_is_refunded(
    adapters: Adapters, setup: SimulatorSetup, provider: str
) -> None:
    each = adapters.of(provider)
    reference = trx_ids.new(1) + "-1"
    await each.create_checkout(msgspec.structs.replace(CHARGE, reference=reference))
    await setup.control(f"{provider}/charges/{reference}/pay", {})
    order = msgspec.structs.replace(REFUND, reference=trx_ids.new(1), charge_reference=reference)
    answer = await each.refund(order)
    assert isinstance(answer, Done)
    assert answer.value.status in (ReportedRefundStatus.PENDING, ReportedRefundStatus.PAID)


async def test_wrong_credentials_are_neither_success_nor_refusal(
    adapters: Adapters, setup: SimulatorSetup
) -> None:
    given = kinds.BY_PROVIDER["providera"].credentials(setup.simulator_url)
    each = adapters.add("providera", **{**given, "secret_key": "wrong"})
    assert isinstance(await each.balance("NGN"), Unknown)
    assert isinstance(await each.send(TRANSFER), Unknown)
