"""The copied rows of a moved merchant affect no other merchant, in either cell."""

from datetime import timedelta

from manilla.cases import cases
from manilla.cases.cases import CaseKind
from manilla.cells import overview
from manilla.cells.moving import fence
from manilla.cli import case
from manilla.kit import crypto
from manilla.kit.crypto import Keyring
from manilla.kit.environment import Environment
from manilla.merchants import api_keys, credentials, merchants
from manilla.notify import retention
from manilla.reconciliation import balances
from tests.cli.in_process import InProcessCommand
from tests.moving.movers import Mover


async def test_a_case_that_arrives_is_not_mistaken_for_another_merchants(mover: Mover) -> None:
    merchants = {"lagos": mover.merchant_id}
    merchants["abuja"] = (await mover.other_merchant("abuja")).merchant.new.id
    for cell, merchant_id in merchants.items():
        await cases.open_case(
            *(mover.db(cell), CaseKind.UNKNOWN_REFERENCE, f"REF-{cell}", "Look at it."),
            merchant_id=merchant_id,
            environment=Environment.PRODUCTION,
        )
    await mover.move()
    command = InProcessCommand(case.app, mover.pair.abuja.commands.environment)
    assert "--merchant ID" in await command.refused("show", "1")
    for cell, merchant_id in merchants.items():
        shown = await command.printed("show", "1", "--merchant", str(merchant_id))
        assert (shown["merchant_id"], shown["reference"]) == (merchant_id, f"REF-{cell}")
    words = ("1", "--note", "Seen", "--merchant", str(mover.merchant_id))
    assert (await command.printed("resolve", *words))["reference"] == "REF-lagos"
    [still_open] = await cases.cases(mover.db("abuja"))
    assert still_open.merchant_id == merchants["abuja"]


async def test_reconciliation_leaves_copies_to_the_merchants_cell(mover: Mover) -> None:
    lagos = mover.payers["lagos"]
    trx_id = await lagos.pay_out()
    await lagos.until(trx_id, "completed")
    await mover.move()
    await lagos.settle("a", trx_id, "reversed")
    found = {}
    for cell in ("lagos", "abuja"):
        services = mover.running(cell).services
        found[cell] = await balances.compare(services.db, services.rails, "providera")
    assert (found["lagos"].transfers_asked, found["lagos"].transfers_differ) == (0, [])
    assert found["abuja"].transfers_differ == [trx_id]
    assert (await mover.payers["abuja"].payout(trx_id)).is_reversed


async def test_a_moved_merchants_requests_and_keys_stop_no_task(mover: Mover) -> None:
    await mover.owners["lagos"].execute(
        """
        INSERT INTO api_key (merchant_id, environment, number, name, api_key_hash, secret_sealed,
                             rights, networks, expires_at, created_by)
        SELECT merchant_id, environment, 1, 'x', 'x', secret_sealed, '{read}', '{}',
               now() - interval '2 days', 'x'
          FROM credential WHERE merchant_id = $1 AND environment = 'production'""",
        mover.merchant_id,
    )
    await mover.move()
    await api_keys.delete_expired(mover.db("lagos"))
    log = mover.pair.lagos.services.requests
    log._written_uses = {}
    assert (await mover.payers["lagos"].ask()).status == 503
    await log.flush()
    assert log._uses == {}


async def test_notifications_that_were_deleted_are_not_missed_in_the_new_cell(mover: Mover) -> None:
    lagos = mover.payers["lagos"]
    trx_id = await lagos.pay_out()
    await lagos.until(trx_id, "completed")
    for change in (
        "UPDATE payout SET created_at = created_at - interval '2 years'",
        "UPDATE notification SET created_at = created_at - interval '2 years', state = 'delivered'",
    ):
        await mover.owners["lagos"].execute(f"{change} WHERE trx_id = $1", trx_id)
    await retention.delete_old(mover.db("lagos"), timedelta(days=365))
    await mover.move()
    for cell in ("lagos", "abuja"):
        count = "SELECT count(*) FROM notification WHERE trx_id = $1"
        assert await mover.db(cell).number(count, trx_id) == 0
        assert await mover.broken(cell) == []


async def test_the_master_key_also_changes_in_copies(mover: Mover) -> None:
    await mover.move()
    services = mover.pair.lagos.services
    keyring = Keyring([crypto.decode_key(crypto.generate_key()), *services.keyring._keys.values()])
    for column in (credentials.SEALED, merchants.SEALED_BVN):
        await crypto.rewrap_column(services.db, keyring, column, fence.pass_copy)
    found = await services.db.records(
        "SELECT secret_sealed FROM credential WHERE merchant_id = $1", mover.merchant_id
    )
    assert found
    assert all(keyring.is_current(row["secret_sealed"]) for row in found)


async def test_a_merchant_that_was_moved_today_counts_only_in_its_new_cell(mover: Mover) -> None:
    payer = mover.payers["lagos"]
    trx_id = await payer.pay_out()
    await payer.until(trx_id, "completed")
    failed = "UPDATE notification SET state = 'failed' WHERE merchant_id = $1"
    await mover.owners["lagos"].execute(failed, mover.merchant_id)
    before = {cell: await _figures(mover, cell) for cell in ("lagos", "abuja")}
    assert before["lagos"] > (0, 0)
    await mover.move()
    assert await _figures(mover, "lagos") == (0, 0)
    assert await _figures(mover, "abuja") >= before["lagos"]


async def _figures(mover: Mover, cell: str) -> tuple[int, int]:
    """Returns what the merchants of a cell were paid out today, and their failed notifications."""
    services = mover.running(cell).services
    figures = await overview.read(services.db, services.cells.now, ["NGN"])
    assert figures.volumes is not None
    return figures.volumes[0].paid_out_minor, figures.tasks["notifications"] or 0
