"""Pages on which a merchant sees and changes its settlement account in each currency."""

from typing import Any

from manilla.beneficiaries.accounts import ID_MAX
from manilla.dashboard.payouts import AT_FIELD, bank_options, check_beneficiary, given_beneficiary
from manilla.kit.errors import Refusal
from manilla.kit.ratelimit import RateLimitExceeded
from manilla.merchants.availability import MerchantSuspended
from manilla.merchants.directory import Caller
from manilla.merchants.merchants import MerchantStatus
from manilla.methods.method import Method
from manilla.payouts.ordering import AccountHolder
from manilla.payouts.protection import protection
from manilla.settlements import accounts
from manilla.settlements.accounts import (
    NewSettlementAccount,
    SettlementAccountNotFound,
    SettlementAccountUnchanged,
)
from manilla.transfers.refusals import PayoutFailed
from manilla.web.forms import BadForm
from manilla.web.page_request import PageRequest
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

# The limit is low, because even unapproved merchants can look up account names here.
NAMES_A_MINUTE = 6
TOO_MANY_NAMES = "Too many account lookups. Wait a minute and try again."
NAME_CHANGED = "The account's name is now {}. Confirm the new name."


async def show(request: PageRequest) -> PageResponse:
    caller = await request.caller()
    services = request.services
    currencies = sorted(caller.currencies)
    about = request.merchant_id, request.environment
    return request.page(
        "settlement_account.html",
        accounts={
            each: await accounts.settlement_account(request.db, *about, each) for each in currencies
        },
        waiting={
            each: await accounts.waiting(request.db, request.tenant, each) for each in currencies
        },
        settable={method.currency for method in _methods(request, caller)},
        is_protected=await protection.is_on(request.db, request.merchant_id),
        wait=services.settling.account_wait,
    )


async def show_new(request: PageRequest) -> PageResponse:
    caller = await request.caller()
    offered = _methods(request, caller)
    wanted = request.query.text("currency")
    if wanted:
        offered = [method for method in offered if method.currency == wanted]
    given = request.query if "method" in request.query else request.form
    if "method" not in given and len(offered) != 1:
        return request.page("settlement_account_method.html", methods=offered)
    chosen = given.integer("method") if "method" in given else offered[0].id
    return await _form(request, caller, _method(request, caller, chosen))


async def review(request: PageRequest) -> PageResponse:
    """Shows the account holder's name and asks the user to confirm the name."""
    caller = await request.caller()
    method = _method(request, caller, request.form.integer("method"))
    try:
        holder = await _holder(request, caller, method)
    except Refusal as refusal:
        return await _form(request, caller, method, refusal)
    return await _review(request, method, holder)


async def choose(request: PageRequest) -> PageResponse:
    caller = await request.caller()
    method = _method(request, caller, request.form.integer("method"))
    try:
        holder = await _holder(request, caller, method)
        assert holder.account_name is not None
        if request.form.text("confirmed_name") != holder.account_name.strip():
            text = NAME_CHANGED.format(holder.account_name)
            return await _review(request, method, holder, text)
        await request.confirm_identity()
        wait = request.services.settling.account_wait
        new = NewSettlementAccount(method, holder.who, holder.bank_name, holder.account_name)
        await accounts.choose(request.db, request.tenant, new, by=request.visitor.email, wait=wait)
    except Refusal as refusal:
        return await _form(request, caller, method, refusal)
    return request.redirect("~/settlement-account", done="Settlement account saved.")


async def approve(request: PageRequest) -> PageResponse:
    account_id = int(request.parameter("account"))
    if not 0 < account_id <= ID_MAX:
        raise PageNotFound
    try:
        key = request.db, request.tenant, account_id
        await accounts.check_approval(*key, by=request.decider)
        await request.confirm_identity()
        await accounts.approve(*key, by=request.decider)
    except SettlementAccountNotFound:
        raise PageNotFound from None
    except Refusal as refusal:
        return request.redirect("~/settlement-account", failed=refusal.text)
    return request.redirect("~/settlement-account", done="Settlement account approved.")


async def cancel(request: PageRequest) -> PageResponse:
    currency = request.form.required("currency", at_most=3)
    canceled = await accounts.cancel(request.db, request.tenant, currency)
    if canceled is None:
        return request.redirect("~/settlement-account", failed="There is no change to cancel.")
    return request.redirect("~/settlement-account", done="Change canceled.")


def _methods(request: PageRequest, caller: Caller) -> list[Method]:
    """Returns the methods whose provider can look up an account holder's name."""
    return [each for each in request.services.previews.methods(caller) if not each.is_manual]


def _method(request: PageRequest, caller: Caller, method_id: int) -> Method:
    method = request.services.previews.method(caller, method_id)
    if method.is_manual:
        raise PayoutFailed("This method cannot verify account names. Choose another method.")
    return method


async def _holder(request: PageRequest, caller: Caller, method: Method) -> AccountHolder:
    if caller.status in (MerchantStatus.DISABLED, MerchantStatus.REJECTED):
        raise MerchantSuspended
    check_beneficiary(request.form, method)
    bucket = f"{request.merchant_id:011d}:{request.environment}:own-names"
    if (await request.services.limiter.take(bucket, NAMES_A_MINUTE)).exceeded:
        raise RateLimitExceeded(TOO_MANY_NAMES)
    given = await given_beneficiary(request, request.form, caller, method)
    return await request.services.previews.holder_of_own(caller, method, given)


async def _form(
    request: PageRequest, caller: Caller, method: Method, refusal: Refusal | None = None
) -> PageResponse:
    banks = await bank_options(request, caller, method)
    details: dict[str, Any] = {"method": method, "banks": banks}
    if refusal is None:
        return request.page("settlement_account_new.html", **details)
    at = (*AT_FIELD, (SettlementAccountUnchanged, "account_number"))
    return request.form_with_errors("settlement_account_new.html", refusal, at=at, **details)


async def _review(
    request: PageRequest, method: Method, holder: AccountHolder, problem: str | None = None
) -> PageResponse:
    known = await accounts.settlement_account(
        request.db, request.merchant_id, request.environment, method.currency
    )
    is_protected = await protection.is_on(request.db, request.merchant_id)
    waits = known is not None or is_protected
    wait_hours = request.services.platform.now.settlement_account_wait_hours if waits else 0
    values: dict[str, Any] = {
        "method": method,
        "holder": holder,
        "known": known,
        "wait_hours": wait_hours,
        "is_protected": is_protected,
    }
    kept = {name: request.form.text(name) for name in ("method", "bank_code", "account_number")}
    if problem is None:
        return request.page("settlement_account_review.html", kept=kept, **values)
    return request.form_with_errors(
        "settlement_account_review.html", BadForm(problem), kept=kept, **values
    )
