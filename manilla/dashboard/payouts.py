"""Payout pages: the list, the page of one payout, and creating a payout in three steps."""

import secrets
from collections.abc import Collection, Sequence
from typing import Any

from manilla.banks.nigeria import with_code
from manilla.beneficiaries import accounts, beneficiary, methods
from manilla.beneficiaries.accounts import SavedAccount
from manilla.bulk import batches
from manilla.bulk import store as bulk
from manilla.kit import ids
from manilla.kit.display import clean
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.fields import insert_after
from manilla.kit.http import is_web_address
from manilla.ledger.transactions import DuplicateReference
from manilla.lookup import whereabouts
from manilla.lookup.story import payout_story
from manilla.lookup.waiting import waiting_reason
from manilla.merchants import limits
from manilla.merchants.directory import Caller
from manilla.methods.method import Method
from manilla.payouts import listing as payouts
from manilla.payouts import ordering
from manilla.payouts.initiate import PayoutOrder
from manilla.payouts.listing import AccountFilter
from manilla.payouts.ordering import AccountHolder, PayoutPreview
from manilla.payouts.payout import DETAILS, REPORTED_NAMES
from manilla.payouts.protection import allowance
from manilla.people.roles import Permission
from manilla.transfers import refusals
from manilla.web import money_story, record_list, timeline
from manilla.web.columns import transactions as transaction_columns
from manilla.web.forms import BadForm, Form
from manilla.web.page_request import PageRequest
from manilla.web.record_list import RecordList
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

NAMES_A_MINUTE = 60
MANUAL_DONE = "Payout created. An administrator will pay it manually. This page shows the status."
CHOOSE_BANK = "Choose a bank."
SAVED_SHOWN = 8
REFERENCE_LENGTH_MAX = 60
# The name of a hidden form field with a default reference.
# The reference ensures that submitting the form twice creates only one payout.
ONCE = "once"
# Each pair has an error, and the form field that shows the error.
AT_FIELD = (
    (refusals.UnknownBank, "bank_code"),
    (refusals.InvalidBeneficiary, "account_number"),
    (refusals.InsufficientBalance, "amount"),
    (refusals.AmountOutOfRange, "amount"),
)
ASKED = "This is more than you may pay out alone. Another person must approve the payout."
MADE_BEFORE = "This payout already exists. No second payout was created."

COLUMNS = payouts.FIELDS.select(
    "trx_id ref_trx status error_code currency payout_amount fee payable_amount withdraw_method"
    f" bank account_number account_name {' '.join(DETAILS + REPORTED_NAMES)} ordered_by created_at"
    " updated_at"
)


LIST = RecordList(
    "payouts",
    "payout",
    transaction_columns.PAYOUT_COLUMNS,
    payouts.payouts,
    payouts.totals,
    transaction_columns.PAYOUT_OUTCOMES,
)


async def show_all(request: PageRequest) -> PageResponse:
    is_sandbox = request.environment is Environment.SANDBOX
    wanted = transaction_columns.read_payout_filter(request, is_sandbox=is_sandbox)
    filters = [
        *transaction_columns.payout_filters(request),
        *record_list.currency_filter(sorted((await request.caller()).currencies)),
    ]
    columns = insert_after(COLUMNS, "bank", "bank_name", request.services.banks.name_of)
    columns = transaction_columns.with_taxes(request, columns)
    may_approve = request.may(Permission.MOVE_MONEY)
    return await LIST.show(
        *(request, "payouts.html", columns, [request.tenant], wanted, filters),
        waiting=await bulk.waiting(request.db, request.tenant) if may_approve else [],
    )


async def show(request: PageRequest) -> PageResponse:
    history = await payout_story(
        request.db,
        request.merchant_id,
        request.parameter("payout"),
        environment=request.environment,
    )
    if history is None:
        raise PageNotFound
    payout = history.payout
    reason = await waiting_reason(request.db, request.services.rails, payout)
    version = f"{payout.status}-{reason.version if reason else ''}"
    if (response := request.poll_response(version)) is not None:
        return response
    audience = money_story.audience(request)
    found = await whereabouts.of_payout(request.db, audience, history, reason)
    story = money_story.story(request, f"~/payouts/{payout.trx_id}", found)
    if (response := money_story.poll(request, story)) is not None:
        return response
    return request.page(
        "payout.html",
        payout=payout,
        story=story,
        version=version,
        attempts=history.attempts,
        route_names={
            each.provider: each.name
            for each in request.services.methods.rails(history.payout.currency)
        },
        timeline_events=timeline.of_payout(history),
    )


async def show_new(request: PageRequest) -> PageResponse:
    """Shows the form for the chosen method, or else for the method that suits most payouts."""
    caller = await request.caller()
    chosen = request.query if "method" in request.query else request.form
    if "method" in chosen:
        method = _method(request, caller, chosen)
    else:
        offered = request.services.previews.methods(caller)
        if not offered:
            return request.page("payout_method.html")
        method = _usual(offered, request.services.previews.silent(caller, offered))
    return request.page("payout_new.html", **await _details(request, caller, method))


def _usual(offered: Sequence[Method], silent: Collection[int]) -> Method:
    """Returns the automatic method, or else the first method whose provider responds."""
    reachable = [method for method in offered if method.id not in silent] or offered
    return next((method for method in reachable if method.is_auto), reachable[0])


async def show_name(request: PageRequest) -> PageResponse:
    """Renders the account holder's name, which is looked up as the user types the number."""
    if not request.query.text("method"):
        return _name(request)
    caller = await request.caller()
    method = _method(request, caller, request.query)
    given = await given_beneficiary(request, request.query, caller, method)
    if not _is_complete(given, method):
        return _name(request)
    allowance = await request.services.limiter.take(
        f"{request.merchant_id:011d}:{request.environment}:names", NAMES_A_MINUTE
    )
    if allowance.exceeded:
        return _name(request, reason="Too many account lookups. Wait a minute and try again.")
    try:
        return _name(request, await request.services.previews.holder(caller, method, given))
    except Refusal as refusal:
        return _name(request, reason=refusal.text)


def _name(
    request: PageRequest, holder: AccountHolder | None = None, reason: str | None = None
) -> PageResponse:
    return request.page("payout_name.html", holder=holder, reason=reason)


async def review(request: PageRequest) -> PageResponse:
    caller = await request.caller()
    method = _method(request, caller, request.form)
    try:
        _check_form(request.form, method)
        preview = await _preview(request, caller, method)
    except Refusal as refusal:
        details = await _details(request, caller, method)
        return request.form_with_errors("payout_new.html", refusal, at=AT_FIELD, **details)
    kept = [pair for pair in request.form.pairs() if pair[0] != "csrf"]
    subject = f"payout:{request.form.text('reference') or request.form.text(ONCE)}"
    needs_second = await allowance.is_exceeded(
        request.db, request.tenant, preview.total, request.visitor.email, subject
    )
    return request.page(
        "payout_review.html",
        preview=preview,
        kept=kept,
        given=request.form,
        needs_second=needs_second,
    )


async def pay(request: PageRequest) -> PageResponse:
    caller = await request.caller()
    method = _method(request, caller, request.form)
    # The API's rate limit also applies to payouts created in the dashboard.
    limit = request.services.platform.now.rate_limit_per_minute
    ticket = limits.rate_ticket(request.merchant_id, "dashboard", limit)
    try:
        _check_form(request.form, method)
        order = await _order(request, caller, method)
        await request.confirm_identity()
        if (asked := await _ask_second(request, caller, method, order)) is not None:
            return request.redirect(f"~/payouts/bulk/{asked}", done=ASKED)
        trx_id = await ordering.order(request.db, request.services.payouts, caller, order, ticket)
    except DuplicateReference as duplicate:
        first = (duplicate.details or {})["trx_id"]
        return request.redirect(f"~/payouts/{first}", failed=MADE_BEFORE)
    except Refusal as refusal:
        details = await _details(request, caller, method)
        return request.form_with_errors("payout_new.html", refusal, at=AT_FIELD, **details)
    return request.redirect(
        f"~/payouts/{trx_id}",
        done=MANUAL_DONE if method.is_manual else "Payout created.",
    )


async def _ask_second(
    request: PageRequest, caller: Caller, method: Method, order: PayoutOrder
) -> str | None:
    """Requests a second person's approval, and returns the id of the request.

    Returns None if the payout needs no approval.
    """
    amount = request.form.money("amount", method.currency)
    cost, by = request.services.previews.price(caller, method, amount).debit, request.decider
    async with request.db.transaction() as connection:
        subject = f"payout:{order.ref_trx}"
        if await allowance.take(connection, request.tenant, cost, by.email, subject):
            return None
    preview = await _preview(request, caller, method)
    return await batches.ask_single(request.db, caller, preview, order, by)


async def _preview(request: PageRequest, caller: Caller, method: Method) -> PayoutPreview:
    given: dict[str, Any] = await given_beneficiary(request, request.form, caller, method)
    if request.form.text("account_id"):
        saved = await _saved(request, request.form.integer("account_id"))
        if saved is None or saved.method_code != method.code:
            raise refusals.InvalidBeneficiary("There is no such saved account.")
        given = saved.beneficiary
    amount = request.form.money("amount", method.currency)
    return await request.services.previews.preview(caller, method, amount.amount, given)


async def _details(request: PageRequest, caller: Caller, method: Method) -> dict[str, Any]:
    """Returns the template values of the payout form."""
    saved = await payouts.saved_accounts(
        request.db, request.merchant_id, AccountFilter(method=method.code), limit=SAVED_SHOWN
    )
    wanted = request.query.text("account") or request.form.text("account_id")
    chosen = await _saved(request, int(wanted)) if _is_number(wanted) else None
    # The form keeps its first reference, because a new reference could create a second payout.
    once = request.form.text(ONCE) or f"DASH-{ids.base32(secrets.randbits(80), 16)}"
    offered = request.services.previews.methods(caller)
    return {
        "method": method,
        "others": [each for each in offered if each.id != method.id],
        "silent": request.services.previews.silent(caller, offered),
        "banks": await bank_options(request, caller, method),
        "saved": saved.rows,
        "chosen": chosen if chosen and chosen.method_code == method.code else None,
        "once": once,
        "balance": await request.services.previews.balance(caller, method.currency),
    }


async def _saved(request: PageRequest, account_id: int) -> SavedAccount | None:
    """Returns a saved account of the merchant, or None if there is no such account."""
    return await accounts.find(request.db, request.merchant_id, account_id)


def _method(request: PageRequest, caller: Caller, given: Form) -> Method:
    return request.services.previews.method(caller, given.integer("method"))


async def bank_options(
    request: PageRequest, caller: Caller, method: Method
) -> list[tuple[str, str, str]]:
    """Returns the options of the bank picker: each bank's code, label and search words.

    The list is empty if the provider's bank list is not available.
    """
    listed = await request.services.previews.banks(caller, method)
    provider, bank_at = method.provider or "", request.services.banks.bank_at
    options = [("", "Choose a bank", "")]
    for each in listed:
        bank = bank_at(provider, each.code, is_sandbox=caller.is_sandbox)
        text = clean(with_code(each.name, each.code), 100)
        options.append((each.code, text, "" if bank is None else bank.words))
    return options if listed else []


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 15


async def given_beneficiary(
    request: PageRequest, given: Form, caller: Caller, method: Method
) -> dict[str, str]:
    """Returns the beneficiary from the form, with the bank's code at the provider."""
    previews, number = request.services.previews, given.text("account_number").replace(" ", "")
    bank = await previews.own_bank_code(caller, method, given.text("bank_code"))
    if method.is_manual:
        pairs = {methods.MANUAL_BANK_NAME: bank, methods.MANUAL_ACCOUNT_NUMBER: number}
    else:
        pairs = {methods.BANK_CODE: bank, methods.ACCOUNT_NUMBER: number}
    return {name: value for name, value in pairs.items() if value}


def _is_complete(given: dict[str, str], method: Method) -> bool:
    """Returns whether bank and account number are complete, so the name can be looked up."""
    number = given.get(methods.ACCOUNT_NUMBER, "")
    return not method.is_manual and methods.BANK_CODE in given and len(number) == 10


def check_beneficiary(given: Form, method: Method) -> None:
    """Raises `BadForm` with an error for each missing or invalid beneficiary field."""
    if errors := _beneficiary_errors(given, method):
        raise BadForm(errors=errors)


def _beneficiary_errors(given: Form, method: Method) -> dict[str, str]:
    errors = {}
    number = given.text("account_number").replace(" ", "")
    if not given.text("bank_code"):
        errors["bank_code"] = "Enter the bank." if method.is_manual else CHOOSE_BANK
    if not number:
        errors["account_number"] = "Enter the account number."
    elif not method.is_manual:
        try:
            beneficiary.check_account_number(number)
        except Refusal as refusal:
            errors["account_number"] = refusal.text
    return errors


def _check_form(given: Form, method: Method) -> None:
    """Raises `BadForm` with the errors of all invalid fields."""
    errors = {} if given.text("account_id") else _beneficiary_errors(given, method)
    try:
        given.money("amount", method.currency)
    except BadForm as refusal:
        errors.update(refusal.errors or {})
    if len(given.text("reference")) > REFERENCE_LENGTH_MAX:
        errors["reference"] = f"Enter at most {REFERENCE_LENGTH_MAX} characters."
    if not given.text("reference").isprintable():
        errors["reference"] = "Enter plain text on one line."
    if given.text("ipn_url") and not is_web_address(given.text("ipn_url")):
        errors["ipn_url"] = "Enter a URL that starts with https:// or http://."
    if errors:
        raise BadForm(errors=errors)


async def _order(request: PageRequest, caller: Caller, method: Method) -> PayoutOrder:
    given = request.form
    account_id = given.integer("account_id") if given.text("account_id") else None
    who = None
    if account_id is None:
        who = await given_beneficiary(request, given, caller, method)
    return PayoutOrder(
        payout_amount=given.money("amount", method.currency).amount,
        currency_code=method.currency,
        ref_trx=given.text("reference") or given.required(ONCE, at_most=REFERENCE_LENGTH_MAX),
        ipn_url=given.text("ipn_url"),
        withdraw_method_id=method.id,
        withdraw_account_id=account_id,
        beneficiary=who,
        description=given.text("description") or None,
        ordered_by=request.visitor.email,
    )
