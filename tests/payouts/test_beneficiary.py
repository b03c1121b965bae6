"""Who is paid: as the request or a saved account says it, under the name the rail knows."""

import json
from typing import Any

import pytest
from manilla_simulator.names import holder_of

from manilla.kit.crypto import Keyring
from manilla.kit.db import Database
from manilla.kit.environment import Environment
from manilla.payouts import accounts
from tests.client import Reply, Site, new_merchant
from tests.payouts.desk import ACCOUNT, BANKS, MANUAL, RAILS, Desk, new_account

BY_HAND = {"Bank Name": "GTBank", "Account Number": "0123456789"}


def assert_invalid(reply: Reply, words: str = "") -> None:
    assert (reply.status, reply.code) == (422, "invalid_beneficiary"), reply.body
    assert set(reply.json) == {"error", "error_code"}
    assert words in reply.json["error"]


async def save(desk: Desk, rail: str = "a", **beneficiary: str) -> int:
    code = RAILS.get(rail, rail)
    given = beneficiary or {"bank_code": BANKS[rail], "account_number": new_account()}
    return await accounts.add(desk.services.db, desk.merchant.new.id, code, given)


async def saved(desk: Desk, rail: str, account_id: Any) -> Reply:
    return await desk.ask(rail, beneficiary=None, withdraw_account_id=account_id)


@pytest.mark.parametrize("rail", RAILS)
async def test_the_name_is_the_rails_own(desk: Desk, rail: str) -> None:
    account = new_account()
    beneficiary = {"bank_code": BANKS[rail], "account_number": account}
    payout = await desk.payout(await desk.pay_out(rail, beneficiary=beneficiary))
    assert payout.account_name == holder_of(account)
    fields = payout.beneficiary
    assert (fields["bank_code"], fields["account_number"]) == (BANKS[rail], account)
    assert ("name_enquiry_reference" in fields) is (rail == "b")


async def test_a_name_is_asked_for_once_in_ten_minutes_for_each_rail_bank_and_account(
    desk: Desk,
) -> None:
    account = new_account()
    async with desk.at_another_program() as other:
        for rail, bank in [("a", "058"), ("a", "058"), ("a", "044"), ("c", "C058"), ("c", "C058")]:
            beneficiary = {"bank_code": bank, "account_number": account}
            assert (await other.ask(rail, beneficiary=beneficiary)).status == 200
    assert (await desk.calls("a")).count("resolve") == 2
    assert (await desk.calls("c")).count("resolve") == 1


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
@pytest.mark.parametrize("environment", ["production", "sandbox"])
async def test_aliases_stand_for_their_canonical_names(
    desk: Desk, sandbox_desk: Desk, environment: str, beneficiary: dict[str, Any]
) -> None:
    caller = desk if environment == "production" else sandbox_desk
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
async def test_an_alias_that_contradicts_its_canonical_name_is_refused(
    desk: Desk, alias: str, canonical: str
) -> None:
    good = {"bank_code": "058", "account_number": ACCOUNT}
    contradicting = {canonical: good.get(canonical, "ADA"), alias: "0044"}
    assert_invalid(await desk.ask(beneficiary={**good, **contradicting}), canonical)
    assert await desk.balance() == 1_000_000


@pytest.mark.parametrize("rail", RAILS)
async def test_another_name_than_the_resolved_one_does_not_stop_it(desk: Desk, rail: str) -> None:
    beneficiary = {"bank_code": BANKS[rail], "account_number": ACCOUNT, "account_name": "SOMEBODY"}
    trx_id = await desk.pay_out(rail, beneficiary=beneficiary)
    assert (await desk.payout(trx_id)).account_name == holder_of(ACCOUNT)
    await desk.check_until(trx_id, "completed")
    [transfer] = await desk.transfers(rail)
    assert transfer["account_name"] == holder_of(ACCOUNT)


async def test_the_timeline_shows_the_given_and_the_resolved_name(desk: Desk) -> None:
    beneficiary = {"bank_code": "058", "account_number": ACCOUNT, "account_name": "SOMEBODY"}
    trx_id = await desk.pay_out(beneficiary=beneficiary)
    told = " ".join(step.detail or "" for step in await desk.timeline(trx_id))
    assert "SOMEBODY" in told
    assert holder_of(ACCOUNT) in told


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
async def test_what_is_no_beneficiary_is_refused_before_anybody_is_asked(
    desk: Desk, fields: dict[str, Any]
) -> None:
    good = {"bank_code": "058", "account_number": ACCOUNT}
    assert_invalid(await desk.ask(beneficiary={**good, **fields}))
    assert await desk.calls() == []
    assert await desk.balance() == 1_000_000


@pytest.mark.parametrize(
    ("beneficiary", "missing"),
    [
        ({}, "bank_code and account_number"),
        ({"bank_code": "058"}, "account_number"),
        ({"account_number": ACCOUNT}, "bank_code"),
        ({"Bank Name": "GTBank", "Account Number": ACCOUNT}, "bank_code and account_number"),
    ],
)
@pytest.mark.parametrize("environment", ["production", "sandbox"])
async def test_what_a_beneficiary_lacks_is_named(
    desk: Desk, sandbox_desk: Desk, environment: str, beneficiary: dict[str, str], missing: str
) -> None:
    caller = desk if environment == "production" else sandbox_desk
    assert_invalid(await caller.ask(beneficiary=beneficiary), missing)


@pytest.mark.parametrize(
    "beneficiary",
    [BY_HAND, {"bank_name": "GTBank", "account_number": "0123456789"}, {**BY_HAND, "x": 1}],
    ids=json.dumps,
)
async def test_the_manual_method_takes_its_own_fields(
    desk: Desk, beneficiary: dict[str, Any]
) -> None:
    payout = await desk.payout(await desk.pay_out(MANUAL, beneficiary=beneficiary))
    assert payout.beneficiary == BY_HAND
    assert payout.account_name is None


@pytest.mark.parametrize(
    "beneficiary",
    [
        {},
        {"Bank Name": "GTBank"},
        {"Account Number": "0123456789"},
        {"Bank Name": "", "Account Number": "0123456789"},
        {"Bank Name": "GTBank", "Account Number": 123456789},
        {"Bank Name": "GTBank", "bank_name": "Access", "Account Number": "0123456789"},
        {"bank_code": "058", "account": "0123456789"},
    ],
    ids=json.dumps,
)
async def test_the_manual_method_needs_both_of_its_fields(
    desk: Desk, beneficiary: dict[str, Any]
) -> None:
    assert_invalid(await desk.ask(MANUAL, beneficiary=beneficiary))
    assert await desk.balance() == 1_000_000


@pytest.mark.parametrize("rail", RAILS)
async def test_a_saved_account_is_paid_by_its_number(desk: Desk, rail: str) -> None:
    account = new_account()
    account_id = await save(desk, rail, bank_code=BANKS[rail], account_number=account)
    reply = await saved(desk, rail, account_id)
    assert reply.status == 200, reply.body
    trx_id = reply.json["trx_id"]
    await desk.check_until(trx_id, "completed")
    [transfer] = await desk.transfers(rail)
    assert (transfer["bank_code"], transfer["account_number"]) == (BANKS[rail], account)
    assert (await desk.payout(trx_id)).account_name == holder_of(account)


async def test_a_saved_account_of_the_manual_method_is_paid_by_its_number(desk: Desk) -> None:
    account_id = await save(desk, MANUAL, **BY_HAND)
    reply = await saved(desk, MANUAL, account_id)
    assert (await desk.payout(reply.json["trx_id"])).beneficiary == BY_HAND


async def test_a_saved_account_works_in_the_sandbox_too(sandbox_desk: Desk) -> None:
    assert (await saved(sandbox_desk, "a", await save(sandbox_desk))).status == 200


async def test_another_merchants_saved_account_is_as_unknown_as_none(
    desk: Desk, site: Site, db: Database, keyring: Keyring
) -> None:
    merchant = await new_merchant(site, db, keyring, environment=Environment.PRODUCTION)
    foreign = await save(Desk(desk.services, desk.world, merchant))
    unknown = await saved(desk, "a", 987_654_321)
    assert_invalid(unknown)
    assert (await saved(desk, "a", foreign)).body == unknown.body
    assert await desk.balance() == 1_000_000


@pytest.mark.parametrize("account_id", [0, -1, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 10**30])
async def test_a_saved_account_that_cannot_be_is_as_unknown_as_none(
    desk: Desk, account_id: int
) -> None:
    assert_invalid(await saved(desk, "a", account_id))


async def test_a_closed_saved_account_is_not_paid(desk: Desk) -> None:
    account_id = await save(desk)
    assert await accounts.remove(desk.services.db, desk.merchant.new.id, account_id)
    assert_invalid(await saved(desk, "a", account_id))


@pytest.mark.parametrize("rail", ["b", "c", MANUAL])
async def test_a_saved_account_is_for_its_own_method_only(desk: Desk, rail: str) -> None:
    account_id = await save(desk, "a")
    assert_invalid(await saved(desk, rail, account_id), "another method")


async def test_a_saved_account_that_the_rail_does_not_know_is_refused(desk: Desk) -> None:
    account_id = await save(desk, "a", bank_code="058", account_number="0000000002")
    assert_invalid(await saved(desk, "a", account_id), "could not be verified")
