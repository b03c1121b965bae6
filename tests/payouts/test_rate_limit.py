"""Every payout request counts once. A request beyond the limit writes nothing."""

import asyncio
from collections import Counter

import pytest

from manilla.services import Services
from tests.payouts.payout_merchant import BANKS, MANUAL, RAILS, PayoutMerchant, new_account, setting
from tests.support.client import Reply
from tests.support.rows import first_short

GOOD_METHODS = "/api/v1/payout-methods?currency=NGN"
BANK_LIST = "/api/v1/payout/bank-list"


def remaining(reply: Reply) -> int:
    assert reply.headers["ratelimit-policy"].startswith('"merchant";q=')
    return int(reply.headers["ratelimit"].split(";r=")[1].split(";")[0])


def unresolved_beneficiary(rail: str = "a") -> dict[str, str]:
    """Returns a beneficiary whose account name is not cached and therefore must be resolved."""
    return {"bank_code": BANKS[rail], "account_number": new_account()}


async def test_every_request_counts_once_whatever_its_response(payer: PayoutMerchant) -> None:
    used = await payer.order(beneficiary=unresolved_beneficiary())
    replies = [
        await payer.send(used, Idempotency_Key="k"),
        await payer.send(used, Idempotency_Key="k"),
        await payer.send(used),
        await payer.send(await payer.order(), Idempotency_Key="k"),
        await payer.ask(currency_code="USD"),
        await payer.ask(payout_amount=1),
        await payer.ask(payout_amount=4_000_000),
        await payer.ask(beneficiary={"bank_code": "999", "account_number": new_account()}),
        await payer.ask(beneficiary={"bank_code": "058", "account_number": "0000000002"}),
        await payer.ask(beneficiary=None, withdraw_account_id=0),
        await payer.ask(withdraw_method_id=0),
        await payer.ask(payout_amount="1000"),
        await payer.send(b"not json"),
        await payer.send(await payer.order(), Idempotency_Key=""),
        await payer.send(await payer.order(), X_Sandbox_Scenario="success"),
    ]
    trx_id = replies[0].json["trx_id"]
    unknown = trx_id[:-1] + ("0" if trx_id[-1] != "0" else "1")
    replies += [await payer.verify(asked) for asked in (trx_id, "TXN1", unknown)]
    targets = (GOOD_METHODS, "/api/v1/payout-methods", BANK_LIST, f"{BANK_LIST}?method_code=x")
    replies += [await payer.merchant.get(target) for target in targets]
    assert [reply.status for reply in replies] == [
        *(200, 200, 422, 422, 422, 422, 422, 422, 422, 422, 422),
        *(400, 400, 400, 400),
        *(200, 404, 404),
        *(200, 400, 200, 422),
    ]
    assert [remaining(reply) for reply in replies] == list(range(119, 119 - len(replies), -1))


@pytest.mark.parametrize("rail", [*first_short(RAILS), MANUAL])
@pytest.mark.parametrize("environment", ["production", "sandbox"])
async def test_a_payout_counts_once_on_every_rail(
    payer: PayoutMerchant, sandbox_payer: PayoutMerchant, environment: str, rail: str
) -> None:
    """A request counts once, whether or not the beneficiary's account name is cached."""
    caller = payer if environment == "production" else sandbox_payer
    changed = {} if rail == MANUAL else {"beneficiary": unresolved_beneficiary(rail)}
    async with caller.at_second_process() as other:
        replies = [await other.ask(rail, **changed) for _ in range(3)]
    assert [(reply.status, remaining(reply)) for reply in replies] == [
        *((200, 119), (200, 118)),
        (200, 117),
    ]


async def test_concurrent_requests_count_once_each(payer: PayoutMerchant) -> None:
    await payer.fund("90000")
    asked = [payer.ask(beneficiary=unresolved_beneficiary()) for _ in range(40)]
    replies = await asyncio.gather(*asked)
    assert Counter(reply.status for reply in replies) == {200: 40}
    assert sorted(map(remaining, replies)) == list(range(80, 120))


async def test_concurrent_requests_with_one_reference_count_once_each(
    payer: PayoutMerchant,
) -> None:
    sent = await payer.order(beneficiary=unresolved_beneficiary())
    await asyncio.gather(*(payer.send(sent) for _ in range(64)))
    assert remaining(await payer.ask()) == 120 - 65


async def test_the_limit_is_checked_before_the_body_and_all_rules(
    payer: PayoutMerchant, services: Services
) -> None:
    used = await payer.order()
    bodies = [
        *(used, await payer.order(), await payer.order(beneficiary=unresolved_beneficiary())),
        *(await payer.order(currency_code="USD"), await payer.order(withdraw_method_id=0)),
        *(await payer.order(payout_amount=4_000_000), b"not json", b"{}"),
    ]
    async with setting(services, "rate_limit_per_minute", "2"):
        assert (await payer.send(used, Idempotency_Key="k")).status == 200
        assert (await payer.send(b"not json")).status == 400
        for body in bodies:
            reply = await payer.send(body, Idempotency_Key="k")
            assert (reply.status, reply.code) == (429, "RATE_LIMIT_EXCEEDED")
            assert 1 <= int(reply.headers["retry-after"]) <= 60
            assert remaining(reply) == 0
        assert (await payer.verify("TXN1")).status == 429
        assert (await payer.merchant.get(GOOD_METHODS)).status == 429
        assert (await payer.merchant.get(BANK_LIST)).status == 429
    assert await payer.balance() == 900_000


@pytest.mark.parametrize("is_known", [True, False])
async def test_beyond_the_limit_no_payout_is_created(
    payer: PayoutMerchant, services: Services, is_known: bool
) -> None:
    beneficiary = unresolved_beneficiary()
    if is_known:
        await payer.from_new_ip().pay_out(beneficiary=beneficiary)
    before = await payer.balance()
    sent = [await payer.order(beneficiary=beneficiary) for _ in range(6)]
    async with setting(services, "rate_limit_per_minute", "2"):
        replies = await asyncio.gather(*(payer.send(body) for body in sent))
    assert Counter(reply.status for reply in replies) == {200: 2, 429: 4}
    assert before - await payer.balance() == 200_000
    for body, reply in zip(sent, replies, strict=True):
        later = await payer.from_new_ip().send(body)
        assert later.status == (422 if reply.status == 200 else 200)


async def test_beyond_the_limit_no_provider_is_called(
    payer: PayoutMerchant, services: Services
) -> None:
    async with setting(services, "rate_limit_per_minute", "1"):
        await payer.send(b"not json")
        assert (await payer.ask(beneficiary=unresolved_beneficiary())).status == 429
    assert await payer.calls() == []
