"""Two merchants from different cells can have cases with the same number."""

import pytest

from manilla.cases import cases, listing
from manilla.cases.cases import CaseAction, CaseNotFound, CaseNotUnique
from manilla.cases.listing import CaseFilter
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.ledger.scope import Everyone
from manilla.lookup.find import find
from manilla.resolutions import resolutions
from tests.cases.same_number import two_cases

NOTHING = CaseAction.NOTHING


async def test_a_number_that_two_merchants_use_is_rejected_without_the_merchant(
    db: Database, keyring: Keyring
) -> None:
    number, merchants = await two_cases(db, keyring)
    names = f"The merchants {merchants[0]} and {merchants[1]} have a case {number}."
    with pytest.raises(CaseNotUnique, match=names):
        await cases.find(db, number)
    with pytest.raises(CaseNotUnique, match=names):
        await resolutions.resolve(db, number, "seen", NOTHING)
    with pytest.raises(CaseNotUnique, match=names):
        await resolutions.close_vanished(db, number)
    with pytest.raises(CaseNotUnique, match=names):
        await find(db, str(number))
    with pytest.raises(CaseNotFound):
        await cases.find(db, number, merchant_id=0)
    for merchant_id in merchants:
        case = await cases.find(db, number, merchant_id=merchant_id)
        assert (case.merchant_id, case.status) == (merchant_id, "open")


async def test_only_the_named_merchants_case_is_resolved(db: Database, keyring: Keyring) -> None:
    number, (first, second) = await two_cases(db, keyring)
    resolved = await resolutions.resolve(db, number, "seen", NOTHING, merchant_id=second)
    assert (resolved.merchant_id, resolved.status) == (second, "resolved")
    assert (await cases.find(db, number, merchant_id=first)).status == "open"


async def test_a_list_shows_both_cases_on_consecutive_pages(db: Database, keyring: Keyring) -> None:
    number, merchants = await two_cases(db, keyring)
    wanted = CaseFilter(search=str(number))
    first = await listing.cases(db, Everyone(), wanted, limit=1)
    rest = await listing.cases(db, Everyone(), wanted, limit=1, after=first.next)
    found = [(case.merchant_id, case.id) for case in first.rows + rest.rows]
    assert sorted(found) == [(merchant_id, number) for merchant_id in merchants]
