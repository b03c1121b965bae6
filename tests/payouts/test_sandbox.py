"""The sandbox completes payouts automatically, without a provider, and supports scenarios."""

from contextlib import AsyncExitStack

import pytest

from manilla.payouts import decisions
from manilla.providers.port import Direction
from manilla.services import Services
from tests.payouts.payout_merchant import BANKS, MANUAL, RAILS, PayoutMerchant, setting
from tests.support.client import Reply
from tests.support.rows import first_short

START = 100_000_000
JOB = "payout.sandbox"
# Maps each test account number to the resulting status and error code.
ENDS = {
    "0000000000": ("completed", None),
    "0123456789": ("completed", None),
    "9999999999": ("completed", None),
    "0000000001": ("failed", "gateway_payout_failed"),
    "0000000003": ("pending", None),
}
REFUSED = {"0000000002": "invalid_beneficiary", "0000000004": "provider_insufficient_balance"}


def to(rail: str, account: str) -> dict[str, str]:
    return {"bank_code": BANKS[rail], "account_number": account}


async def send(
    payer: PayoutMerchant, scenario: str | None, rail: str = "a", account: str = ""
) -> Reply:
    changed = {"beneficiary": to(rail, account)} if account else {}
    return await payer.send(await payer.order(rail, **changed), X_Sandbox_Scenario=scenario)


async def jobs_of(payer: PayoutMerchant, trx_id: str) -> list[str]:
    records = await payer.services.db.records(
        "SELECT kind FROM job WHERE subject = $1 AND kind <> 'notify'", trx_id
    )
    return [record["kind"] for record in records]


async def assert_ended(payer: PayoutMerchant, trx_id: str, status: str, code: str | None) -> None:
    payout = await payer.payout(trx_id)
    assert (payout.status, payout.error_code) == (status, code)
    verified = {"completed": "success"}.get(status, status)
    reply = (await payer.verify(trx_id)).json
    assert (reply["status"], reply.get("error_code")) == (verified, code)
    notified = [
        (each["status"], each.get("error_code")) for each in await payer.notifications(trx_id)
    ]
    assert notified == ([] if status == "pending" else [(status, code)])
    spent = 0 if status == "failed" else 100_000
    assert await payer.balance() == START - spent
    assert await payer.account("in_flight") == (100_000 if status == "pending" else 0)


@pytest.mark.parametrize("account", ENDS)
@pytest.mark.parametrize("rail", first_short(RAILS))
async def test_test_account_numbers_decide_the_outcome(
    sandbox_payer: PayoutMerchant, rail: str, account: str
) -> None:
    trx_id = await sandbox_payer.pay_out(rail, beneficiary=to(rail, account))
    assert await sandbox_payer.balance() == START - 100_000
    await sandbox_payer.simulator.run_job_now(JOB, trx_id)
    await assert_ended(sandbox_payer, trx_id, *ENDS[account])


@pytest.mark.parametrize("account", REFUSED)
@pytest.mark.parametrize("rail", first_short(RAILS))
async def test_a_test_account_number_is_rejected_immediately(
    sandbox_payer: PayoutMerchant, rail: str, account: str
) -> None:
    reply = await sandbox_payer.ask(rail, beneficiary=to(rail, account))
    assert (reply.status, reply.code) == (422, REFUSED[account])
    assert await sandbox_payer.balance() == START


@pytest.mark.parametrize(
    ("scenario", "end"),
    [
        ("success", ("completed", None)),
        ("failed", ("failed", "gateway_payout_failed")),
        ("pending", ("pending", None)),
    ],
)
@pytest.mark.parametrize("account", first_short(ENDS))
async def test_a_scenario_overrides_the_account_number(
    sandbox_payer: PayoutMerchant, account: str, scenario: str, end: tuple[str, str | None]
) -> None:
    trx_id = (await send(sandbox_payer, scenario, account=account)).json["trx_id"]
    await sandbox_payer.simulator.run_job_now(JOB, trx_id)
    await assert_ended(sandbox_payer, trx_id, *end)


@pytest.mark.parametrize("rail", [*first_short(RAILS), MANUAL])
async def test_a_scenario_works_on_every_method(sandbox_payer: PayoutMerchant, rail: str) -> None:
    trx_id = (await send(sandbox_payer, "failed", rail)).json["trx_id"]
    await sandbox_payer.simulator.run_job_now(JOB, trx_id)
    await assert_ended(sandbox_payer, trx_id, "failed", "gateway_payout_failed")


async def test_a_manual_payout_waits_for_an_administrator_in_the_sandbox_too(
    sandbox_payer: PayoutMerchant,
) -> None:
    trx_id = await sandbox_payer.pay_out(MANUAL)
    assert await jobs_of(sandbox_payer, trx_id) == []
    await decisions.complete(sandbox_payer.services.db, trx_id, None)
    await assert_ended(sandbox_payer, trx_id, "completed", None)


@pytest.mark.parametrize("seconds", first_short([None, 0, 60]))
async def test_a_payout_completes_automatically_after_the_delay(
    sandbox_payer: PayoutMerchant, services: Services, seconds: int | None
) -> None:
    async with AsyncExitStack() as stack:
        if seconds is not None:
            changed = setting(services, "sandbox_complete_seconds", str(seconds))
            await stack.enter_async_context(changed)
        trx_id = await sandbox_payer.pay_out()
    due_in = await services.db.value(
        """
        SELECT extract(epoch FROM j.due_at - p.updated_at)
          FROM payout p JOIN job j ON j.subject = p.trx_id WHERE p.trx_id = $1""",
        trx_id,
    )
    delay = 5 if seconds is None else seconds
    assert delay - 2 < due_in <= delay
    await sandbox_payer.simulator.run_jobs()
    expected = "completed" if seconds == 0 else "pending"
    assert (await sandbox_payer.payout(trx_id)).status == expected


async def test_a_payout_ends_only_once(sandbox_payer: PayoutMerchant) -> None:
    trx_id = await sandbox_payer.pay_out(beneficiary=to("a", "0000000001"))
    await sandbox_payer.simulator.run_job_now(JOB, trx_id)
    assert await jobs_of(sandbox_payer, trx_id) == []
    await sandbox_payer.simulator.run_job_now(JOB, trx_id)
    await assert_ended(sandbox_payer, trx_id, "failed", "gateway_payout_failed")


@pytest.mark.parametrize("rail", first_short(RAILS))
async def test_no_provider_is_called_and_the_remark_mentions_the_sandbox(
    sandbox_payer: PayoutMerchant, rail: str
) -> None:
    trx_id = await sandbox_payer.pay_out(rail)
    await sandbox_payer.simulator.run_job_now(JOB, trx_id)
    assert (await sandbox_payer.payout(trx_id)).remarks == "SANDBOX_TRANSACTION"
    for provider in RAILS:
        assert await sandbox_payer.calls(provider) == []
    assert await sandbox_payer.account("clearing:sandbox") == 100_000
    assert await sandbox_payer.account(f"clearing:provider{rail}") == 0


async def test_a_production_payout_has_no_remark(payer: PayoutMerchant) -> None:
    assert (await payer.payout(await payer.pay_out())).remarks is None


async def test_a_rail_that_is_down_does_not_affect_the_sandbox(
    sandbox_payer: PayoutMerchant, services: Services
) -> None:
    sent = await sandbox_payer.order()
    rail = services.rails.health.rail("providera", Direction.PAY_OUT)
    rail.is_down = True
    try:
        assert (await sandbox_payer.send(sent)).status == 200
    finally:
        rail.reset()


@pytest.mark.parametrize(
    ("key", "text"), [("kyc_required", "true"), ("phone_required", "true"), ("payout_days", "")]
)
async def test_kyc_phone_and_schedule_do_not_apply_in_the_sandbox(
    sandbox_payer: PayoutMerchant, services: Services, key: str, text: str
) -> None:
    async with setting(services, key, text):
        assert (await sandbox_payer.ask()).status == 200


@pytest.mark.parametrize(
    ("rail", "code"),
    first_short(
        [("a", "044"), ("a", "058"), ("a", "011"), ("a", "057"), ("a", "033"), ("a", "999992")]
        + [("b", "000014"), ("b", "000013"), ("c", "C044"), ("c", "C058")],
        of_each=lambda row: row[0],
    ),
)
async def test_a_rail_accepts_its_own_bank_codes(
    sandbox_payer: PayoutMerchant, rail: str, code: str
) -> None:
    beneficiary = to(rail, "0123456789") | {"bank_code": code}
    assert (await sandbox_payer.ask(rail, beneficiary=beneficiary)).status == 200


@pytest.mark.parametrize(
    ("rail", "code", "owner"),
    first_short(
        [("a", "000013", "providerb"), ("a", "C058", "providerc"), ("b", "058", "providera")]
        + [("b", "C058", "providerc"), ("c", "058", "providera"), ("c", "000013", "providerb")]
        + [("a", "999", None), ("b", "", None), ("c", "c058", None)],
        of_each=lambda row: row[2] is None,
    ),
)
async def test_a_rail_rejects_other_bank_codes(
    sandbox_payer: PayoutMerchant, rail: str, code: str, owner: str | None
) -> None:
    beneficiary = to(rail, "0123456789") | {"bank_code": code}
    reply = await sandbox_payer.ask(rail, beneficiary=beneficiary)
    assert (reply.status, reply.code) == (422, "invalid_beneficiary")
    if owner is not None:
        error = reply.json["error"]
        assert f", not of the chosen provider{rail}" in error
        assert owner in error.partition(", not of")[0].partition("bank code of ")[2].split(", ")


async def test_sandbox_and_production_money_are_separate(
    payer: PayoutMerchant, sandbox_payer: PayoutMerchant
) -> None:
    await payer.pay_out()
    await sandbox_payer.pay_out()
    for caller, start in ((payer, 1_000_000), (sandbox_payer, START)):
        assert await caller.balance() == start - 100_000
        assert await caller.account("in_flight") == 100_000
