"""Each test changes a real instance behind the product's back, and the quiet moment finds it."""

import json
import urllib.request
from collections.abc import AsyncIterator

import pytest

from tests.simulation.facts import Kind, Operation
from tests.simulation.plan import Step
from tests.simulation.quiet import QuietMoment
from tests.simulation.run import play
from tests.simulation.world import World
from tests.support import template

pytestmark = pytest.mark.long


def _step(number: int, name: str, **arguments: object) -> Step:
    return Step(1, number, "merchant 0", name, dict(arguments))


STEPS = [
    _step(1, "pay", amount=2_000_00, rail="a", outcome="success"),
    _step(2, "pay_out", amount=1_000_00, method="a", account="0123456789"),
]


def _operation(moment: QuietMoment, kind: Kind) -> Operation:
    """Returns the operation of STEPS. Automatic settlements are payouts too."""
    amounts = {step.arguments["amount"] for step in STEPS}
    [found] = [
        each
        for each in moment.world.model.operations.values()
        if each.kind is kind and each.amount in amounts
    ]
    return found


def _change_wallet(world: World, merchant: int, minor: int) -> None:
    world.live.instance.sql(
        f"UPDATE wallet SET balance_minor = balance_minor + {minor}"
        f" WHERE merchant_id = {merchant} AND environment = 'production'"
    )


def _send_at_provider_c(world: World, payout: Operation) -> None:
    """Sends a transfer to provider C with the reference of a payout that provider A delivered."""
    fields = {
        "account_bank": "C058",
        "account_number": "0123456789",
        "amount": payout.amount / 100,
        "currency": "NGN",
        "reference": payout.trx_id,
        "narration": "Sent twice",
    }
    request = urllib.request.Request(
        f"{world.live.simulator}/c/v3/transfers",
        json.dumps(fields).encode(),
        {"Content-Type": "application/json", "Authorization": "Bearer sim_c_secret"},
    )
    with urllib.request.urlopen(request) as reply:
        assert reply.status == 200


@pytest.fixture(scope="module")
async def moment(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[QuietMoment]:
    """A quiet moment after a payment and a payout, which match the model."""
    with template.shared_folder():
        world = World(tmp_path_factory.mktemp("world"))
        try:
            await world.open()
            moment = QuietMoment(world)
            assert await play(world, STEPS, moment) == []
            yield moment
        finally:
            await world.close()


async def test_a_second_transfer_of_a_payout_is_found(moment: QuietMoment) -> None:
    payout = _operation(moment, Kind.PAYOUT)
    _send_at_provider_c(moment.world, payout)
    found = await moment.look()
    assert f"{payout.trx_id} was paid 2 times, by rails a, c" in found
    moment.forget("transfers", "c")
    await moment.world.control("c/reset", {})


async def test_a_lost_notification_is_found(moment: QuietMoment) -> None:
    notices = moment.world.receiver.notices
    lost = notices.pop()
    [found] = await moment.look()
    assert "the receiver got []" in found
    notices.append(lost)


async def test_a_wallet_that_is_credited_twice_is_found(moment: QuietMoment) -> None:
    payment = _operation(moment, Kind.PAYMENT)
    _change_wallet(moment.world, payment.merchant, payment.credit)
    found = "\n".join(await moment.look())
    assert f"merchant {payment.merchant} has " in found
    assert "the ledger violates the invariant" in found
    _change_wallet(moment.world, payment.merchant, -payment.credit)


async def test_without_tampering_nothing_is_found(moment: QuietMoment) -> None:
    assert await moment.look() == []
