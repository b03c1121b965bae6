"""The payout method auto_ngn as merchants see it."""

import pytest

from manilla.beneficiaries import accounts
from manilla.beneficiaries.beneficiary import Beneficiary
from manilla.providers import draining
from manilla.providers.port import ResolvedAccount
from manilla.transfers.refusals import UnknownBank
from tests.payouts.payout_merchant import ACCOUNT, RAILS, PayoutMerchant, method, see_changes
from tests.payouts.routing.routed import AUTO, GTBANK, RoutedPayouts

BANK_LIST = "/api/v1/payout/bank-list?method_code=auto_ngn"


@pytest.mark.parametrize("code", ["C058", "000013", "058"])
async def test_it_understands_the_code_of_any_rail(routed: RoutedPayouts, code: str) -> None:
    """Only provider C's bank list has the code C058, and no process has loaded this list yet."""
    trx_id = await routed.pay_out(who={"bank_code": code})
    assert (await routed.payer.payout(trx_id)).bank == GTBANK


async def test_it_is_offered_like_any_automatic_method(payer: PayoutMerchant) -> None:
    reply = await payer.merchant.get("/api/v1/payout-methods?currency=NGN")
    [auto] = [each for each in reply.json["methods"] if each["method_code"] == AUTO]
    assert (auto["name"], auto["type"]) == ("Automatic bank transfer", "auto")
    assert [field["name"] for field in auto["fields"]] == [
        "bank_code",
        "account_number",
        "account_name",
    ]


async def test_its_bank_list_has_the_codes_of_the_registry(routed: RoutedPayouts) -> None:
    reply = await routed.payer.merchant.get(BANK_LIST)
    assert reply.status == 200, reply.body
    listed = reply.json
    assert (listed["provider"], listed["currency_code"]) == ("auto", "NGN")
    banks = {bank["bank_code"]: bank["bank_name"] for bank in listed["banks"]}
    assert "058" in banks
    assert "000013" not in banks


async def test_an_unknown_bank_is_rejected_without_a_debit(routed: RoutedPayouts) -> None:
    reply = await routed.ask(who={"bank_code": "987654"})
    assert (reply.status, reply.json["error_code"]) == (422, "invalid_beneficiary")
    assert await routed.payer.balance() == 1_000_000


async def test_a_saved_account_of_any_rail_can_be_used(routed: RoutedPayouts) -> None:
    payer = routed.payer
    bank = {"bank_code": "C058", "account_number": ACCOUNT}
    account_id = await accounts.add(payer.services.db, payer.merchant.new.id, RAILS["c"], bank)
    await routed.pay_out()  # caches the rails' bank lists
    reply = await payer.ask(AUTO, beneficiary=None, withdraw_account_id=account_id)
    assert reply.status == 200, reply.body
    assert (await payer.payout(reply.json["trx_id"])).bank == GTBANK


async def test_a_rail_without_money_is_skipped_before_the_debit(routed: RoutedPayouts) -> None:
    await routed.simulator.control("a/balance", {"available": 10})
    routed.services.router._funds._kept.clear()
    trx_id = await routed.pay_out()
    assert await routed.provider(trx_id) == "providerb"
    routed.services.router._funds._kept.clear()


async def test_without_money_on_any_rail_nothing_is_debited(routed: RoutedPayouts) -> None:
    for rail in "abc":
        await routed.simulator.control(f"{rail}/balance", {"available": 10})
    routed.services.router._funds._kept.clear()
    reply = await routed.ask()
    routed.services.router._funds._kept.clear()
    assert (reply.status, reply.json["error_code"]) == (422, "provider_insufficient_balance")
    assert await routed.payer.balance() == 1_000_000


async def test_a_rail_that_cannot_verify_the_account_is_skipped(routed: RoutedPayouts) -> None:
    await routed.plan("a", {"call": "resolve", "fault": "5xx_before"})
    trx_id = await routed.pay_out()
    assert await routed.provider(trx_id) == "providerb"


async def test_an_invalid_account_is_rejected_and_not_tried_elsewhere(
    routed: RoutedPayouts,
) -> None:
    message = {"status": 400, "message": "Unable to resolve account"}
    await routed.plan("a", {"call": "resolve", "fault": "refuse", **message})
    reply = await routed.ask()
    assert (reply.status, reply.json["error_code"]) == (422, "invalid_beneficiary")


async def test_the_amount_limits_of_a_rail_count(routed: RoutedPayouts) -> None:
    async with method(routed.services, "a", maximum="900"):
        trx_id = await routed.pay_out()
    assert await routed.provider(trx_id) == "providerb"


async def test_a_sandbox_payout_completes_without_a_provider(
    sandbox_payer: PayoutMerchant,
) -> None:
    who = {"bank_code": "058", "account_number": ACCOUNT}
    trx_id = await sandbox_payer.pay_out(AUTO, beneficiary=who)
    await sandbox_payer.simulator.run_job_now("payout.sandbox", trx_id)
    assert (await sandbox_payer.payout(trx_id)).status == "completed"


@pytest.mark.parametrize("by", [AUTO, "a"])
async def test_a_bank_that_another_process_has_learned_can_be_paid_at_once(
    routed: RoutedPayouts, by: str
) -> None:
    """The bank list in this process's cache is older, so it does not contain the bank."""
    banks = routed.services.banks
    listed = await banks.of_rail("providera", is_sandbox=False) or []
    account, kept_until, _ = banks._kept["providera"]
    older = [bank for bank in listed if bank.code != GTBANK]
    banks._kept["providera"] = account, kept_until, older
    try:
        trx_id = await (routed.pay_out() if by == AUTO else routed.payer.pay_out(by))
    finally:
        banks._kept.clear()
    assert await routed.provider(trx_id) == "providera"


async def test_a_rail_that_does_not_know_the_bank_after_all_is_skipped(
    routed: RoutedPayouts, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolver = routed.services.resolver
    resolve = resolver.resolve

    async def unknown_at_a(provider: str, who: Beneficiary) -> ResolvedAccount:
        if provider == "providera":
            raise UnknownBank("058 is not a bank code of providera.")
        return await resolve(provider, who)

    monkeypatch.setattr(resolver, "resolve", unknown_at_a)
    trx_id = await routed.pay_out()
    assert await routed.provider(trx_id) == "providerb"


async def test_errors_of_the_automatic_method_name_the_bank_and_no_provider(
    routed: RoutedPayouts, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unknown(provider: str, who: Beneficiary) -> ResolvedAccount:
        raise UnknownBank(f"058 is not a bank code of {provider}.")

    monkeypatch.setattr(routed.services.resolver, "resolve", unknown)
    reply = await routed.ask()
    assert (reply.status, reply.json["error_code"]) == (422, "invalid_beneficiary")
    assert "Guaranty Trust Bank" in reply.json["error"]
    assert "provider" not in reply.json["error"].replace("No provider", "")


async def test_an_amount_that_only_a_drained_rail_accepts_is_explained(
    routed: RoutedPayouts,
) -> None:
    services = routed.services
    await draining.drain(services.db, "providera")
    await see_changes(services)
    try:
        async with method(services, "b", minimum="5000"), method(services, "c", minimum="7000"):
            reply = await routed.ask()
    finally:
        await draining.undrain(services.db, "providera")
        await see_changes(services)
    assert reply.status == 503
    assert "₦1,000.00 to Guaranty Trust Bank right now" in reply.json["error"]
    assert "or with at least ₦5,000.00" in reply.json["error"]
