"""The API rejects missing fields and fields of the wrong type with the field's name."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.merchants.merchants import MerchantUpdate
from manilla.services import Services
from tests.payouts.payout_merchant import PayoutMerchant, new_reference, setting
from tests.support.client import Reply, Site, new_merchant
from tests.support.provider_simulator import ProviderSimulator
from tests.support.rows import first_short

REQUIRED = ("payout_amount", "currency_code", "ref_trx", "ipn_url", "withdraw_method_id")
TEXTS = ("currency_code", "ref_trx", "ipn_url", "description")
WHO = ("beneficiary", "withdraw_account_id")


@pytest.fixture(scope="module")
async def sandbox_payer(
    services: Services,
    simulated_providers: ProviderSimulator,
    site: Site,
    db: Database,
    keyring: Keyring,
) -> AsyncIterator[PayoutMerchant]:
    """The merchant that most tests share. They rarely change it, as most requests are rejected."""
    await simulated_providers.reset()
    async with setting(services, "rate_limit_per_minute", "1000000"):
        yield PayoutMerchant(services, simulated_providers, await new_merchant(site, db, keyring))


@pytest.fixture
async def own_payer(
    sandbox_payer: PayoutMerchant, site: Site, db: Database, keyring: Keyring
) -> PayoutMerchant:
    """A separate merchant for each test that changes the merchant."""
    merchant = await new_merchant(site, db, keyring)
    return PayoutMerchant(sandbox_payer.services, sandbox_payer.simulator, merchant)


def assert_refused(reply: Reply, *fields: str) -> None:
    """Checks that the response is 400 and has errors for exactly these fields."""
    is_amount = set(fields) == {"payout_amount"}
    expected = "INVALID_AMOUNT" if is_amount else "VALIDATION_FAILED"
    assert (reply.status, reply.code) == (400, expected), reply.body
    assert reply.json["error"]
    assert set(reply.json) == {"error", "error_code", "errors"}
    assert set(reply.json["errors"]) == set(fields)
    assert all(text and isinstance(text, str) for text in reply.json["errors"].values())


def assert_not_read(reply: Reply) -> None:
    """Checks that the response is 400 with an error about the whole body, without field errors."""
    assert (reply.status, reply.code) == (400, "VALIDATION_FAILED"), reply.body
    assert set(reply.json) == {"error", "error_code"}


@pytest.mark.parametrize("field", REQUIRED)
async def test_a_missing_or_null_required_field_is_reported(
    sandbox_payer: PayoutMerchant, field: str
) -> None:
    sent = await sandbox_payer.order()
    assert_refused(await sandbox_payer.send(sent | {field: None}), field)
    del sent[field]
    assert_refused(await sandbox_payer.send(sent), field)


@pytest.mark.parametrize("left_out", ["missing", "null"])
async def test_a_payout_without_beneficiary_or_saved_account_is_rejected(
    sandbox_payer: PayoutMerchant, left_out: str
) -> None:
    sent = await sandbox_payer.order(beneficiary=None)
    if left_out == "null":
        sent |= dict.fromkeys(WHO)
    assert_refused(await sandbox_payer.send(sent), *WHO)


async def test_a_payout_with_both_beneficiary_and_saved_account_is_rejected(
    sandbox_payer: PayoutMerchant,
) -> None:
    assert_refused(await sandbox_payer.ask(withdraw_account_id=1), "withdraw_account_id")


@pytest.mark.parametrize(
    "value", first_short([5, 1.5, True, [], ["NGN"], {}, {"a": "b"}]), ids=repr
)
@pytest.mark.parametrize("field", TEXTS)
async def test_a_text_field_of_the_wrong_type_is_reported(
    sandbox_payer: PayoutMerchant, field: str, value: Any
) -> None:
    assert_refused(await sandbox_payer.ask(**{field: value}), field)


@pytest.mark.parametrize("value", first_short(["1", "", 1.5, True, [1], {}]), ids=repr)
@pytest.mark.parametrize("field", ["withdraw_method_id", "withdraw_account_id"])
async def test_a_number_field_of_the_wrong_type_is_reported(
    sandbox_payer: PayoutMerchant, field: str, value: Any
) -> None:
    changed: dict[str, Any] = {field: value}
    if field == "withdraw_account_id":
        changed["beneficiary"] = None
    assert_refused(await sandbox_payer.ask(**changed), field)


@pytest.mark.parametrize("value", ["058", "", 5, True, [], [{"bank_code": "058"}]], ids=repr)
async def test_a_beneficiary_that_is_not_an_object_is_reported(
    sandbox_payer: PayoutMerchant, value: Any
) -> None:
    assert_refused(await sandbox_payer.ask(beneficiary=value), "beneficiary")


@pytest.mark.parametrize("field", ["currency_code", "ref_trx", "ipn_url"])
@pytest.mark.parametrize("value", ["", " "])
async def test_a_blank_required_text_is_reported(
    sandbox_payer: PayoutMerchant, field: str, value: str
) -> None:
    assert_refused(await sandbox_payer.ask(**{field: value}), field)


@pytest.mark.parametrize("character", ["x", "字", "😀"])
async def test_a_reference_has_up_to_60_characters(
    sandbox_payer: PayoutMerchant, character: str
) -> None:
    longest = (new_reference() + character * 60)[:60]
    reply = await sandbox_payer.ask(ref_trx=longest)
    assert reply.json["info"]["ref_trx"] == longest
    assert_refused(await sandbox_payer.ask(ref_trx=longest + character), "ref_trx")


@pytest.mark.parametrize(
    "amount",
    [
        *("100.001", "100.005", "1000.00000001", "1e-3"),
        *("1e400", "1e30", "-1e400", "9" * 25, "9" * 25 + ".99", "9" * 5000),
        *('"1000"', '"1000.00"', '""', '"NaN"', '"Infinity"'),
        *("true", "false", "null", "[]", "[1000]", "{}"),
    ],
    ids=lambda amount: amount[:30],
)
async def test_an_invalid_amount_has_its_own_error_code(
    sandbox_payer: PayoutMerchant, amount: str
) -> None:
    assert_refused(await sandbox_payer.send(await sandbox_payer.order_of(amount)), "payout_amount")


@pytest.mark.parametrize("amount", ["NaN", "Infinity", "-Infinity", "01", "+1", ".5", "1_000"])
async def test_an_invalid_json_number_makes_the_body_unreadable(
    sandbox_payer: PayoutMerchant, amount: str
) -> None:
    assert_not_read(await sandbox_payer.send(await sandbox_payer.order_of(amount)))


@pytest.mark.parametrize(("currency", "amount"), [("JPY", "100.5"), ("KWD", "100.0001")])
async def test_an_amount_has_no_more_decimals_than_its_currency(
    own_payer: PayoutMerchant, currency: str, amount: str
) -> None:
    await own_payer.change(MerchantUpdate(currencies=["NGN", currency]))
    body = await own_payer.order_of(amount, currency_code=currency)
    assert_refused(await own_payer.send(body), "payout_amount")


@pytest.mark.parametrize("currency", ["N", "NG", "NGNN", "N1N", "NG ", "NGN\n", "₦₦₦"])
async def test_a_currency_that_is_not_three_letters_is_reported(
    sandbox_payer: PayoutMerchant, currency: str
) -> None:
    assert_refused(await sandbox_payer.ask(currency_code=currency), "currency_code")


@pytest.mark.parametrize(
    "address",
    [
        *("javascript:alert(1)", "ftp://shop.example/a", "shop.example", "/ipn", "https://"),
        *("https:///ipn", "https://shop.example:0/", " https://shop.example/"),
        *("https://shop.example/a b", "https://shop.example/\r\nX: y", "https://@/"),
    ],
)
async def test_an_invalid_url_is_reported(sandbox_payer: PayoutMerchant, address: str) -> None:
    assert_refused(await sandbox_payer.ask(ipn_url=address), "ipn_url")


async def test_all_invalid_fields_are_reported_together(sandbox_payer: PayoutMerchant) -> None:
    everything: dict[str, Any] = {
        "payout_amount": "1000",
        "currency_code": "NAIRA",
        "ref_trx": "x" * 61,
        "withdraw_method_id": "1",
        "withdraw_account_id": "1",
        "beneficiary": [],
        "description": "x" * 256,
    }
    assert_refused(await sandbox_payer.send(everything), *everything, "ipn_url")
    assert_refused(await sandbox_payer.send({}), *REQUIRED, *WHO)


async def test_an_invalid_amount_among_others_is_reported_as_a_field(
    sandbox_payer: PayoutMerchant,
) -> None:
    body = await sandbox_payer.order_of("100.001", ipn_url="x")
    assert_refused(await sandbox_payer.send(body), "payout_amount", "ipn_url")


@pytest.mark.parametrize("character", ["\x00", "\ud800"], ids=ascii)
@pytest.mark.parametrize("field", ["ref_trx", "ipn_url", "description"])
async def test_nul_and_lone_surrogates_are_rejected(
    sandbox_payer: PayoutMerchant, field: str, character: str
) -> None:
    sent = await sandbox_payer.order(description="Rent")
    assert_refused(await sandbox_payer.send(sent | {field: sent[field] + character}), field)


@pytest.mark.parametrize("character", ["\n", "\x1b", "\u2028", "\u202e", "\u2066"], ids=ascii)
async def test_a_single_line_text_has_no_control_characters(
    sandbox_payer: PayoutMerchant, character: str
) -> None:
    for field in ("ref_trx", "description"):
        sent = await sandbox_payer.order(description="Rent")
        bad = sent | {field: f"{sent[field]}{character}x"}
        assert_refused(await sandbox_payer.send(bad), field)
    who = {"bank_code": "058", "account_number": "0123456789", "account_name": f"A{character}B"}
    reply = await sandbox_payer.ask(beneficiary=who)
    assert (reply.status, reply.code) == (422, "invalid_beneficiary")
    assert "account_name" in reply.json["error"]


@pytest.mark.parametrize("character", ["\x00", "\ud800"], ids=ascii)
async def test_a_beneficiary_that_cannot_be_stored_is_rejected(
    sandbox_payer: PayoutMerchant, character: str
) -> None:
    good = {"bank_code": "058", "account_number": "0123456789"}
    for bad in ({"account_name": character}, {"x": character}, {character: "x"}):
        reply = await sandbox_payer.ask(beneficiary=good | bad)
        assert reply.status in (400, 422), reply.body


@pytest.mark.parametrize(
    "body", [b"", b"not json", b"[]", b'"text"', b"null", b"5", b"{", b"{}{}", b"\xff{}"]
)
async def test_a_body_that_is_not_a_json_object_is_rejected(
    sandbox_payer: PayoutMerchant, body: bytes
) -> None:
    assert_not_read(await sandbox_payer.send(body))


@pytest.mark.parametrize("name", ["payout_amount", "beneficiary", "unknown"])
async def test_a_duplicate_key_is_rejected(sandbox_payer: PayoutMerchant, name: str) -> None:
    body = json.dumps(await sandbox_payer.order() | {name: 1}).encode()
    assert_not_read(await sandbox_payer.send(body[:-1] + b', "%b": 1}' % name.encode()))


async def test_a_duplicate_key_in_the_beneficiary_is_rejected(
    sandbox_payer: PayoutMerchant,
) -> None:
    body = json.dumps(await sandbox_payer.order()).encode()
    twice = body.replace(b'{"bank_code": "058"', b'{"bank_code": "044", "bank_code": "058"')
    assert twice != body
    assert_not_read(await sandbox_payer.send(twice))


@pytest.mark.parametrize("scenario", ["", "Success", "unknown", "success,failed"])
async def test_an_unknown_scenario_is_rejected(
    sandbox_payer: PayoutMerchant, scenario: str
) -> None:
    reply = await sandbox_payer.send(await sandbox_payer.order(), X_Sandbox_Scenario=scenario)
    assert_refused(reply, "X-Sandbox-Scenario")


@pytest.mark.parametrize("scenario", ["success", "failed", "pending", "unknown"])
async def test_a_scenario_is_rejected_in_production(payer: PayoutMerchant, scenario: str) -> None:
    reply = await payer.send(await payer.order(), X_Sandbox_Scenario=scenario)
    assert_refused(reply, "X-Sandbox-Scenario")
    assert await payer.balance() == 1_000_000


async def test_the_format_is_checked_before_all_other_rules(own_payer: PayoutMerchant) -> None:
    await own_payer.change(MerchantUpdate(payouts_enabled=False))
    reply = await own_payer.ask(withdraw_method_id=0, currency_code="USD", ipn_url="x")
    assert_refused(reply, "ipn_url")


async def test_an_empty_description_counts_as_absent(sandbox_payer: PayoutMerchant) -> None:
    payout = await sandbox_payer.payout(await sandbox_payer.pay_out(description=""))
    assert payout.description is None


async def test_an_empty_account_id_or_beneficiary_has_the_wrong_type(
    sandbox_payer: PayoutMerchant,
) -> None:
    sent = await sandbox_payer.order()
    assert_refused(await sandbox_payer.send(sent | {"withdraw_account_id": ""}), WHO[1])
    assert_refused(await sandbox_payer.send(sent | {"beneficiary": ""}), WHO[0])


async def test_an_empty_method_code_returns_the_default_bank_list(payer: PayoutMerchant) -> None:
    given = await payer.merchant.get("/api/v1/payout/bank-list?method_code=")
    plain = await payer.merchant.get("/api/v1/payout/bank-list")
    assert (given.status, given.json) == (200, plain.json)
