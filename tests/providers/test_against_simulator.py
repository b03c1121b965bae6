"""Adapters against the simulator over real HTTP: success, faults and webhooks."""

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web
from manilla_simulator.program import build
from manilla_simulator.settings import (
    CredentialsA,
    CredentialsB,
    CredentialsC,
    SimulatorSettings,
)

from manilla.kit.crypto import Keyring
from manilla.kit.db import Database
from manilla.kit.money import Money
from manilla.ledger import trx_ids
from manilla.platform.changes import ChangeWatch
from manilla.providers import credentials, wire
from manilla.providers.port import (
    Adapter,
    ChargeOrder,
    Claim,
    Done,
    EventKind,
    Forged,
    Headers,
    RefusalCode,
    Refused,
    ReportedChargeStatus,
    ReportedRefundStatus,
    TransferOrder,
    TransferStatus,
    Unknown,
    WebhookEvent,
)
from manilla.providers.rails import Rails, open_session
from tests.providers.conftest import ABC, adapter
from tests.providers.samples import CHARGE, REFUND, TRANSFER
from tests.timeouts import TIMEOUT_SECONDS


def _claim(order: ChargeOrder | TransferOrder) -> Claim:
    return Claim(order.amount.amount, order.amount.currency)


class SimulatorSetup:
    """The simulator, our rails to it, and the webhooks it sends us."""

    def __init__(self, session: aiohttp.ClientSession, simulator_url: str, own_url: str) -> None:
        self.session = session
        self.simulator_url = simulator_url
        self.own_url = own_url
        self.received: asyncio.Queue[tuple[str, Headers, bytes]] = asyncio.Queue()

    async def control(self, path: str, document: Any) -> None:
        url = f"{self.simulator_url}/control/api/{path}"
        async with self.session.post(url, json=document) as reply:
            assert reply.status == 200, await reply.text()

    async def receive(self, request: web.Request) -> web.Response:
        headers: dict[bytes, list[bytes]] = {}
        for name, value in request.raw_headers:
            headers.setdefault(name.lower(), []).append(value)
        provider = request.path.rsplit("/", 1)[1]
        await self.received.put((provider, headers, await request.read()))
        return web.Response()

    async def webhook(self) -> tuple[str, Headers, bytes]:
        return await asyncio.wait_for(self.received.get(), TIMEOUT_SECONDS)


async def _serve(app: web.Application, listener: socket.socket) -> web.AppRunner:
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.SockSite(runner, listener).start()
    return runner


@pytest.fixture
async def setup() -> AsyncIterator[SimulatorSetup]:
    simulator, ours = (socket.create_server(("127.0.0.1", 0)) for _ in range(2))
    urls = [f"http://127.0.0.1:{each.getsockname()[1]}" for each in (simulator, ours)]
    async with aiohttp.ClientSession() as session:
        setup = SimulatorSetup(session, *urls)
        settings = SimulatorSettings(
            mode="development", base_url=urls[0], webhook_base_url=urls[1], settle_seconds=0.02
        )
        receiving = web.Application()
        receiving.router.add_post("/webhooks/{provider}", setup.receive)
        runners = [await _serve(build(settings), simulator), await _serve(receiving, ours)]
        yield setup
        for runner in runners:
            await runner.cleanup()


@pytest.fixture
async def rails(db: Database, keyring: Keyring, setup: SimulatorSetup) -> AsyncIterator[Rails]:
    keys = {"providera": CredentialsA(), "providerb": CredentialsB(), "providerc": CredentialsC()}
    for provider, each in keys.items():
        given = {name: text for name, text in msgspec.to_builtins(each).items() if text}
        base_url = f"{setup.simulator_url}/{provider[-1]}"
        if provider == "providerb":
            given["default_va_bank"] = "000017"
        await credentials.change(db, keyring, provider, {**given, "base_url": base_url})
    async with open_session() as session:
        rails = Rails(db, keyring, ChangeWatch(db), session, is_production_mode=False)
        await rails.load()
        for provider in ABC:
            for each_rail in ("pay_in", "pay_out"):
                rails.health.rail(provider, each_rail).reset()  # type: ignore[arg-type]
        yield rails
    for provider in ABC:
        await credentials.clear(db, provider)


async def transfer(each: Adapter, account_number: str = "0690000031") -> TransferOrder:
    """A transfer order as a payout creates it, with the account already resolved."""
    bank_code = await first_bank(each)
    resolved = await each.resolve(bank_code, account_number)
    assert isinstance(resolved, Done)
    return msgspec.structs.replace(
        TRANSFER,
        reference=trx_ids.new(1),
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
    for _ in range(TIMEOUT_SECONDS * 50):
        state = await each.transfer_state(reference)
        assert isinstance(state, Done)
        if state.value.status is not TransferStatus.PENDING:
            return state.value.status
        await asyncio.sleep(0.02)
    return TransferStatus.PENDING


@pytest.mark.parametrize("provider", ABC)
async def test_a_transfer_is_resolved_sent_and_delivered(
    rails: Rails, setup: SimulatorSetup, provider: str
) -> None:
    each = adapter(rails, provider)
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
    assert isinstance(await each.send(order), Unknown)  # a repeated send means: query the status
    if provider != "providerb":
        sender, headers, raw = await setup.webhook()
        assert each.read_webhook(headers, raw) == WebhookEvent(
            *(EventKind.TRANSFER, order.reference, _claim(order), TransferStatus.DELIVERED)
        )
        assert each.read_webhook(headers, raw + b"\n") == Forged()
        assert sender == provider


@pytest.mark.parametrize("provider", ABC)
async def test_test_account_numbers_force_their_outcome(rails: Rails, provider: str) -> None:
    each = adapter(rails, provider)
    fails = await transfer(each, "0000000001")
    assert isinstance(await each.send(fails), Done)
    assert await final_state(each, fails.reference) is TransferStatus.FAILED
    unresolved = await each.resolve(await first_bank(each), "0000000002")
    assert isinstance(unresolved, Refused)
    assert unresolved.code is RefusalCode.INVALID_BENEFICIARY
    stays = await transfer(each, "0000000003")
    assert isinstance(await each.send(stays), Done)
    await asyncio.sleep(0.1)
    state = await each.transfer_state(stays.reference)
    assert isinstance(state, Done)
    assert state.value.status is TransferStatus.PENDING
    poor = await each.send(await transfer(each, "0000000004"))
    assert isinstance(poor, Refused)
    assert poor.code is RefusalCode.PROVIDER_INSUFFICIENT_BALANCE


async def test_a_bank_code_of_another_rail_is_rejected(rails: Rails) -> None:
    codes: dict[str, set[str]] = {}
    for provider in ABC:
        banks = await adapter(rails, provider).banks()
        assert isinstance(banks, Done)
        codes[provider] = {bank.code for bank in banks.value}
    for provider in ABC:
        foreign = set().union(*(codes[other] for other in ABC if other != provider))
        code = min(foreign - codes[provider])
        answer = await adapter(rails, provider).resolve(code, "0690000031")
        assert isinstance(answer, Refused)
        assert answer.code is RefusalCode.INVALID_BENEFICIARY


@pytest.mark.parametrize("provider", ABC)
@pytest.mark.parametrize("fault", ["timeout_after_accept", "5xx_after_accept"])
async def test_a_transfer_accepted_without_a_response_is_unknown_and_then_found(
    rails: Rails,
    setup: SimulatorSetup,
    provider: str,
    fault: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wire, "CALL_SECONDS", 0.3)
    each = adapter(rails, provider)
    order = await transfer(each)
    await setup.control(f"{provider}/faults", {"next": [{"call": "transfer", "fault": fault}]})
    assert isinstance(await each.send(order), Unknown)
    assert await final_state(each, order.reference) is TransferStatus.DELIVERED


@pytest.mark.parametrize("provider", ABC)
async def test_a_lost_transfer_is_not_found_and_can_be_sent_again(
    rails: Rails, setup: SimulatorSetup, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "CALL_SECONDS", 0.3)
    each = adapter(rails, provider)
    order = await transfer(each)
    await setup.control(
        f"{provider}/faults", {"next": [{"call": "transfer", "fault": "timeout_before"}]}
    )
    assert isinstance(await each.send(order), Unknown)
    assert await final_state(each, order.reference) is TransferStatus.NOT_FOUND
    assert isinstance(await each.send(order), Done)
    assert await final_state(each, order.reference) is TransferStatus.DELIVERED


@pytest.mark.parametrize("provider", ["providera", "providerc"])
async def test_forged_webhooks_are_detected(
    rails: Rails, setup: SimulatorSetup, provider: str
) -> None:
    each = adapter(rails, provider)
    await setup.control(f"{provider}/faults", {"webhooks": {"mode": "forge"}})
    assert isinstance(await each.send(await transfer(each)), Done)
    _, headers, raw = await setup.webhook()
    assert each.read_webhook(headers, raw) == Forged()


@pytest.mark.parametrize("provider", ABC)
async def test_a_hosted_charge_is_paid(rails: Rails, setup: SimulatorSetup, provider: str) -> None:
    each = adapter(rails, provider)
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
        *(EventKind.CHARGE, order.reference, _claim(order), ReportedChargeStatus.PAID)
    )


async def test_virtual_accounts_at_providers_a_and_b(rails: Rails, setup: SimulatorSetup) -> None:
    for provider in ("providera", "providerb"):
        each = adapter(rails, provider)
        order = msgspec.structs.replace(CHARGE, reference=trx_ids.new(1) + "-1")
        account = await each.create_virtual_account(order, "22222222222")
        assert isinstance(account, Done)
        assert account.value.amount == order.amount
        assert len(account.value.account_number) == 10
    short = msgspec.structs.replace(CHARGE, reference=trx_ids.new(1) + "-1")
    a = adapter(rails, "providera")
    await a.create_virtual_account(short, "22222222222")
    await setup.control(f"providera/charges/{short.reference}/pay", {"amount": 1000})
    state = await a.charge_state(short.reference)
    assert isinstance(state, Done)
    assert state.value.paid == Money("NGN", 100000)


@pytest.mark.parametrize("provider", ["providera", "providerc"])
async def test_a_paid_charge_is_refunded(
    rails: Rails, setup: SimulatorSetup, provider: str
) -> None:
    each = adapter(rails, provider)
    reference = trx_ids.new(1) + "-1"
    await each.create_checkout(msgspec.structs.replace(CHARGE, reference=reference))
    await setup.control(f"{provider}/charges/{reference}/pay", {})
    order = msgspec.structs.replace(REFUND, reference=trx_ids.new(1), charge_reference=reference)
    answer = await each.refund(order)
    assert isinstance(answer, Done)
    assert answer.value.status in (ReportedRefundStatus.PENDING, ReportedRefundStatus.PAID)


async def test_wrong_credentials_are_neither_success_nor_refusal(
    rails: Rails, db: Database, keyring: Keyring
) -> None:
    await credentials.change(db, keyring, "providera", {"secret_key": "wrong"})
    await rails.load()
    each = adapter(rails, "providera")
    assert isinstance(await each.balance("NGN"), Unknown)
    assert isinstance(await each.send(TRANSFER), Unknown)
