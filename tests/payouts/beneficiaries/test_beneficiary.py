"""Beneficiaries from the request or from a saved account, and the account name from the rail."""

import json
from typing import Any

import pytest
from manilla_simulator.names import holder_of

from manilla.beneficiaries import accounts
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from tests.payouts.payout_merchant import ACCOUNT, BANKS, MANUAL, RAILS, PayoutMerchant, new_account
from tests.support.client import Reply, Site, new_merchant
from tests.support.rows import first_short

MANUAL_BENEFICIARY = {"Bank Name": "GTBank", "Account Number": "0123456789"}


def assert_invalid(reply: Reply, words: str = "") -> None:
    assert (reply.status, reply.code) == (422, "invalid_beneficiary"), reply.body
    assert set(reply.json) == {"error", "error_code"}
    assert words in reply.json["error"]


async def save(payer: PayoutMerchant, rail: str = "a", **beneficiary: str) -> int:
    code = RAILS.get(rail, rail)
    given = beneficiary or {"bank_code": BANKS[rail], "account_number": new_account()}
    return await accounts.add(payer.services.db, payer.merchant.new.id, code, given)


async def saved(payer: PayoutMerchant, rail: str, account_id: Any) -> Reply:
    return await payer.ask(rail, beneficiary=None, withdraw_account_id=account_id)


@pytest.mark.parametrize("rail", first_short(RAILS))
async def test_the_account_name_comes_from_the_rail(payer: PayoutMerchant, rail: str) -> None:
    account = new_account()
    beneficiary = {"bank_code": BANKS[rail], "account_number": account}
    payout = await payer.payout(await payer.pay_out(rail, beneficiary=beneficiary))
    assert payout.account_name == holder_of(account)
    fields = payout.beneficiary
    assert (fields["bank_code"], fields["account_number"]) == (BANKS[rail], account)
    assert ("name_enquiry_reference" in fields) is (rail == "b")


async def test_a_name_is_cached_for_ten_minutes_per_rail_bank_and_account(
    payer: PayoutMerchant,
) -> None:
    account = new_account()
    async with payer.at_second_process() as other:
        for rail, bank in [("a", "058"), ("a", "058"), ("a", "044"), ("c", "C058"), ("c", "C058")]:
            beneficiary = {"bank_code": bank, "account_number": account}
            assert (await other.ask(rail, beneficiary=beneficiary)).status == 200
    assert (await payer.calls("a")).count("resolve") == 2
    assert (await payer.calls("c")).count("resolve") == 1


@pytest.mark.parametrize(
    "beneficiary",
    [
        {"bank": "058", "account": ACCOUNT},
        {"bank_code": "058", "account": ACCOUNT, "name": "ADA"},
        {"bank": "058", "bank_code": "058", "account": ACCOUNT, "account_number": ACCOUNT},
        {"bank": " 058 ", "bank_code": "058", "account_number": f" {ACCOUNT}"},
        {"bank_code": "058", "account_number": ACCOUNT, "account_name": None, "name": "ADA"},
        {"bank_code": "058", "account_number": ACCOUNT, "account_name": " "},
        {"bank_code": "058", "bank": "", "account_number": ACCOUNT, "account": " "},
        {"bank_code": "058", "account_number": ACCOUNT, "nameEnquiryReference": "N1"},
        {"bank_code": "058", "account_number": ACCOUNT, "bank_name": 5, "x": {"y": [1]}},
    ],
    ids=json.dumps,
)
@pytest.mark.parametrize("environment", first_short(["production", "sandbox"]))
async def test_aliases_are_accepted_for_field_names(
    payer: PayoutMerchant,
    sandbox_payer: PayoutMerchant,
    environment: str,
    beneficiary: dict[str, Any],
) -> None:
    caller = payer if environment == "production" else sandbox_payer
    payout = await caller.payout(await caller.pay_out(beneficiary=beneficiary))
    known = {"bank_code", "account_number", "account_name", "name_enquiry_reference"}
    assert set(payout.beneficiary) <= known
    assert payout.beneficiary["bank_code"] == "058"
    assert payout.beneficiary["account_number"] == ACCOUNT
    if "name" in beneficiary:
        assert payout.beneficiary["account_name"] == "ADA"
    if "nameEnquiryReference" in beneficiary:
        assert payout.beneficiary["name_enquiry_reference"] == "N1"


@pytest.mark.parametrize(
    ("alias", "canonical"),
    [("bank", "bank_code"), ("account", "account_number"), ("name", "account_name")]
    + [("nameEnquiryReference", "name_enquiry_reference")],
)
async def test_an_alias_that_contradicts_its_field_is_rejected(
    payer: PayoutMerchant, alias: str, canonical: str
) -> None:
    good = {"bank_code": "058", "account_number": ACCOUNT}
    contradicting = {canonical: good.get(canonical, "ADA"), alias: "0044"}
    assert_invalid(await payer.ask(beneficiary={**good, **contradicting}), canonical)
    assert await payer.balance() == 1_000_000


@pytest.mark.parametrize("rail", first_short(RAILS))
async def test_a_name_that_differs_from_the_resolved_one_is_accepted(
    payer: PayoutMerchant, rail: str
) -> None:
    beneficiary = {"bank_code": BANKS[rail], "account_number": ACCOUNT, "account_name": "SOMEBODY"}
    trx_id = await payer.pay_out(rail, beneficiary=beneficiary)
    assert (await payer.payout(trx_id)).account_name == holder_of(ACCOUNT)
    await payer.check_until(trx_id, "completed")
    [transfer] = await payer.transfers(rail)
    assert transfer["account_name"] == holder_of(ACCOUNT)


async def test_the_timeline_shows_the_given_and_the_resolved_name(payer: PayoutMerchant) -> None:
    beneficiary = {"bank_code": "058", "account_number": ACCOUNT, "account_name": "SOMEBODY"}
    trx_id = await payer.pay_out(beneficiary=beneficiary)
    notified = " ".join(step.detail or "" for step in await payer.timeline(trx_id))
    assert "SOMEBODY" in notified
    assert holder_of(ACCOUNT) in notified


@pytest.mark.parametrize(
    "fields",
    [
        {"account_number": "123456789"},
        {"account_number": "12345678901"},
        {"account_number": "012345678O"},
        {"account_number": "0123 56789"},
        {"account_number": "+123456789"},
        {"account_number": "\u0661\u0662\u0663\u0664\u0665\u0666\u0667\u0668\u0669\u0660"},
        {"account_number": 1234567890},
        {"account_number": ""},
        {"account_number": " "},
        {"account_number": None},
        {"account_number": [ACCOUNT]},
        {"account_number": {"value": ACCOUNT}},
        {"account_number": True},
        {"bank_code": None},
        {"bank_code": 58},
        {"bank_code": ""},
        {"bank_code": "0" * 201},
        {"account_name": 5},
        {"account_name": "x" * 201},
    ],
    ids=json.dumps,
)
async def test_an_invalid_beneficiary_is_rejected_before_the_provider_is_called(
    payer: PayoutMerchant, fields: dict[str, Any]
) -> None:
    good = {"bank_code": "058", "account_number": ACCOUNT}
    assert_invalid(await payer.ask(beneficiary={**good, **fields}))
    assert await payer.calls() == []
    assert await payer.balance() == 1_000_000


@pytest.mark.parametrize(
    ("beneficiary", "missing"),
    [
        ({}, "bank_code and account_number"),
        ({"bank_code": "058"}, "account_number"),
        ({"account_number": ACCOUNT}, "bank_code"),
        ({"Bank Name": "GTBank", "Account Number": ACCOUNT}, "bank_code and account_number"),
    ],
)
@pytest.mark.parametrize("environment", first_short(["production", "sandbox"]))
async def test_missing_beneficiary_fields_are_reported(
    payer: PayoutMerchant,
    sandbox_payer: PayoutMerchant,
    environment: str,
    beneficiary: dict[str, str],
    missing: str,
) -> None:
    caller = payer if environment == "production" else sandbox_payer
    assert_invalid(await caller.ask(beneficiary=beneficiary), missing)


@pytest.mark.parametrize(
    "beneficiary",
    [
        MANUAL_BENEFICIARY,
        {"bank_name": "GTBank", "account_number": "0123456789"},
        {**MANUAL_BENEFICIARY, "x": 1},
    ],
    ids=json.dumps,
)
async def test_the_manual_method_has_its_own_fields(
    payer: PayoutMerchant, beneficiary: dict[str, Any]
) -> None:
    payout = await payer.payout(await payer.pay_out(MANUAL, beneficiary=beneficiary))
    assert payout.beneficiary == MANUAL_BENEFICIARY
    assert payout.account_name is None


@pytest.mark.parametrize(
    "beneficiary",
    first_short(
        [
            {},
            {"Bank Name": "GTBank"},
            {"Account Number": "0123456789"},
            {"Bank Name": "", "Account Number": "0123456789"},
            {"Bank Name": "GTBank", "Account Number": 123456789},
            {"Bank Name": "GTBank", "bank_name": "Access", "Account Number": "0123456789"},
            {"bank_code": "058", "account": "0123456789"},
        ]
    ),
    ids=json.dumps,
)
async def test_the_manual_method_requires_both_fields(
    payer: PayoutMerchant, beneficiary: dict[str, Any]
) -> None:
    assert_invalid(await payer.ask(MANUAL, beneficiary=beneficiary))
    assert await payer.balance() == 1_000_000


@pytest.mark.parametrize("rail", first_short(RAILS))
async def test_a_saved_account_is_paid_by_its_id(payer: PayoutMerchant, rail: str) -> None:
    account = new_account()
    account_id = await save(payer, rail, bank_code=BANKS[rail], account_number=account)
    reply = await saved(payer, rail, account_id)
    assert reply.status == 200, reply.body
    trx_id = reply.json["trx_id"]
    await payer.check_until(trx_id, "completed")
    [transfer] = await payer.transfers(rail)
    assert (transfer["bank_code"], transfer["account_number"]) == (BANKS[rail], account)
    assert (await payer.payout(trx_id)).account_name == holder_of(account)


async def test_a_saved_account_for_the_manual_method_is_paid_by_its_id(
    payer: PayoutMerchant,
) -> None:
    account_id = await save(payer, MANUAL, **MANUAL_BENEFICIARY)
    reply = await saved(payer, MANUAL, account_id)
    assert (await payer.payout(reply.json["trx_id"])).beneficiary == MANUAL_BENEFICIARY


async def test_a_saved_account_works_in_the_sandbox_too(sandbox_payer: PayoutMerchant) -> None:
    assert (await saved(sandbox_payer, "a", await save(sandbox_payer))).status == 200


async def test_another_merchants_saved_account_is_not_found(
    payer: PayoutMerchant, site: Site, db: Database, keyring: Keyring
) -> None:
    merchant = await new_merchant(site, db, keyring, environment=Environment.PRODUCTION)
    foreign = await save(PayoutMerchant(payer.services, payer.simulator, merchant))
    unknown = await saved(payer, "a", 987_654_321)
    assert_invalid(unknown)
    assert (await saved(payer, "a", foreign)).body == unknown.body
    assert await payer.balance() == 1_000_000


@pytest.mark.parametrize(
    "account_id", first_short([0, -1, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 10**30])
)
async def test_an_impossible_account_id_is_not_found(
    payer: PayoutMerchant, account_id: int
) -> None:
    assert_invalid(await saved(payer, "a", account_id))


async def test_a_removed_saved_account_is_not_paid(payer: PayoutMerchant) -> None:
    account_id = await save(payer)
    assert await accounts.remove(payer.services.db, payer.merchant.new.id, account_id)
    assert_invalid(await saved(payer, "a", account_id))


@pytest.mark.parametrize("rail", ["b", "c", MANUAL])
async def test_a_saved_account_works_only_with_its_own_method(
    payer: PayoutMerchant, rail: str
) -> None:
    account_id = await save(payer, "a")
    assert_invalid(await saved(payer, rail, account_id), "another method")


async def test_a_saved_account_unknown_to_the_rail_is_rejected(
    payer: PayoutMerchant,
) -> None:
    account_id = await save(payer, "a", bank_code="058", account_number="0000000002")
    assert_invalid(await saved(payer, "a", account_id), "could not be verified")
