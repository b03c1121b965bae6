"""Pages about shares: what the merchant gets of others' payments, its receivers, sub-accounts."""

from manilla.kit.errors import Refusal
from manilla.ledger import trx_ids
from manilla.ledger.transactions import TransactionNotFound
from manilla.lookup import story
from manilla.merchants.merchants import MerchantNotFound
from manilla.splits import listing, service, store
from manilla.splits.listing import ShareFilter
from manilla.splits.rule import NAME_LENGTH_MAX
from manilla.splits.service import PartnerNotFound
from manilla.transaction_types import SPLIT
from manilla.web import record_list, timeline
from manilla.web.columns import transactions as transaction_columns
from manilla.web.page_request import PageRequest
from manilla.web.record_list import RecordList
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

PAGE = "~/shares"
AT_MERCHANT = ((PartnerNotFound, "merchant"), (MerchantNotFound, "merchant"))
COLUMNS = listing.FIELDS.select(
    "trx_id payment_trx_id status currency amount withheld returned short hold_until created_at"
    " updated_at"
)
LIST = RecordList(
    "shares",
    "share",
    transaction_columns.SHARE_COLUMNS,
    listing.shares,
    listing.totals,
)


async def show_all(request: PageRequest) -> PageResponse:
    wanted = record_list.read_amounts(request, ShareFilter, "status", "currency")
    filters = [
        *transaction_columns.share_filters(),
        *record_list.currency_filter(sorted((await request.caller()).currencies)),
    ]
    partners = await store.partners(request.db, request.merchant_id)
    return await LIST.show(
        *(request, "shares.html", COLUMNS, [request.tenant], wanted, filters),
        owners=[each for each in partners if each.merchant_id == request.merchant_id],
        receivers=[each for each in partners if each.owner_id == request.merchant_id],
        sub_accounts=await store.sub_accounts(request.db, request.merchant_id),
        sub_account_id=service.sub_account_id,
    )


async def show(request: PageRequest) -> PageResponse:
    trx_id = request.parameter("share")
    is_own = trx_ids.merchant_of(trx_id) == request.merchant_id
    share = await store.share(request.db, request.merchant_id, trx_id) if is_own else None
    if share is None or share.environment != request.environment:
        raise PageNotFound
    found = await story.transaction_story(request.db, SPLIT, share.merchant_id, trx_id)
    entries = timeline.of_dispute(found.steps, found.postings)
    return request.page("share.html", share=share, timeline_events=entries)


async def release(request: PageRequest) -> PageResponse:
    """Releases all held shares of a payment."""
    trx_id = request.parameter("trx_id")
    try:
        await service.release(request.db, request.tenant, trx_id, None)
    except TransactionNotFound:
        raise PageNotFound from None
    return request.redirect(f"~/payments/{trx_id}", done="The shares were released.")


async def invite(request: PageRequest) -> PageResponse:
    try:
        receiver_id = request.form.integer("merchant")
        await service.invite(request.db, request.merchant_id, receiver_id)
    except Refusal as refusal:
        return request.redirect_with_errors(PAGE, refusal, keep=("merchant",), at=AT_MERCHANT)
    return request.redirect(PAGE, done=f"Merchant {receiver_id} can now accept your invitation.")


async def answer(request: PageRequest) -> PageResponse:
    """Accepts an owner's invitation, or ends the consent. The owner can end it too."""
    other, is_owner = int(request.parameter("partner")), request.form.is_checked("is_owner")
    accepts = request.form.is_checked("accepts") and not is_owner
    pair = (other, request.merchant_id) if is_owner else (request.merchant_id, other)
    try:
        await service.answer(request.db, *pair, accepts=accepts)
    except PartnerNotFound:
        raise PageNotFound from None
    return request.redirect(PAGE, done="Accepted." if accepts else "Ended.")


async def create_sub_account(request: PageRequest) -> PageResponse:
    try:
        name = request.form.required("name", at_most=NAME_LENGTH_MAX)
        services = request.services
        await service.create_sub_account(services.db, services.keyring, request.merchant_id, name)
    except Refusal as refusal:
        return request.redirect_with_errors(PAGE, refusal, keep=("name",))
    return request.redirect(PAGE, done=f"Sub-account {name} created.")
