"""bank-list: the banks that a rail supports. The list is cached for an hour."""

import asyncio
from functools import partial
from types import SimpleNamespace

import pytest
from manilla_simulator import banks as simulated_banks

from manilla.banks import learning
from manilla.banks.nigeria import BY_CODE
from manilla.beneficiaries import banks as bank_lists
from manilla.beneficiaries.banks import Banks
from manilla.services import Services
from tests.payouts.payout_merchant import (
    MANUAL,
    RAILS,
    PayoutMerchant,
    clear_credentials,
    method,
    new_account,
    new_reference,
    set_credentials,
)
from tests.support.client import Reply
from tests.support.freshness import outdate
from tests.support.provider_simulator import ProviderSimulator
from tests.support.rows import first_short
from tests.support.waiting import until

BANK_LIST = "/api/v1/payout/bank-list"
LISTS = {
    "a": simulated_banks.PROVIDER_A,
    "b": simulated_banks.PROVIDER_B,
    "c": simulated_banks.PROVIDER_C,
}
ACCESS = {"a": "044", "b": "000014", "c": "C044"}


async def ask(payer: PayoutMerchant, rail: str | None = None) -> Reply:
    query = "" if rail is None else f"?method_code={RAILS.get(rail, rail)}"
    return await payer.merchant.get(BANK_LIST + query)


@pytest.mark.parametrize("rail", [None, *first_short(RAILS)])
async def test_a_bank_list_has_exactly_the_documented_fields(
    payer: PayoutMerchant, rail: str | None
) -> None:
    reply = await ask(payer, rail)
    assert reply.status == 200
    listed = [{"bank_code": b.code, "bank_name": b.name} for b in LISTS[rail or "b"].values()]
    assert len(listed) > 20
    assert reply.json == {
        "provider": f"provider{rail or 'b'}",
        "currency_code": "NGN",
        "banks": listed,
    }


@pytest.mark.parametrize("rail", [None, *first_short(RAILS)])
async def test_the_sandbox_has_its_own_bank_lists_and_calls_no_provider(
    sandbox_payer: PayoutMerchant, rail: str | None
) -> None:
    reply = await ask(sandbox_payer, rail)
    named = {bank["bank_code"]: bank["bank_name"] for bank in reply.json["banks"]}
    assert set(reply.json) == {"provider", "currency_code", "banks"}
    assert named[ACCESS[rail or "b"]] == "Access Bank"
    assert len(named) == len(reply.json["banks"]) > 20
    for provider in RAILS:
        assert await sandbox_payer.calls(provider) == []


@pytest.mark.parametrize("rail", [None, *first_short(RAILS)])
@pytest.mark.parametrize("environment", ["production", "sandbox"])
async def test_a_rail_without_credentials_has_no_bank_list(
    payer: PayoutMerchant,
    sandbox_payer: PayoutMerchant,
    services: Services,
    environment: str,
    rail: str | None,
) -> None:
    await clear_credentials(services, rail or "b")
    reply = await ask(payer if environment == "production" else sandbox_payer, rail)
    assert (reply.status, reply.code) == (422, "gateway_not_configured")


async def test_a_disabled_rail_has_no_bank_list(payer: PayoutMerchant, services: Services) -> None:
    await set_credentials(services, "b", pay_out_enabled="false")
    reply = await ask(payer)
    assert (reply.status, reply.code) == (422, "gateway_not_configured")
    assert "switched off" in reply.json["error"]
    assert (await ask(payer, "c")).status == 200


@pytest.mark.parametrize("code", [MANUAL, "nonsense", "providera-ngn", "%F0%9F%98%80"])
async def test_a_method_without_a_bank_list_is_rejected(payer: PayoutMerchant, code: str) -> None:
    reply = await payer.merchant.get(f"{BANK_LIST}?method_code={code}")
    assert (reply.status, reply.code) == (422, "payout_failed")


async def test_an_inactive_method_has_no_bank_list(
    payer: PayoutMerchant, services: Services
) -> None:
    async with method(services, "b", active=False):
        assert (await ask(payer)).code == "payout_failed"


@pytest.mark.parametrize("rail", first_short(RAILS))
async def test_a_bank_list_is_cached_and_survives_an_outage(
    payer: PayoutMerchant, rail: str
) -> None:
    async with payer.at_second_process() as other:
        first = await ask(other, rail)
        await payer.simulator.control(f"{rail}/faults", {"outage": True})
        for _ in range(2):
            assert (await ask(other, rail)).body == first.body
    assert (await payer.calls(rail)).count("banks") == 1


async def test_a_bank_list_is_requested_again_after_an_hour(
    payer: PayoutMerchant, monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = 1_000_000.0
    monkeypatch.setattr(bank_lists, "time", SimpleNamespace(monotonic=lambda: moment))
    async with payer.at_second_process() as other:
        await ask(other)
        for passed, calls in ((3599, 1), (1, 2), (3599, 2)):
            moment += passed
            assert (await ask(other)).status == 200
            assert (await payer.calls("b")).count("banks") == calls


async def test_an_old_bank_list_is_used_while_the_provider_is_down(
    payer: PayoutMerchant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bank_lists, "KEEP_SECONDS", 0)
    async with payer.at_second_process() as other:
        first = await ask(other)
        await payer.simulator.control("b/faults", {"outage": True})
        assert (await ask(other)).body == first.body


async def test_new_provider_credentials_reload_the_bank_list(
    payer: PayoutMerchant, services: Services
) -> None:
    """The bank list and the account names are requested from the provider again."""
    order = await payer.order("b")
    for calls in (1, 2):
        await set_credentials(services, "b", business_id=f"business-{calls}")
        for _ in range(2):
            assert (await ask(payer)).status == 200
            fresh = {**order, "ref_trx": new_reference()}
            assert (await payer.send(fresh)).status == 200
        asked = await payer.calls("b")
        assert (asked.count("banks"), asked.count("resolve")) == (calls, calls)


async def test_a_provider_that_never_responded_has_no_bank_list(payer: PayoutMerchant) -> None:
    await payer.simulator.control("b/faults", {"outage": True})
    async with payer.at_second_process() as other:
        reply = await ask(other)
        assert (reply.status, reply.code) == (503, "SERVICE_UNAVAILABLE")
        assert int(reply.headers["retry-after"]) > 0
        assert "is not responding" in reply.json["error"]
        assert (await ask(other, "a")).status == 200


async def seen(services: Services) -> None:
    """Makes this process reload changes immediately, instead of up to a second later."""
    await outdate(services)
    await services.watch.ensure_fresh()


@pytest.mark.parametrize("rail", first_short(RAILS))
async def test_a_requested_bank_list_is_learned(
    payer: PayoutMerchant, services: Services, rail: str
) -> None:
    provider = f"provider{rail}"
    await services.db.execute("DELETE FROM provider_bank WHERE provider = $1", provider)
    async with payer.at_second_process() as fresh:
        await ask(fresh, rail)
    await seen(services)
    bank = BY_CODE["044"]
    assert services.banks.code_at(provider, bank, is_sandbox=False) == ACCESS[rail]
    assert services.banks.bank_at(provider, ACCESS[rail], is_sandbox=False) == bank


async def test_the_worker_learns_the_list_of_every_account_that_sends_payouts(
    simulator: ProviderSimulator, services: Services
) -> None:
    await services.db.execute("DELETE FROM provider_bank")
    fresh = Banks(services.db, services.rails, services.methods, services.registry)
    await fresh.refresh()
    await seen(services)
    assert set(services.registry.providers_with(BY_CODE["044"])) >= {
        *("providera", "providerb", "providerc")
    }


def test_the_sandbox_has_each_kinds_own_codes(services: Services) -> None:
    for rail, code in ACCESS.items():
        provider, bank = f"provider{rail}", BY_CODE["044"]
        assert services.banks.code_at(provider, bank, is_sandbox=True) == code
        assert services.banks.bank_at(provider, code, is_sandbox=True) == bank
        assert services.banks.code_at(provider, BY_CODE["063"], is_sandbox=True) is None


async def test_a_providers_own_code_always_means_itself_even_without_a_bank(
    simulator: ProviderSimulator, services: Services
) -> None:
    listed = await services.banks.of_rail("providera", is_sandbox=False)
    assert listed is not None
    # The code `501` is FSDH's central bank code, but in this list it belongs to another bank.
    odd = [("501", "Fortis Microfinance Bank"), ("400001", "FSDH Merchant Bank")]
    await learning.learn(services.db, "providera", odd)
    await seen(services)
    own_code = partial(services.banks.own_code, "providera", is_sandbox=False)
    assert await own_code("501") == "501"
    assert await own_code("FSDH") == "400001"
    assert await own_code("no such bank") == "no such bank"
    await learning.learn(services.db, "providera", [(bank.code, bank.name) for bank in listed])
    await seen(services)


async def test_first_payouts_do_not_wait_until_bank_codes_are_stored(
    payer: PayoutMerchant, services: Services
) -> None:
    await services.db.execute("DELETE FROM provider_bank")
    await services.registry.load()
    async with payer.at_second_process() as other:
        async with services.db.transaction() as connection:
            # Storing bank codes takes this lock first.
            await connection.execute("SELECT FROM change WHERE topic = 'banks' FOR UPDATE")
            first = [other.ask(beneficiary=to_new_account()) for _ in range(4)]
            assert [reply.status for reply in await asyncio.gather(*first)] == [200] * 4
            assert await services.db.number("SELECT count(*) FROM provider_bank") == 0

        async def are_stored() -> bool:
            return await services.db.number("SELECT count(*) FROM provider_bank") > 0

        await until(are_stored)
    assert (await payer.calls("a")).count("banks") == 1


def to_new_account() -> dict[str, str]:
    return {"bank_code": "044", "account_number": new_account()}
