"""A payment is archived together with its ended disputes. An open dispute keeps its payment."""

import pytest

from manilla.disputes.dispute import Dispute
from manilla.proofs.archive import lookup, months
from tests.compliance.files import PDF
from tests.disputes.steps import LOST, NEEDS_RESPONSE, WON, Disputes, Paid
from tests.proofs.test_archive import Archive, archive

__all__ = ["archive"]

ROWS = """
    SELECT (SELECT count(*) FROM payment WHERE trx_id = $1)
         + (SELECT count(*) FROM dispute WHERE payment_trx_id = $1)
         + (SELECT count(*) FROM dispute_file WHERE trx_id = $2)"""


@pytest.fixture(scope="module")
def disputes(archive: Archive) -> Disputes:
    return Disputes(archive.story.shop)


async def _disputed(disputes: Disputes) -> tuple[Paid, Dispute]:
    """A payment is disputed, and the merchant adds a file."""
    paid = await disputes.pay()
    found = await disputes.open(paid)
    await disputes.service.add_file(disputes.tenant, found.trx_id, "note.pdf", PDF)
    return paid, found


async def _rows(archive: Archive, paid: Paid, dispute: Dispute) -> int:
    return await archive.owner.number(ROWS, paid.started.trx_id, dispute.trx_id)


async def test_an_ended_dispute_is_archived_with_its_payment_and_its_files(
    archive: Archive, disputes: Disputes
) -> None:
    paid, dispute = await _disputed(disputes)
    await disputes.empty_wallet()
    await disputes.report(paid.reported(WON))
    await disputes.empty_wallet()
    await disputes.report(paid.reported(LOST))
    owed, balances = await disputes.owed(), await archive.balances()
    assert owed == 1000_00
    await archive.run()
    assert await _rows(archive, paid, dispute) == 0
    assert await disputes.owed() == owed
    assert await archive.balances() == balances
    stored = await months.load(archive.owner)
    found = lookup.find(archive.folder, stored, paid.started.trx_id)["rows"]
    assert [row["status"] for row in found["dispute"]] == ["lost"]
    assert [row["name"] for row in found["dispute_file"]] == ["note.pdf"]
    await archive.assert_sound()


async def test_an_open_dispute_keeps_its_payment_until_it_ends(
    archive: Archive, disputes: Disputes
) -> None:
    paid, dispute = await _disputed(disputes)
    await archive.run()
    assert await _rows(archive, paid, dispute) == 3
    await archive.assert_sound()
    await disputes.report(paid.reported(WON))
    await archive.run()
    assert await _rows(archive, paid, dispute) == 0
    await archive.assert_sound()


async def test_a_dispute_of_an_archived_payment_opens_a_case_and_moves_no_money(
    archive: Archive, disputes: Disputes
) -> None:
    paid = await disputes.pay()
    await archive.run()
    balances = await archive.balances()
    reported = await disputes.report(paid.reported(NEEDS_RESPONSE))
    assert reported.dispute is None
    assert await archive.balances() == balances
    case = "SELECT true FROM operator_case WHERE kind = 'unknown_dispute' AND reference = $1"
    assert await archive.owner.has_row(case, f"providera:D-{paid.charge.reference}")
