"""The account names in a payout file are checked before any row is paid."""

import msgspec
import pytest

from manilla.bulk import batches, drafts
from manilla.bulk.store import BatchRow
from tests.bulk.payout_file import (
    ADA,
    batch_of,
    confirmed,
    drafted,
    drafting_of,
    rows_of,
    states_of,
    tenant_of,
)
from tests.payouts.payout_merchant import BANKS, PayoutMerchant, new_account

INVALID = "0000000002"


async def _checked(payer: PayoutMerchant, batch_id: str) -> list[BatchRow]:
    await payer.simulator.run_job_now(drafts.NAMES, batch_id)
    return await rows_of(payer, batch_id)


async def test_a_name_that_differs_must_be_confirmed(payer: PayoutMerchant) -> None:
    batch_id = await drafted(payer, [f"1000,{BANKS['a']},{new_account()},Nobody Else,,"])
    db, tenant = payer.services.db, tenant_of(payer)
    with pytest.raises(batches.NamesNotChecked, match="still being checked"):
        await batches.confirm(db, tenant, batch_id, by=ADA, accepts_names=True)
    [row] = await _checked(payer, batch_id)
    assert (row.name_check, bool(row.resolved_name)) == ("differs", True)
    with pytest.raises(batches.NamesNotChecked, match="Confirm that you have checked"):
        await batches.confirm(db, tenant, batch_id, by=ADA)
    status = await batches.confirm(db, tenant, batch_id, by=ADA, accepts_names=True)
    assert status == "running"


async def test_a_name_that_agrees_or_is_missing_needs_no_confirmation(
    payer: PayoutMerchant,
) -> None:
    account = new_account()
    first = await drafted(payer, [f"1000,{BANKS['a']},{account},,,"])
    [row] = await _checked(payer, first)
    assert row.name_check == "agrees"
    words = " ".join(reversed((row.resolved_name or "").lower().split()))
    second = await drafted(payer, [f"1000,{BANKS['a']},{account},{words},,"])
    [row] = await _checked(payer, second)
    assert row.name_check == "agrees"


async def test_an_account_that_does_not_exist_is_an_error_at_its_field(
    payer: PayoutMerchant,
) -> None:
    batch_id = await drafted(payer, [f"1000,{BANKS['a']},{INVALID},,,"])
    [row] = await _checked(payer, batch_id)
    assert row.state == "faulty"
    assert "could not be verified" in row.faults["account_number"]


async def test_a_row_corrected_during_the_check_keeps_its_new_account(
    payer: PayoutMerchant,
) -> None:
    batch_id = await drafted(payer, [f"1000,{BANKS['a']},{INVALID},,,"])
    [row] = await _checked(payer, batch_id)
    drafting, batch = await drafting_of(payer), await batch_of(payer, batch_id)
    wanted = drafts.file_row(batch, row)
    account = new_account()
    assert (
        await drafts.correct(
            drafting, batch, [msgspec.structs.replace(wanted, account_number=account)]
        )
        == 1
    )
    [row] = await _checked(payer, batch_id)
    assert (row.state, row.account_number, row.name_check) == ("ready", account, "agrees")


async def test_a_silent_provider_delays_the_check(payer: PayoutMerchant) -> None:
    batch_id = await drafted(payer, [f"1000,{BANKS['a']},{new_account()},,,"])
    fault = {"call": "resolve", "fault": "5xx_before"}
    await payer.simulator.control("a/faults", {"next": [fault]})
    [row] = await _checked(payer, batch_id)
    assert (row.state, row.name_check) == ("ready", "waiting")
    [row] = await _checked(payer, batch_id)
    assert row.name_check == "agrees"


async def test_a_row_is_not_paid_if_the_account_has_another_holder_now(
    payer: PayoutMerchant,
) -> None:
    batch_id = await confirmed(payer, [1000])
    await payer.services.db.execute(
        "UPDATE payout_batch_row SET resolved_name = 'SOMEBODY ELSE' WHERE batch_id = $1", batch_id
    )
    await payer.simulator.run_job_now(batches.PAY, batch_id)
    assert await states_of(payer, batch_id) == ["refused"]
    assert await payer.balance() == 1_000_000
