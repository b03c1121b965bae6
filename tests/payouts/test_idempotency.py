"""Requests with the same reference or key get the same outcome, with one payout and one debit."""

import asyncio
import json
from collections import Counter
from typing import Any

import pytest

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.merchants.merchants import MerchantUpdate
from manilla.services import Services
from tests.payments.orders import INITIATE as INITIATE_PAYMENT
from tests.payments.orders import order as payment_order
from tests.payouts.payout_merchant import (
    BANKS,
    MANUAL,
    RAILS,
    PayoutMerchant,
    clear_credentials,
    method,
    new_account,
    new_reference,
)
from tests.support.client import Reply, Site, new_merchant
from tests.support.rows import first_short

REPLAYED = "idempotent-replayed"


def is_fresh(reply: Reply) -> bool:
    return reply.status == 200 and REPLAYED not in reply.headers


def is_replay_of(first: Reply, reply: Reply) -> bool:
    return (reply.status, reply.headers.get(REPLAYED), reply.body) == (200, "true", first.body)


async def count(payer: PayoutMerchant) -> int:
    number: int = await payer.services.db.value(
        "SELECT count(*) FROM payout WHERE merchant_id = $1", payer.merchant.new.id
    )
    return number


async def test_a_used_reference_returns_the_outcome_of_its_payout(
    payer: PayoutMerchant,
) -> None:
    sent = await payer.order()
    trx_id = (await payer.send(sent)).json["trx_id"]
    other = {"bank_code": BANKS["a"], "account_number": new_account()}
    changes: tuple[dict[str, Any], ...] = (
        *({}, {"payout_amount": 5000}, {"beneficiary": other}),
        {"description": "again"},
    )
    for status in ("pending", "completed"):
        for changed in changes:
            reply = await payer.send(sent | changed)
            assert reply.status == 422
            assert reply.json == {
                "error": "This ref_trx was used before.",
                "error_code": "DUPLICATE_REFERENCE",
                "trx_id": trx_id,
                "status": status,
                "duplicate_of": "ref_trx",
            }
        await payer.check_until(trx_id, "completed")
    assert (await payer.balance(), await count(payer)) == (900_000, 1)


async def test_a_rejected_reference_can_be_used_again(payer: PayoutMerchant) -> None:
    sent = await payer.order()
    bad = {"bank_code": "999", "account_number": new_account()}
    for changed in ({"payout_amount": 1}, {"payout_amount": 20_000}, {"beneficiary": bad}):
        assert (await payer.send(sent | changed)).status == 422
    assert (await payer.send(sent)).status == 200


async def test_a_failed_payout_keeps_its_reference(payer: PayoutMerchant) -> None:
    refused = {"call": "transfer", "fault": "refuse", "message": "Request refused"}
    await payer.simulator.control("a/faults", {"next": [refused]})
    sent = await payer.order()
    trx_id = (await payer.send(sent)).json["trx_id"]
    await payer.until(trx_id, "failed")
    reply = await payer.send(sent)
    assert (reply.code, reply.json["trx_id"], reply.json["status"]) == (
        *("DUPLICATE_REFERENCE", trx_id),
        "failed",
    )
    assert await payer.balance() == 1_000_000


async def test_a_reference_belongs_to_one_merchant_environment_and_kind(
    payer: PayoutMerchant, sandbox_payer: PayoutMerchant
) -> None:
    reference = new_reference()
    assert (await payer.ask(ref_trx=reference)).status == 200
    assert (await sandbox_payer.ask(ref_trx=reference)).status == 200
    body = payment_order(ref_trx=reference)
    assert (await sandbox_payer.merchant.post(INITIATE_PAYMENT, body)).status == 200


@pytest.mark.parametrize("rail", [*first_short(RAILS), MANUAL])
@pytest.mark.parametrize("environment", ["production", "sandbox"])
async def test_of_64_concurrent_requests_with_one_reference_one_succeeds(
    payer: PayoutMerchant, sandbox_payer: PayoutMerchant, environment: str, rail: str
) -> None:
    caller = payer if environment == "production" else sandbox_payer
    await caller.pay_out(rail)  # caches the account name
    before, sent = await caller.balance(), await caller.order(rail)
    replies = await asyncio.gather(*(caller.send(sent) for _ in range(64)))
    _assert_one_was_taken(replies)
    assert before - await caller.balance() == 100_000


@pytest.mark.parametrize("rail", first_short(RAILS))
async def test_of_64_concurrent_requests_one_succeeds_even_when_the_name_must_be_resolved(
    payer: PayoutMerchant, rail: str
) -> None:
    await payer.simulator.control(f"{rail}/faults", {"latency_seconds": 0.2})
    beneficiary = {"bank_code": BANKS[rail], "account_number": new_account()}
    sent = await payer.order(rail, beneficiary=beneficiary)
    replies = await asyncio.gather(*(payer.send(sent) for _ in range(64)))
    _assert_one_was_taken(replies)
    assert (await payer.balance(), await count(payer)) == (900_000, 1)


def _assert_one_was_taken(replies: list[Reply]) -> None:
    assert Counter((reply.status, reply.code) for reply in replies) == {
        (200, None): 1,
        (422, "DUPLICATE_REFERENCE"): 63,
    }
    assert len({reply.json["trx_id"] for reply in replies}) == 1
    assert {reply.json["status"] for reply in replies} == {"pending"}


async def test_concurrent_requests_of_several_merchants_are_independent(
    payer: PayoutMerchant, sandbox_payer: PayoutMerchant, site: Site, db: Database, keyring: Keyring
) -> None:
    """One SQL statement handles the requests of several merchants with the same reference.

    One of the merchants has an insufficient balance.
    """
    neighbour = PayoutMerchant(
        payer.services, payer.simulator, await new_merchant(site, db, keyring)
    )
    poor, rich, reference = payer, (sandbox_payer, neighbour), new_reference()
    orders = [(caller, await caller.order(MANUAL, ref_trx=reference)) for caller in rich]
    orders.append((poor, await poor.order(MANUAL, ref_trx=reference, payout_amount=10_000.01)))
    before = {caller: await caller.balance() for caller, _ in orders}
    asked = [(caller, caller.send(order)) for _ in range(8) for caller, order in orders]
    replies = await asyncio.gather(*(reply for _, reply in asked))
    answers = {caller: Counter[tuple[int, str | None]]() for caller in before}
    for (caller, _), reply in zip(asked, replies, strict=True):
        answers[caller][reply.status, reply.code] += 1
    for caller in rich:
        assert answers[caller] == {(200, None): 1, (422, "DUPLICATE_REFERENCE"): 7}
        assert before[caller] - await caller.balance() == 100_000
    assert answers[poor] == {(422, "insufficient_balance"): 8}
    assert await poor.balance() == before[poor]


async def test_one_reference_succeeds_once_across_api_processes(
    payer: PayoutMerchant,
) -> None:
    async with payer.at_second_process() as other:
        for _ in range(4):
            beneficiary = {"bank_code": BANKS["a"], "account_number": new_account()}
            sent = await payer.order(beneficiary=beneficiary)
            replies = await asyncio.gather(*(at.send(sent) for at in [payer, other] * 4))
            assert Counter(reply.status for reply in replies) == {200: 1, 422: 7}
            assert len({reply.json["trx_id"] for reply in replies}) == 1
    assert await payer.balance() == 1_000_000 - 4 * 100_000


@pytest.mark.parametrize("rail", first_short(["a", MANUAL]))
async def test_concurrent_payouts_never_exceed_the_wallet_balance(
    payer: PayoutMerchant, services: Services, rail: str
) -> None:
    """After six payouts, the wallet has 1,000.00, which covers the amount but not the fee."""
    async with method(services, rail, fee_fixed="500"):
        await payer.pay_out(rail)
        replies = await asyncio.gather(*(payer.ask(rail) for _ in range(30)))
    assert Counter((reply.status, reply.code) for reply in replies) == {
        (200, None): 5,
        (422, "insufficient_balance"): 25,
    }
    assert await payer.balance() == 100_000
    assert await payer.account("in_flight") == 600_000
    assert await payer.account("payout_fee") == 300_000


@pytest.mark.parametrize("rail", first_short(["a", MANUAL]))
@pytest.mark.parametrize("key", ["7", "~!@ #$%^&*()", "k" * 255])
async def test_the_same_key_and_body_replay_the_first_response_byte_for_byte(
    payer: PayoutMerchant, rail: str, key: str
) -> None:
    body = await payer.order_of("1000.10", rail, description='Zoë "x" 😀')
    first = await payer.send(body, Idempotency_Key=key)
    assert is_fresh(first)
    for _ in range(2):
        assert is_replay_of(first, await payer.send(body, Idempotency_Key=key))
    assert (await payer.balance(), await count(payer)) == (899_990, 1)


async def test_a_replay_returns_the_original_state(payer: PayoutMerchant) -> None:
    body = json.dumps(await payer.order()).encode()
    first = await payer.send(body, Idempotency_Key="k")
    await payer.check_until(first.json["trx_id"], "completed")
    assert is_replay_of(first, await payer.send(body, Idempotency_Key="k"))
    async with payer.at_second_process() as other:
        assert is_replay_of(first, await other.send(body, Idempotency_Key="k"))


async def test_a_success_is_not_rejected_when_repeated(
    payer: PayoutMerchant,
) -> None:
    body = json.dumps(await payer.order()).encode()
    first = await payer.send(body, Idempotency_Key="k")
    await payer.change(MerchantUpdate(payouts_enabled=False, currencies=["USD"]))
    await clear_credentials(payer.services, "a")
    assert is_replay_of(first, await payer.send(body, Idempotency_Key="k"))
    assert (await payer.send(body)).code == "gateway_not_configured"


async def test_a_replay_calls_no_provider(payer: PayoutMerchant) -> None:
    body = json.dumps(await payer.order()).encode()
    first = await payer.send(body, Idempotency_Key="k")
    await payer.simulator.control("a/faults", {"outage": True})
    async with payer.at_second_process() as other:
        assert is_replay_of(first, await other.send(body, Idempotency_Key="k"))


@pytest.mark.parametrize("change", ["amount", "reference", "a space"])
async def test_the_same_key_with_another_body_is_rejected(
    payer: PayoutMerchant, change: str
) -> None:
    body = await payer.order_of("1000")
    first = await payer.send(body, Idempotency_Key="k")
    other = {
        "amount": body.replace(b"1000", b"1001"),
        "reference": body.replace(b"PAYOUT-", b"OTHER-"),
        "a space": body + b" ",
    }[change]
    reply = await payer.send(other, Idempotency_Key="k")
    assert (reply.status, reply.code) == (422, "DUPLICATE_REFERENCE")
    assert REPLAYED not in reply.headers
    assert is_replay_of(first, await payer.send(body, Idempotency_Key="k"))
    assert (await payer.balance(), await count(payer)) == (900_000, 1)


async def test_a_retry_without_its_key_is_a_used_reference(payer: PayoutMerchant) -> None:
    body = json.dumps(await payer.order()).encode()
    first = await payer.send(body, Idempotency_Key="k")
    for key in (None, "other"):
        reply = await payer.send(body, Idempotency_Key=key)
        assert (reply.status, reply.code) == (422, "DUPLICATE_REFERENCE")
        assert reply.json["trx_id"] == first.json["trx_id"]


async def test_only_successful_responses_are_stored_under_a_key(payer: PayoutMerchant) -> None:
    body = json.dumps(await payer.order(payout_amount=10_000.01)).encode()
    refused = await payer.send(body, Idempotency_Key="k")
    assert (refused.status, refused.code) == (422, "insufficient_balance")
    await payer.fund("0.01")
    assert is_fresh(await payer.send(body, Idempotency_Key="k"))
    assert await payer.balance() == 0


@pytest.mark.parametrize("body", [b"not json", b"{}"])
async def test_the_key_of_a_rejected_body_can_be_used_again(
    payer: PayoutMerchant, body: bytes
) -> None:
    assert (await payer.send(body, Idempotency_Key="k")).status == 400
    assert is_fresh(await payer.send(await payer.order(), Idempotency_Key="k"))


async def test_a_key_belongs_to_one_merchant_environment_and_endpoint(
    payer: PayoutMerchant, sandbox_payer: PayoutMerchant, site: Site, db: Database, keyring: Keyring
) -> None:
    neighbour = PayoutMerchant(
        payer.services, payer.simulator, await new_merchant(site, db, keyring)
    )
    for caller in (payer, sandbox_payer, neighbour):
        assert is_fresh(await caller.send(await caller.order(), Idempotency_Key="k"))
        raw = json.dumps(payment_order()).encode()
        paid = await caller.merchant.call("POST", INITIATE_PAYMENT, raw, Idempotency_Key="k")
        assert is_fresh(paid)


@pytest.mark.parametrize("is_known", [True, False])
async def test_64_concurrent_requests_with_one_key_and_body_get_one_response(
    payer: PayoutMerchant, is_known: bool
) -> None:
    beneficiary = {"bank_code": BANKS["a"], "account_number": new_account()}
    await payer.simulator.control("a/faults", {"latency_seconds": 0.1})
    if is_known:
        await payer.pay_out(beneficiary=beneficiary)
    before, sent = await payer.balance(), await payer.order(beneficiary=beneficiary)
    replies = await asyncio.gather(*(payer.send(sent, Idempotency_Key="k") for _ in range(64)))
    assert Counter(reply.status for reply in replies) == {200: 64}
    assert len({reply.body for reply in replies}) == 1
    assert sum(is_fresh(reply) for reply in replies) == 1
    assert before - await payer.balance() == 100_000


@pytest.mark.parametrize("is_known", [True, False])
async def test_of_64_concurrent_bodies_with_one_key_one_succeeds(
    payer: PayoutMerchant, is_known: bool
) -> None:
    beneficiary = {"bank_code": BANKS["a"], "account_number": new_account()}
    await payer.simulator.control("a/faults", {"latency_seconds": 0.1})
    if is_known:
        await payer.pay_out(beneficiary=beneficiary)
    before = await payer.balance()
    bodies = [await payer.order(beneficiary=beneficiary, payout_amount=100) for _ in range(64)]
    replies = await asyncio.gather(*(payer.send(body, Idempotency_Key="k") for body in bodies))
    assert Counter((reply.status, reply.code) for reply in replies) == {
        (200, None): 1,
        (422, "DUPLICATE_REFERENCE"): 63,
    }
    assert before - await payer.balance() == 10_000


@pytest.mark.parametrize("key", first_short(["", "k" * 256, "caf\xe9", "a\tb", "a\x7fb"]))
async def test_a_key_that_is_not_1_to_255_printable_characters_is_rejected(
    payer: PayoutMerchant, key: str
) -> None:
    sent = await payer.order()
    reply = await payer.send(sent, Idempotency_Key=key)
    assert (reply.status, reply.code) == (400, "VALIDATION_FAILED")
    assert (await payer.send(sent)).status == 200
