"""Listing and filtering cases."""

from typing import Any

from manilla.cases import cases, listing
from manilla.cases.cases import CaseAction, CaseKind
from manilla.cases.listing import CaseFilter, CaseStatus
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.kit.listing import in_pages
from manilla.ledger import trx_ids
from manilla.ledger.scope import Everyone, Scope, Tenant
from manilla.merchants import merchants
from manilla.resolutions import resolutions


async def test_cases_are_found_by_every_filter_and_reference(
    db: Database, keyring: Keyring
) -> None:
    new = await merchants.create(db, keyring, name="Cases", email="c@example.com")
    tenant = Tenant(new.id, Environment.PRODUCTION)

    async def open_case(kind: CaseKind, reference: str, **more: Any) -> None:
        fields = {"merchant_id": new.id, "environment": Environment.PRODUCTION, **more}
        await cases.open_case(db, kind, reference, "look", **fields)

    async def found(scope: Scope = tenant, **wanted: Any) -> list[str]:
        rows = (await listing.cases(db, scope, CaseFilter(**wanted))).rows
        return [case.reference for case in rows]

    trx_id = trx_ids.new(new.id)
    await open_case(CaseKind.WRONG_AMOUNT, f"{trx_id}-1", trx_id=trx_id)
    await open_case(CaseKind.CONTRADICTION, "100%_odd")
    await open_case(CaseKind.CONTRADICTION, "in the sandbox", environment=Environment.SANDBOX)
    await open_case(CaseKind.UNKNOWN_REFERENCE, "nobody's", merchant_id=0, environment=None)
    assert await found() == ["100%_odd", f"{trx_id}-1"]
    assert (await found(Everyone()))[:2] == ["nobody's", "in the sandbox"]
    assert await found(Everyone(new.id), kind=CaseKind.CONTRADICTION) == [
        "in the sandbox",
        "100%_odd",
    ]
    assert await found(search=trx_id) == await found(search=f"{trx_id}-1") == [f"{trx_id}-1"]
    assert await found(search="100%_odd") == ["100%_odd"]
    assert await found(search="100%") == await found(search="%") == []
    [odd, wrong] = (await listing.cases(db, tenant, CaseFilter())).rows
    assert await found(search=str(odd.id)) == ["100%_odd"]
    assert await found(since=odd.opened_at) == ["100%_odd"]
    assert await found(until=odd.opened_at) == [wrong.reference]
    assert await listing.count_open(db, tenant) == 2
    await resolutions.resolve(db, odd.id, "seen", CaseAction.NOTHING)
    assert await found(status=CaseStatus.RESOLVED) == ["100%_odd"]
    assert await listing.count_open(db, tenant) == 1
    first = await listing.cases(db, tenant, CaseFilter(), limit=1)
    rest = await listing.cases(db, tenant, CaseFilter(), limit=5, after=first.next)
    assert [case.id for case in first.rows + rest.rows] == [odd.id, wrong.id]
    whole = in_pages(listing.cases, db, tenant, CaseFilter())
    assert [case.id async for rows in whole for case in rows] == [odd.id, wrong.id]
