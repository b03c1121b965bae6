"""Webhooks about transactions that `manilla provider check` has created."""

import pytest

from manilla.providers import credentials
from manilla.providers.checks import references
from manilla.providers.checks.account import check_account
from manilla.providers.rails import open_client
from manilla.services import Services
from tests.support.provider_simulator import ProviderSimulator


@pytest.fixture
async def simulator(simulated_providers: ProviderSimulator) -> ProviderSimulator:
    await simulated_providers.reset()
    return simulated_providers


async def is_stored(services: Services, reference: str) -> bool:
    return bool(
        await services.db.value("SELECT count(*) FROM webhook WHERE reference = $1", reference)
    )


async def open_cases(services: Services, prefix: str) -> int:
    found: int = await services.db.value(
        "SELECT count(*) FROM operator_case WHERE reference LIKE $1 || '%'", prefix
    )
    return found


async def test_webhooks_about_a_check_open_no_case(
    services: Services, simulator: ProviderSimulator
) -> None:
    before = await open_cases(services, references.PREFIX)
    async with open_client() as client:
        await check_account(
            *(services.db, services.keyring, client, "providera", services.base_url),
            is_live=False,
        )

    async def has_arrived() -> bool:
        webhooks = (await simulator.read("providera/webhooks"))["webhooks"]
        return any(each["event"] == "transfer.success" and each["attempts"] for each in webhooks)

    await simulator.until(has_arrived)
    webhooks = (await simulator.read("providera/webhooks"))["webhooks"]
    assert {each["attempts"][0]["status"] for each in webhooks if each["attempts"]} == {200}
    assert await open_cases(services, references.PREFIX) == before


async def test_at_a_live_account_such_a_webhook_is_treated_as_any_other(
    services: Services, simulator: ProviderSimulator
) -> None:
    """Checks create nothing at a live account, so a webhook about a check opens a case."""
    await credentials.change(services.db, services.keyring, "providera", {"sandbox": "false"})
    await services.rails.load()
    reference = references.new()
    data = {"reference": reference, "amount": 1, "currency": "NGN"}
    body = {"event": "transfer.success", "data": data}
    await simulator.control("providera/webhooks/send", {"body": body})

    async def has_case() -> bool:
        return await open_cases(services, reference) == 1

    await simulator.until(has_case)
    assert await is_stored(services, reference)
