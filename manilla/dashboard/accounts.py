"""Pages for a merchant's saved accounts, which API requests can refer to by id."""

from functools import partial
from typing import Any

from manilla.approvals import changes
from manilla.approvals.changes import ApprovalRequested
from manilla.beneficiaries import accounts
from manilla.beneficiaries.accounts import ID_MAX
from manilla.dashboard.payouts import AT_FIELD, bank_options, check_beneficiary, given_beneficiary
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.fields import insert_after
from manilla.merchants.directory import Caller
from manilla.methods.method import Method, MethodKind
from manilla.payouts import listing as payouts
from manilla.payouts.listing import AccountFilter
from manilla.payouts.protection.protection import AccountAddition
from manilla.web import lists
from manilla.web.page_request import PageRequest
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

ASKED = "Payouts can go only to saved accounts, so another person must approve the new account."

COLUMNS = accounts.FIELDS.select(
    "withdraw_account_id label method_code bank account_number account_name created_at"
)


async def show_all(request: PageRequest) -> PageResponse:
    wanted = AccountFilter(search=request.query.text("q") or None)
    return await lists.show(
        request,
        "accounts.html",
        "saved-accounts",
        insert_after(COLUMNS, "bank", "bank_name", request.services.banks.name_of),
        partial(payouts.saved_accounts, request.db, request.merchant_id, wanted),
        method_of=lambda code: request.services.methods.by_code(MethodKind.WITHDRAW, code),
    )


async def show_new(request: PageRequest) -> PageResponse:
    caller, previews = await request.caller(), request.services.previews
    offered = previews.methods(caller)
    given = request.query if "method" in request.query else request.form
    method = previews.method(caller, given.integer("method")) if given.text("method") else None
    if method is None and len(offered) == 1:
        method = offered[0]
    if method is None:
        return request.page("account_method.html", methods=offered)
    return request.page("account_new.html", **await _details(request, caller, method))


async def add(request: PageRequest) -> PageResponse:
    """Saves an account after the provider has resolved the account holder's name."""
    caller = await request.caller()
    method = request.services.previews.method(caller, request.form.integer("method"))
    try:
        label = request.form.text("label", at_most=60)
        check_beneficiary(request.form, method)
        given = await given_beneficiary(request, request.form, caller, method)
        holder = await request.services.previews.holder(caller, method, given)
        # Production uses the same saved accounts, so the sandbox's fictitious name is not saved.
        name = None if caller.is_sandbox else holder.account_name
        addition = AccountAddition(
            request.merchant_id, method.code, holder.who.fields, name, label or None
        )
        await request.confirm_identity()
        account_id = await changes.apply_or_ask(request.approvals, addition)
    except Refusal as refusal:
        details = await _details(request, caller, method)
        return request.form_with_errors("account_new.html", refusal, at=AT_FIELD, **details)
    if isinstance(account_id, ApprovalRequested):
        return request.redirect("~/protection", done=ASKED)
    done = f"Account saved. Its withdraw_account_id in the API is {account_id}."
    return request.redirect("~/accounts", done=done)


async def remove(request: PageRequest) -> PageResponse:
    account_id = int(request.parameter("account"))
    if not 0 < account_id <= ID_MAX or not await accounts.remove(
        request.db, request.merchant_id, account_id
    ):
        raise PageNotFound
    back = request.form.choice("environment", Environment)
    return request.redirect(f"/{back}/accounts", done="Account removed.")


async def _details(request: PageRequest, caller: Caller, method: Method) -> dict[str, Any]:
    return {"method": method, "banks": await bank_options(request, caller, method)}
