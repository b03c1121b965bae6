"""Lists of payouts and of saved accounts."""

import msgspec

from manilla.kit import listing
from manilla.kit.db import Database
from manilla.kit.fields import Fields
from manilla.kit.listing import (
    PAGE_ROWS,
    PAGE_ROWS_MAX,
    Conditions,
    Moment,
    Number,
    Page,
    Query,
)
from manilla.ledger import trx_ids
from manilla.ledger.scope import Everyone, Scope, Tenant, whose, within
from manilla.payouts.beneficiaries import accounts
from manilla.payouts.beneficiaries.accounts import SavedAccount
from manilla.payouts.payout import Payout, PayoutErrorCode, PayoutStatus
from manilla.payouts.store import PAYOUT_COLUMNS, read

# The names of the account number field on automatic methods and on the manual method.
_ACCOUNT_NUMBER = "coalesce(beneficiary ->> 'account_number', beneficiary ->> 'Account Number')"


FIELDS = Fields(
    Payout,
    payout_amount="amount",
    payable_amount="payable",
    method="method_code",
    withdraw_method="method_name",
    reversed="is_reversed",
    sent_at="began_at",
)


class PayoutFilter(msgspec.Struct, frozen=True, kw_only=True):
    status: PayoutStatus | None = None
    error_code: PayoutErrorCode | None = None
    method: str | None = None  # code of the withdrawal method
    manual: bool | None = None  # whether an administrator processes the payout
    currency: str | None = None
    since: Moment | None = None
    until: Moment | None = None  # exclusive upper bound of the time
    min_minor: Number | None = None
    max_minor: Number | None = None
    # A transaction id or a full ref_trx is matched first, then a full session id or reference of
    # the provider. Otherwise the search matches a full account number or bank reference, or a part
    # of the ref_trx or of the account's name.
    search: str | None = None


class AccountFilter(msgspec.Struct, frozen=True, kw_only=True):
    active: bool | None = True
    method: str | None = None
    search: str | None = None  # a full account number, or a part of the label or account name


async def payouts(
    db: Database,
    scope: Scope,
    wanted: PayoutFilter,
    *,
    after: str | None = None,
    limit: int = PAGE_ROWS,
) -> Page[Payout]:
    """Lists payouts, newest first by the time in their ids."""
    steps = _query(scope, wanted)
    text = listing.searched(wanted.search)
    if text is not None:
        for query in (_referred_to(steps, text), _known_elsewhere_as(steps, text)):
            if exact := await listing.exact(db, query, read):
                return Page(exact)
        steps = steps.narrowed(
            f"({_ACCOUNT_NUMBER} = {{}} OR bank_reference = {{}}"
            " OR position(lower({}) IN lower(concat_ws(E'\\n', ref_trx, account_name))) > 0)",
            *[text] * 3,
        )
    return await listing.walk(db, steps, read, after, limit)


async def known_elsewhere_as(db: Database, reference: str) -> list[Payout]:
    """Returns the payouts with this session id or reference of their provider."""
    everything = _query(Everyone(), PayoutFilter())
    return await listing.exact(db, _known_elsewhere_as(everything, reference), read)


def _query(scope: Scope, wanted: PayoutFilter) -> Query:
    conditions = (
        within(scope)
        .add_given("status = {}", wanted.status)
        .add_given("error_code = {}", wanted.error_code)
        .add_given("method_code = {}", wanted.method)
        .add_given("(provider IS NULL) = {}", wanted.manual)
        .add_given("currency = {}", wanted.currency)
        .add_given("amount_minor >= {}", wanted.min_minor)
        .add_given("amount_minor <= {}", wanted.max_minor)
    )
    return Query(
        "payout",
        PAYOUT_COLUMNS,
        trx_ids.CLOCK,
        whose(scope),
        conditions,
        wanted.since,
        wanted.until,
    )


async def saved_accounts(
    db: Database,
    merchant_id: int,
    wanted: AccountFilter,
    *,
    after: str | None = None,
    limit: int = PAGE_ROWS,
) -> Page[SavedAccount]:
    """Lists saved accounts, newest first. They are shared by both environments."""
    limit = min(limit, PAGE_ROWS_MAX)
    conditions = (
        Conditions()
        .add("merchant_id = {}", merchant_id)
        .add_given("id < {}", listing.read_cursor(int, after))
        .add_given("active = {}", wanted.active)
        .add_given("method_code = {}", wanted.method)
    )
    text = listing.searched(wanted.search)
    if text is not None:
        conditions.add(
            f"({_ACCOUNT_NUMBER} = {{}}"
            " OR position(lower({}) IN lower(concat_ws(E'\\n', label, account_name))) > 0)",
            *(text, text),
        )
    records = await db.records(
        f"{accounts.SAVED} WHERE {conditions.sql} ORDER BY id DESC LIMIT {limit}",
        *conditions.values,
    )
    rows = [accounts.read(record) for record in records]
    return Page(rows, listing.cursor(rows[-1].id) if len(rows) == limit else None)


async def named(db: Database, tenant: Tenant, ref_trx: str) -> list[str]:
    """Returns the ids of the payout with this merchant reference; empty if there is none."""
    records = await db.records(
        """
        SELECT trx_id FROM payout
         WHERE merchant_id = $1 AND environment = $2 AND ref_trx = $3""",
        *(tenant.merchant_id, tenant.environment, ref_trx),
    )
    return [record["trx_id"] for record in records]


def _referred_to(steps: Query, text: str) -> Query:
    """Returns the payouts that an id or ref_trx refers to.

    A transaction id identifies one payout; several merchants can use the same ref_trx.
    """
    merchant_id = trx_ids.merchant_of(text)
    if merchant_id is None:
        return steps.narrowed("ref_trx = {}", text)
    return steps.narrowed("merchant_id = {} AND trx_id = {}", merchant_id, text)


def _known_elsewhere_as(steps: Query, text: str) -> Query:
    return steps.narrowed("(session_id = {} OR provider_reference = {})", text, text)
