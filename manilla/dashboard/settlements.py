"""Settlement pages: each currency's plan, past settlements, and their statements."""

from typing import Any

from markupsafe import Markup

from manilla.beneficiaries import beneficiary
from manilla.compliance import sections
from manilla.disputes import balances
from manilla.kit.display import money
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.listing.sorting import SortOrder
from manilla.lookup.wallet_statement import STATEMENT_COLUMNS
from manilla.merchants import merchants
from manilla.platform.settings import WEEKDAYS
from manilla.settlements import accounts, plans, store
from manilla.settlements import statement as statements
from manilla.settlements.accounts import SettlementAccount, settlement_account
from manilla.settlements.offers import NotSettled
from manilla.settlements.plans import DAYS, SettlementMode, SettlementPlan
from manilla.settlements.store import (
    SETTLEMENT_FIELDS,
    Settlement,
    SettlementFilter,
    SettlementState,
)
from manilla.web import record_list, table_cells
from manilla.web.columns import statement as wallet_statement
from manilla.web.display import badge
from manilla.web.forms import BadForm
from manilla.web.page_request import PageRequest
from manilla.web.record_list import (
    BY_AMOUNT,
    ListColumn,
    ListFilter,
    Outcome,
    Place,
    RecordList,
    time_column,
)
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

PAGE = "~/settlements"
NUMBER_DIGITS_MAX = 18
COLUMNS = SETTLEMENT_FIELDS.select(
    {
        "Time": "created_at",
        "State": "state",
        "Amount": "amount",
        "Currency": "currency",
        "Payout": "trx_id",
        "Ordered by": "ordered_by",
        "Remark": "remark",
    }
)


STATES = {
    SettlementState.OPEN: ("pending", "Pending"),
    SettlementState.PAID: ("completed", "Paid"),
    SettlementState.FAILED: ("failed", "Failed"),
}
ASKED = ("pending", "Waiting for approval")
NAME_NOT_CHECKED = "The account name differs from your legal name. Confirm the account."


def state_badge(settlement: Settlement) -> Markup:
    return badge(*(ASKED if settlement.is_asked else STATES[settlement.state]))


def _number(request: PageRequest, row: Settlement) -> Markup:
    return table_cells.link(request, f"~/settlements/{row.id}", f"Statement {row.id}")


def _payout(request: PageRequest, row: Settlement) -> Markup | str:
    return (
        table_cells.id_link(request, f"~/payouts/{row.trx_id}", row.trx_id) if row.trx_id else "—"
    )


LIST = RecordList(
    "settlements",
    "settlement",
    (
        time_column("Created", "created_at"),
        ListColumn("statement", "Statement", _number, place=Place.NAME),
        ListColumn("payout", "Payout", _payout),
        ListColumn(
            "ordered",
            "Ordered by",
            lambda _, row: table_cells.text(row.ordered_by),
            place=Place.ASIDE,
        ),
        ListColumn(
            "state",
            "State",
            lambda _, row: state_badge(row),
            sorts=(SortOrder.STATUS,),
            place=Place.STATUS,
        ),
        ListColumn(
            "remark", "Remark", lambda _, row: table_cells.text(row.remark), place=Place.DETAIL
        ),
        ListColumn(
            "amount",
            "Amount",
            lambda _, row: money(row.amount),
            is_number=True,
            sorts=BY_AMOUNT,
            place=Place.AMOUNT,
        ),
    ),
    store.page,
    store.totals,
    (
        Outcome("Paid", SettlementState.PAID, "green"),
        Outcome("Pending", SettlementState.OPEN, "yellow"),
        Outcome("Failed", SettlementState.FAILED, "red"),
    ),
    status_field="state",
)


async def show(request: PageRequest) -> PageResponse:
    caller = await request.caller()
    currencies = sorted(caller.currencies & caller.active_wallets)
    cards = [await _card(request, currency) for currency in currencies]
    version = "-".join(str(card["version"]) for card in cards)
    if (response := request.poll_response(version)) is not None:
        return response
    wanted = record_list.read_amounts(request, SettlementFilter, "state", "currency")
    filters = [
        ListFilter("state", "State", [(state.value, STATES[state][1]) for state in STATES]),
        *record_list.currency_filter(currencies),
    ]
    return await LIST.show(
        *(request, "settlements.html", COLUMNS, [request.tenant], wanted, filters),
        cards=cards,
        version=version,
        state_badge=state_badge,
        modes=SettlementMode,
        weekdays=list(zip(WEEKDAYS, DAYS, strict=True)),
        hour=request.services.platform.now.settlement_hour,
    )


async def _card(request: PageRequest, currency: str) -> dict[str, object]:
    """Returns the template values for the settlements in one currency."""
    plan = await plans.find(request.db, request.tenant, currency)
    about = request.merchant_id, request.environment
    newest = await store.newest(request.db, request.tenant, currency)
    offer, problem = None, None
    try:
        offer = await request.services.settling.offers.find(plan)
    except NotSettled as refusal:
        problem = refusal.text
    return {
        "plan": plan,
        "text": plans.describe(plan),
        "account": await settlement_account(request.db, *about, currency),
        "next_account": await accounts.waiting(request.db, request.tenant, currency),
        # An open settlement reserves the available amount, even if its payout does not exist yet.
        "open": newest if newest is not None and newest.is_open else None,
        "offer": offer,
        "problem": problem,
        "wallet": await balances.of_wallet(request.db, *about, currency),
        "version": f"{newest.id}-{newest.state}-{newest.is_asked}" if newest else "none",
    }


async def set_plan(request: PageRequest) -> PageResponse:
    try:
        plan = _plan(request)
        await request.confirm_identity()
        await plans.change(request.db, plan)
    except Refusal as refusal:
        return request.redirect_with_errors(
            PAGE, refusal, keep=("currency", "mode", "weekday", "above", "reserve")
        )
    return request.redirect(PAGE, done="Settlement plan saved. The plan applies from tomorrow.")


def _plan(request: PageRequest) -> SettlementPlan:
    form = request.form
    currency = form.required("currency", at_most=3)
    mode = form.choice("mode", SettlementMode)
    weekday = form.text("weekday")
    is_above = mode is SettlementMode.ABOVE
    return SettlementPlan(
        merchant_id=request.merchant_id,
        environment=request.environment,
        currency=currency,
        mode=mode,
        weekday=WEEKDAYS.index(weekday) if weekday in WEEKDAYS else None,
        above_minor=form.money("above", currency).minor if is_above else None,
        reserve_minor=form.money("reserve", currency).minor if form.text("reserve") else 0,
        set_by=request.visitor.email,
    )


async def show_new(request: PageRequest) -> PageResponse:
    """Asks the user to confirm a settlement: shows its amount and the account holder's name."""
    currency = request.query.text("currency") or request.form.text("currency")
    if currency not in (await request.caller()).currencies:
        raise PageNotFound
    return await _review(request, currency)


async def _review(
    request: PageRequest, currency: str, problem: Refusal | None = None
) -> PageResponse:
    settling = request.services.settling
    try:
        offer = await settling.offers.find(await plans.find(request.db, request.tenant, currency))
        holder = await settling.holder(offer)
    except Refusal as refusal:
        return request.redirect(PAGE, failed=refusal.text)
    name = holder.account_name or ""
    values: dict[str, Any] = {
        "offer": offer,
        "holder": holder,
        "has_changed": not beneficiary.names_agree(name, offer.account.account_name),
        "legal_name": await _other_name(request, name),
        "needs_second": await settling.needs_second(request.tenant, offer, request.visitor.email),
    }
    if problem is None:
        return request.page("settlement_review.html", **values)
    return request.form_with_errors("settlement_review.html", problem, **values)


async def _other_name(request: PageRequest, account_name: str) -> str | None:
    """Returns the merchant's legal name if the account's name differs from it, otherwise None."""
    if request.environment is Environment.SANDBOX:
        return None
    merchant = await merchants.get(request.db, request.merchant_id)
    return await sections.other_name(request.db, merchant, account_name)


async def settle_now(request: PageRequest) -> PageResponse:
    form = request.form
    currency = form.required("currency", at_most=3)
    try:
        amount, account_id = form.money("amount", currency), form.integer("account")
        await _check_name(request, account_id)
        await request.confirm_identity()
        started = await request.services.settling.settle_now(
            request.tenant, request.visitor.email, account_id=account_id, amount=amount
        )
    except Refusal as refusal:
        return await _review(request, currency, refusal)
    return request.redirect(PAGE, done=f"Settlement of {money(started.amount)} started.")


async def _check_name(request: PageRequest, account_id: int) -> None:
    """Rejects an account name that differs from the legal name, unless the user confirms it."""
    account = await accounts.find(request.db, request.tenant, account_id)
    if account is None or request.form.is_checked("name"):
        return
    if await _other_name(request, account.account_name) is not None:
        raise BadForm.at("name", NAME_NOT_CHECKED)


async def statement(request: PageRequest) -> PageResponse:
    """Shows a settlement's statement: the wallet entries since the previous settlement."""
    text = request.parameter("settlement")
    number = int(text) if text.isdecimal() and len(text) <= NUMBER_DIGITS_MAX else 0
    found = await store.find(request.db, request.tenant, number)
    if found is None:
        raise PageNotFound
    before = await store.before(request.db, found)
    wanted = statements.entries_of(found, before)
    return await wallet_statement.show(
        *(request, "settlement_statement.html", STATEMENT_COLUMNS),
        *((request.tenant, found.currency), wanted),
        file_name=f"settlement-{found.id}",
        settlement=found,
        account=await _account(request, found),
        before=before,
        state_badge=state_badge,
    )


async def _account(request: PageRequest, settlement: Settlement) -> SettlementAccount | None:
    """Returns the account that receives the settlement, or None if there is no payout yet."""
    if settlement.account_id is None:
        return None
    return await accounts.find(request.db, request.tenant, settlement.account_id)
