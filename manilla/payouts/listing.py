"""Lists payouts and saved accounts."""

from collections.abc import Mapping

import msgspec

from manilla.beneficiaries import accounts
from manilla.beneficiaries.accounts import SavedAccount
from manilla.kit import listing
from manilla.kit.database.rows import Reads
from manilla.kit.fields import Fields
from manilla.kit.listing import PAGE_ROWS, PAGE_ROWS_MAX, Conditions, Page
from manilla.kit.listing.sorting import NUMBERED, Selection, SortOrder, Totals
from manilla.ledger import transaction_lists, trx_ids
from manilla.ledger.scope import Everyone, Scope, Tenant
from manilla.ledger.transaction_lists import IndexedMatch, TransactionFilter
from manilla.payouts.payout import Payout, PayoutStatus
from manilla.payouts.store import PAYOUT_COLUMNS, read
from manilla.transfers.refusals import PayoutErrorCode

# The account number's field name differs between automatic and manual methods.
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


class BankCodes(msgspec.Struct, frozen=True):
    """A bank's code in our registry, for automatically routed payouts, and at each provider."""

    code: str
    at_providers: Mapping[str, str]  # the code that each provider uses for the bank


class PayoutFilter(TransactionFilter, frozen=True, kw_only=True):
    status: PayoutStatus | None = None
    error_code: PayoutErrorCode | None = None
    method: str | None = None  # code of the withdrawal method
    manual: bool | None = None  # whether an administrator processes the payout
    bank: BankCodes | None = None
    under_review: bool = False  # whether to list only payouts that an administrator must decide on
    # The search first compares complete ids, references, session ids and account numbers.
    # If no payout matches, it compares bank references, and parts of references and account names.
    search: str | None = None


class AccountFilter(msgspec.Struct, frozen=True, kw_only=True):
    active: bool | None = True
    method: str | None = None
    search: str | None = None  # a full account number, or a part of the label or account name


async def payouts(
    db: Reads,
    scope: Scope,
    wanted: PayoutFilter,
    *,
    after: str | None = None,
    limit: int = PAGE_ROWS,
) -> Page[Payout]:
    """Lists payouts by the creation time in their ids, by default newest first."""
    steps = await _query(db, scope, wanted)
    return await steps.page(db, read, wanted.sort, after, limit)


async def totals(db: Reads, scope: Scope, wanted: PayoutFilter) -> Totals:
    return await (await _query(db, scope, wanted)).totals(db)


async def known_elsewhere_as(db: Reads, reference: str) -> list[Payout]:
    """Returns the payouts with this session id or provider reference."""
    everything = transaction_lists.query("payout", PAYOUT_COLUMNS, Everyone(), PayoutFilter())
    known_as = everything.narrowed("(session_id = {} OR provider_reference = {})", *[reference] * 2)
    indexed = msgspec.structs.replace(known_as, index=None)
    return (await indexed.page(db, read, SortOrder.NEWEST, None, PAGE_ROWS_MAX)).rows


async def _query(db: Reads, scope: Scope, wanted: PayoutFilter) -> Selection:
    steps = _filtered(transaction_lists.query("payout", PAYOUT_COLUMNS, scope, wanted), wanted)
    text = listing.search_text(wanted.search)
    if text is None:
        return steps
    partly = steps.narrowed(
        "(bank_reference = {}"
        " OR position(lower({}) IN lower(concat_ws(E'\\n', ref_trx, account_name))) > 0)",
        *(text, text),
    )
    return await transaction_lists.first_match(db, steps, matches(scope, text), partly)


def _filtered(steps: Selection, wanted: PayoutFilter) -> Selection:
    filters = {
        "error_code = {}": wanted.error_code,
        "method_code = {}": wanted.method,
        "(provider IS NULL) = {}": wanted.manual,
    }
    for sql, value in filters.items():
        if value is not None:
            steps = steps.narrowed(sql, value)
    if wanted.under_review:
        rare = steps.narrowed(transaction_lists.UNDER_REVIEW)
        steps = msgspec.structs.replace(rare, index=None)
    return steps if wanted.bank is None else _to_bank(steps, wanted.bank)


def _to_bank(steps: Selection, bank: BankCodes) -> Selection:
    return steps.narrowed(
        "CASE WHEN rail_bank_code IS NOT NULL THEN beneficiary ->> 'bank_code' = {}"
        " ELSE (provider, beneficiary ->> 'bank_code') IN"
        " (SELECT * FROM unnest({}::text[], {}::text[])) END",
        *(bank.code, list(bank.at_providers), list(bank.at_providers.values())),
    )


def matches(scope: Scope, text: str) -> list[IndexedMatch]:
    """Returns SQL conditions, supported by indexes, for payouts with exactly this value."""
    found = transaction_lists.matches(scope, text)
    if trx_ids.merchant_of(text) is not None:
        return found
    found += [
        IndexedMatch("Session ID", "session_id = {}", (text,)),
        IndexedMatch("Provider reference", "provider_reference = {}", (text,)),
    ]
    if text.isascii() and text.isdigit():
        found.append(IndexedMatch("Account number", f"{_ACCOUNT_NUMBER} = {{}}", (text,), True))
    return found


async def saved_accounts(
    db: Reads,
    merchant_id: int,
    wanted: AccountFilter,
    *,
    after: str | None = None,
    limit: int = PAGE_ROWS,
) -> Page[SavedAccount]:
    """Lists saved accounts, newest first. Sandbox and production share them."""
    conditions = (
        Conditions()
        .add("merchant_id = {}", merchant_id)
        .add_given("active = {}", wanted.active)
        .add_given("method_code = {}", wanted.method)
    )
    text = listing.search_text(wanted.search)
    if text is not None:
        conditions.add(
            f"({_ACCOUNT_NUMBER} = {{}}"
            " OR position(lower({}) IN lower(concat_ws(E'\\n', label, account_name))) > 0)",
            *(text, text),
        )
    selected = Selection(f"({accounts.SAVED}) AS account", "*", NUMBERED, conditions)
    return await selected.page(db, accounts.read, SortOrder.NEWEST, after, limit)


async def ids_of_reference(db: Reads, tenant: Tenant, ref_trx: str) -> list[str]:
    """Returns a list with the id of the payout with this reference, or an empty list."""
    records = await db.records(
        """
        SELECT trx_id FROM payout
         WHERE merchant_id = $1 AND environment = $2 AND ref_trx = $3""",
        *(tenant.merchant_id, tenant.environment, ref_trx),
    )
    return [record["trx_id"] for record in records]
