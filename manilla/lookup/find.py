"""Finds a record by any ID that Manilla assigned, or by a payout's ID at its provider."""

import re

import msgspec

from manilla.cases import listing as cases
from manilla.cases.cases import CaseNotUnique
from manilla.cases.listing import CaseFilter
from manilla.customers import account_store
from manilla.customers import store as customers
from manilla.customers.customer import CUSTOMER_IDS, CustomerRow
from manilla.disputes.dispute import DISPUTE_IDS
from manilla.kit.database.connections import Database
from manilla.kit.database.rows import RowSource
from manilla.kit.listing import first, in_pages
from manilla.ledger import listing as ledger
from manilla.ledger import trx_ids
from manilla.ledger.scope import Everyone
from manilla.ledger.trx_ids import ACCOUNT_IDS, WAY_IDS
from manilla.merchants.requests import listing as requests
from manilla.merchants.requests.listing import RequestFilter
from manilla.merchants.requests.stored import Request
from manilla.notify import notification_ids
from manilla.notify import queries as notifications
from manilla.payouts import listing as payout_listing
from manilla.saved_ways import store as saved_ways
from manilla.transaction_types import TYPES

_REQUEST_ID = re.compile("[0-9a-f]{24}")


class LookupResult(msgspec.Struct, frozen=True):
    kind: str
    id: str
    merchant_id: int | None
    environment: str | None
    # The id of the transaction that the record belongs to, such as a charge's payment.
    trx_id: str | None = None


def owner_of(wanted: str) -> int | None:
    """Returns the merchant of a transaction's id, or None if the text has not the form of one.

    Charges have the payment's id, with a suffix.
    """
    trx_id = wanted.partition("-")[0]
    merchant_id = trx_ids.merchant_of(trx_id)
    return DISPUTE_IDS.owner_of(trx_id) if merchant_id is None else merchant_id


async def find(db: Database, text: str) -> LookupResult | None:
    """Returns the record, or None if the ID is unknown or the record has been deleted."""
    wanted = text.strip()
    if owner_of(wanted) is not None:
        return await _transaction(db, wanted)
    if customer_id_title(wanted) is not None:
        return await _customer(db, wanted)
    if notification_ids.merchant_of(wanted) is not None:
        return await _notification(db, wanted)
    if is_request_id(wanted) and (request := await find_request(db, wanted)):
        return _request(request)
    if wanted.isascii() and wanted.isdigit() and (case := await _case(db, wanted)):
        return case
    return await find_payout(db, wanted)


def customer_id_title(text: str) -> str | None:
    """Returns what the text is the id of, if a customer can be found by it."""
    titles = {CUSTOMER_IDS: "Customer ID", ACCOUNT_IDS: "Account ID", WAY_IDS: "Saved way ID"}
    return next((title for ids, title in titles.items() if ids.owner_of(text) is not None), None)


async def customer_of(db: RowSource, text: str) -> CustomerRow | None:
    """Returns the customer with this id, or of the account or saved way with this id."""
    if (merchant_id := CUSTOMER_IDS.owner_of(text)) is not None:
        return await customers.customer(db, merchant_id, text)
    if (merchant_id := ACCOUNT_IDS.owner_of(text)) is not None:
        account = await account_store.account(db, merchant_id, text)
        if account is not None:
            return await customers.customer(db, merchant_id, account.customer_id)
    if (merchant_id := WAY_IDS.owner_of(text)) is not None:
        way = await saved_ways.way(db, merchant_id, text)
        if way is not None:
            return await customers.find(db, way.tenant, way.customer_reference)
    return None


def is_request_id(text: str) -> bool:
    return _REQUEST_ID.fullmatch(text) is not None


async def find_payout(db: Database, reference: str) -> LookupResult | None:
    """Finds a payout by its session id or its provider's reference."""
    found = await payout_listing.known_elsewhere_as(db, reference)
    if not found:
        return None
    newest = found[0]
    return LookupResult("payout", reference, newest.merchant_id, newest.environment, newest.trx_id)


async def find_request(db: Database, request_id: str) -> Request | None:
    """Scans the request log, newest first, because request IDs have no index."""
    pages = in_pages(requests.requests, db, Everyone(), RequestFilter(search=request_id))
    found = await first(pages, 1)
    return found[0] if found else None


async def _transaction(db: Database, wanted: str) -> LookupResult | None:
    merchant_id = owner_of(wanted)
    if merchant_id is None:
        return None
    found = await db.record(_TRANSACTION, merchant_id, wanted)
    if found is not None:
        return LookupResult(
            *(found["kind"], wanted, merchant_id, found["environment"], found["trx_id"])
        )
    for posting in await ledger.postings_of(db, merchant_id, [wanted]):
        return LookupResult(posting.kind, wanted, merchant_id, posting.environment)
    return None


# A transaction that belongs to another one is shown on its page.
_TRANSACTION = " UNION ALL ".join(
    f"""
    SELECT '{each.name}' AS kind, t.environment, t.{kind.parent_column or "trx_id"} AS trx_id
      FROM {each.table} i JOIN {kind.name} t USING (merchant_id, trx_id)
     WHERE i.merchant_id = $1 AND i.{each.column} = $2"""
    for kind in TYPES
    for each in kind.ids
)


async def _customer(db: Database, wanted: str) -> LookupResult | None:
    found = await customer_of(db, wanted)
    if found is None:
        return None
    return LookupResult("customer", found.id, found.merchant_id, found.environment)


async def _notification(db: Database, wanted: str) -> LookupResult | None:
    found = await notifications.notification(db, wanted)
    if found is None:
        return None
    return LookupResult(
        "notification", found.id, found.merchant_id, found.environment, found.trx_id
    )


def _request(request: Request) -> LookupResult:
    whose = request.merchant_id, request.environment
    return LookupResult("request", request.request_id, *whose, request.trx_id)


async def _case(db: Database, wanted: str) -> LookupResult | None:
    page = await cases.cases(db, Everyone(), CaseFilter(search=wanted))
    found = [case for case in page.rows if str(case.id) == wanted]
    if not found:
        return None
    if len(found) > 1:
        raise CaseNotUnique(found[0].id, [case.merchant_id for case in found])
    case = found[0]
    return LookupResult("case", wanted, case.merchant_id, case.environment, case.trx_id)
