"""The simulator's statements over real HTTP, with overlapping pages."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from manilla_simulator.dialects.paystack import common as simulated_paystack
from manilla_simulator.settings import MonnifyAccount

from manilla.kit.http_client.client import HttpClient
from manilla.kit.money import Money
from manilla.ledger import trx_ids
from manilla.providers import statements
from manilla.providers.kinds.kora import statement as kora_statement
from manilla.providers.kinds.monnify import statement as monnify_statement
from manilla.providers.port import Adapter, Done, LineKind, StatementLine, TransferStatus
from manilla.providers.statements import StatementNotRead
from tests.providers import samples
from tests.providers.adapters import Adapters
from tests.providers.simulated import SimulatorSetup, final_transfer

PAGE = 3  # Pages have few lines, so that even a short provider statement has several pages.
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
def adapters(
    client: HttpClient, setup: SimulatorSetup, monkeypatch: pytest.MonkeyPatch
) -> Adapters:
    use_small_pages(monkeypatch)
    adapters = Adapters(client)
    for kind, given in accounts(setup).items():
        adapters.add(kind, **given)
    return adapters


def accounts(setup: SimulatorSetup) -> dict[str, dict[str, str]]:
    """Returns our settings for each account at the simulator."""
    url = setup.simulator_url
    return {kind: {**given, "base_url": f"{url}/{kind}"} for kind, given in KEYS.items()}


def use_small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated_paystack, "PAGE_SIZE", PAGE)
    monkeypatch.setattr(kora_statement, "LINES_PER_PAGE", PAGE)
    monkeypatch.setattr(monnify_statement, "TRANSFERS_PER_PAGE", PAGE)


async def pay_out(provider: Adapter, count: int) -> list[str]:
    """Sends transfers, waits until they are delivered, and returns their transaction ids."""
    trx_ids_ = [trx_ids.new(1) for _ in range(count)]
    resolved = await provider.resolve("044", "0690000031")
    assert isinstance(resolved, Done)
    for trx_id in trx_ids_:
        reference = provider.transfer_reference(trx_id)
        order = msgspec.structs.replace(
            samples.TRANSFER, reference=reference, account_name=resolved.value.account_name
        )
        assert isinstance(await provider.send(order), Done)
        assert (await final_transfer(provider, reference)).status is TransferStatus.DELIVERED
    return trx_ids_


async def read(provider: Adapter) -> list[StatementLine]:
    now = datetime.now(UTC)
    period = (now - timedelta(hours=1), now + timedelta(hours=1))
    return [line async for page in statements.read(provider, *period, "NGN") for line in page]


def _named(line: StatementLine) -> str | None:
    return line.reference or line.provider_reference


async def _names(provider: Adapter, kind: str, trx_ids_: list[str]) -> list[str | None]:
    """Returns the transfers' references in the statement. Paystack uses its own ids there."""
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
    adapters: Adapters, setup: SimulatorSetup, kind: str, overlap: int
) -> None:
    provider = adapters.of(kind)
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
async def test_a_period_without_movements_has_no_lines(adapters: Adapters, kind: str) -> None:
    provider = adapters.of(kind)
    await pay_out(provider, 1)
    earlier = datetime.now(UTC) - timedelta(days=9)
    period = (earlier, earlier + timedelta(days=2))
    assert [page async for page in statements.read(provider, *period, "NGN")] == [[]]


@every_kind
async def test_a_statement_that_breaks_off_is_an_error(
    adapters: Adapters, setup: SimulatorSetup, kind: str
) -> None:
    provider = adapters.of(kind)
    await pay_out(provider, PAGE + 1)
    fault = {"call": "statement", "fault": "garbage_after_accept", "times": None}
    await setup.control(f"{kind}/faults", {"next": [fault]})
    with pytest.raises(StatementNotRead):
        await read(provider)


@pytest.mark.parametrize("kind", ["paystack", "kora"])
async def test_a_charge_and_its_refund_and_a_top_up_are_lines(
    adapters: Adapters, setup: SimulatorSetup, kind: str
) -> None:
    provider = adapters.of(kind)
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
    adapters: Adapters, setup: SimulatorSetup
) -> None:
    provider = adapters.of("monnify")
    [trx_id] = await pay_out(provider, 1)
    await setup.control(f"monnify/transfers/{trx_id}/settle", {"status": "reversed"})
    lines = await read(provider)
    assert len(lines) == 4
    assert sum(line.amount.minor for line in lines) == 0
