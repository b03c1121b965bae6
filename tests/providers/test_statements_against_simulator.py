"""Statements of the simulator, over real HTTP, with pages that overlap."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from manilla_simulator.dialects.paystack import common as simulated_paystack
from manilla_simulator.settings import MonnifyAccount

from manilla.kit.crypto import Keyring
from manilla.kit.db import Database
from manilla.kit.money import Money
from manilla.ledger import trx_ids
from manilla.platform.changes import ChangeWatch
from manilla.providers import credentials, statements
from manilla.providers.kinds.kora import statement as kora_statement
from manilla.providers.kinds.monnify import statement as monnify_statement
from manilla.providers.port import Adapter, Direction, Done, LineKind, StatementLine, TransferStatus
from manilla.providers.rails import Rails, open_session
from manilla.providers.statements import StatementNotRead
from tests.providers import samples
from tests.providers import test_against_simulator as common
from tests.providers.conftest import adapter
from tests.providers.test_against_simulator import SimulatorSetup
from tests.timeouts import TIMEOUT_SECONDS

setup = common.setup
PAGE = 3  # lines per page, so that a few lines need several pages
MONNIFY = MonnifyAccount()
KEYS = {
    "paystack": {"secret_key": "sk_live_simulated"},
    "kora": {"secret_key": "sk_live_simulated"},
    "monnify": {
        "api_key": MONNIFY.api_key,
        "secret_key": MONNIFY.secret_key,
        "contract_code": MONNIFY.contract_code,
        "source_account_number": MONNIFY.source_account_number,
    },
}
every_kind = pytest.mark.parametrize("kind", KEYS)


@pytest.fixture
async def rails(
    db: Database, keyring: Keyring, setup: SimulatorSetup, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Rails]:
    monkeypatch.setattr(simulated_paystack, "PAGE_SIZE", PAGE)
    monkeypatch.setattr(kora_statement, "LINES_PER_PAGE", PAGE)
    monkeypatch.setattr(monnify_statement, "TRANSFERS_PER_PAGE", PAGE)
    for kind, given in KEYS.items():
        await credentials.clear(db, kind)
        url = {"base_url": f"{setup.simulator_url}/{kind}"}
        await credentials.change(db, keyring, kind, {**given, **url})
    async with open_session() as session:
        rails = Rails(db, keyring, ChangeWatch(db), session, is_production_mode=False)
        await rails.load()
        for kind in KEYS:
            for direction in Direction:
                rails.health.rail(kind, direction).reset()
        yield rails
    for kind in KEYS:
        await credentials.clear(db, kind)


async def pay_out(provider: Adapter, count: int) -> list[str]:
    """Sends transfers and waits until they are delivered. Returns their transaction ids."""
    trx_ids_ = [trx_ids.new(1) for _ in range(count)]
    resolved = await provider.resolve("044", "0690000031")
    assert isinstance(resolved, Done)
    for trx_id in trx_ids_:
        reference = provider.transfer_reference(trx_id)
        order = msgspec.structs.replace(
            samples.TRANSFER, reference=reference, account_name=resolved.value.account_name
        )
        assert isinstance(await provider.send(order), Done)
        await _delivered(provider, reference)
    return trx_ids_


async def _delivered(provider: Adapter, reference: str) -> None:
    for _ in range(TIMEOUT_SECONDS * 50):
        answer = await provider.transfer_state(reference)
        if isinstance(answer, Done) and answer.value.status is TransferStatus.DELIVERED:
            return
        await asyncio.sleep(0.02)
    raise AssertionError("the transfer is not delivered")


async def read(provider: Adapter) -> list[StatementLine]:
    now = datetime.now(UTC)
    period = (now - timedelta(hours=1), now + timedelta(hours=1))
    return [line async for page in statements.read(provider, *period, "NGN") for line in page]


def _named(line: StatementLine) -> str | None:
    return line.reference or line.provider_reference


async def _names(provider: Adapter, kind: str, trx_ids_: list[str]) -> list[str | None]:
    """What the statement calls these transfers: Paystack names only its own numbers."""
    if kind != "paystack":
        return [*trx_ids_]
    names = []
    for trx_id in trx_ids_:
        state = await provider.transfer_state(provider.transfer_reference(trx_id))
        assert isinstance(state, Done)
        names.append(state.value.provider_reference)
    return names


@every_kind
@pytest.mark.parametrize("overlap", [0, 1, 2])
async def test_every_transfer_has_its_line_though_pages_overlap(
    rails: Rails, setup: SimulatorSetup, kind: str, overlap: int
) -> None:
    provider = adapter(rails, kind)
    before = await provider.balance("NGN")
    sent = await pay_out(provider, 8)
    await setup.control(f"{kind}/faults", {"statement_overlap": overlap})
    lines = await read(provider)
    transfers = [line for line in lines if line.kind is LineKind.TRANSFER]
    assert {*map(_named, transfers)} == {*await _names(provider, kind, sent)}
    assert len(transfers) == len(sent)
    after = await provider.balance("NGN")
    assert isinstance(before, Done)
    assert isinstance(after, Done)
    moved = Money("NGN", sum(line.amount.minor for line in lines))
    assert after.value == before.value + moved


@every_kind
async def test_a_period_without_movements_has_no_lines(rails: Rails, kind: str) -> None:
    provider = adapter(rails, kind)
    await pay_out(provider, 1)
    earlier = datetime.now(UTC) - timedelta(days=9)
    period = (earlier, earlier + timedelta(days=2))
    assert [page async for page in statements.read(provider, *period, "NGN")] == [[]]


@every_kind
async def test_a_statement_that_breaks_off_is_an_error(
    rails: Rails, setup: SimulatorSetup, kind: str
) -> None:
    provider = adapter(rails, kind)
    await pay_out(provider, PAGE + 1)
    fault = {"call": "statement", "fault": "garbage_after_accept", "times": None}
    await setup.control(f"{kind}/faults", {"next": [fault]})
    with pytest.raises(StatementNotRead):
        await read(provider)


@pytest.mark.parametrize("kind", ["paystack", "kora"])
async def test_a_charge_and_its_refund_and_a_top_up_are_lines(
    rails: Rails, setup: SimulatorSetup, kind: str
) -> None:
    provider = adapter(rails, kind)
    charge = msgspec.structs.replace(samples.CHARGE, reference=f"{trx_ids.new(1)}-1")
    assert isinstance(await provider.create_checkout(charge), Done)
    await setup.control(f"{kind}/charges/{charge.reference}/pay", {})
    refund = msgspec.structs.replace(
        samples.REFUND, reference=trx_ids.new(1), charge_reference=charge.reference
    )
    refunded = await provider.refund(refund)
    assert isinstance(refunded, Done), refunded
    await setup.control(f"{kind}/balance", {"available": 5})
    lines = await read(provider)
    kinds = {line.kind: line for line in lines}
    assert set(kinds) == {LineKind.CHARGE, LineKind.REFUND, LineKind.OTHER}
    state = await provider.charge_state(charge.reference)
    assert isinstance(state, Done)
    expected = state.value.provider_reference if kind == "paystack" else charge.reference
    assert _named(kinds[LineKind.CHARGE]) == expected
    assert kinds[LineKind.REFUND].amount == Money("NGN", -refund.amount.minor)
    assert kinds[LineKind.OTHER].balance_after == Money("NGN", 500)


async def test_a_returned_transfer_of_monnify_has_lines_in_both_directions(
    rails: Rails, setup: SimulatorSetup
) -> None:
    provider = adapter(rails, "monnify")
    [trx_id] = await pay_out(provider, 1)
    await setup.control(f"monnify/transfers/{trx_id}/settle", {"status": "reversed"})
    lines = await read(provider)
    assert len(lines) == 4
    assert sum(line.amount.minor for line in lines) == 0
