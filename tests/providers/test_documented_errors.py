"""The simulator's errors: which of them reject a transfer or a refund.

`documented_errors.json` lists the errors that are final according to the provider's documentation,
by their code at Manilla. After every other error, the transfer or refund may exist.
"""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from manilla.kit.http_client.client import HttpClient
from manilla.ledger import trx_ids
from manilla.providers.port import (
    Adapter,
    Answer,
    Done,
    RefundState,
    RefusalCode,
    Refused,
    Sent,
    Unknown,
)
from tests.providers.adapters import Adapters
from tests.providers.samples import CHARGE, REFUND, TRANSFER
from tests.providers.simulated import SimulatorSetup
from tests.support import kinds

FINAL = json.loads(Path(__file__).with_name("documented_errors.json").read_text())


@pytest.mark.parametrize("kind", FINAL)
async def test_only_a_documented_error_rejects_a_transfer(
    client: HttpClient, setup: SimulatorSetup, kind: str
) -> None:
    adapters = Adapters(client)
    each = adapters.add(kind, **kinds.BY_RAIL[kind].credentials(setup.simulator_url))
    final = by_message(FINAL[kind]["transfer"])
    for message in await messages(setup, kind, final):
        await refuse(setup, kind, "transfer", message)
        adapters.close_breakers()
        reference = each.transfer_reference(trx_ids.new(1))
        answer = await each.send(msgspec.structs.replace(TRANSFER, reference=reference))
        assert result_of(answer) == final.get(message), message


@pytest.mark.parametrize("kind", FINAL)
async def test_only_a_documented_error_rejects_a_refund(
    client: HttpClient, setup: SimulatorSetup, kind: str
) -> None:
    adapters = Adapters(client)
    each = adapters.add(kind, **kinds.BY_RAIL[kind].credentials(setup.simulator_url))
    charge = await paid_charge(setup, kind, each)
    final = by_message(FINAL[kind]["refund"])
    for message in await messages(setup, kind, final):
        await refuse(setup, kind, "refund", message)
        adapters.close_breakers()
        order = msgspec.structs.replace(
            REFUND, reference=trx_ids.new(1), charge_reference=charge, reason=""
        )
        assert result_of(await each.refund(order)) == final.get(message), message


def by_message(codes: dict[str, list[str]]) -> dict[str, RefusalCode]:
    return {message: RefusalCode(code) for code, listed in codes.items() for message in listed}


async def messages(setup: SimulatorSetup, kind: str, final: dict[str, RefusalCode]) -> list[str]:
    async with setup.session.get(f"{setup.simulator_url}/control/api/state") as reply:
        state: Any = await reply.json()
    found = [refusal["message"] for refusal in state[kind]["refusals"]]
    assert final.keys() < set(found)
    return found


async def refuse(setup: SimulatorSetup, kind: str, call: str, message: str) -> None:
    # Two calls, because Paystack's adapter creates an invalid recipient again and repeats the call.
    fault = {"call": call, "fault": "refuse", "message": message, "times": 2}
    await setup.control(f"{kind}/faults", {"next": [fault]})


def result_of(answer: Answer[Sent] | Answer[RefundState]) -> RefusalCode | None:
    """Returns the code of a rejection, or None if the transfer or refund may exist."""
    assert isinstance(answer, Refused | Unknown), answer
    return answer.code if isinstance(answer, Refused) else None


async def paid_charge(setup: SimulatorSetup, kind: str, each: Adapter) -> str:
    order = msgspec.structs.replace(CHARGE, reference=f"{trx_ids.new(1)}-1")
    assert isinstance(await each.create_checkout(order), Done)
    await setup.control(f"{kind}/charges/{order.reference}/pay", {})
    return order.reference
