"""Settlement pages: the plan of each currency, past settlements, and their statements."""

from markupsafe import Markup

from manilla.kit.display import money
from manilla.kit.errors import Refusal
from manilla.kit.listing.sorting import SortOrder
from manilla.ledger.listing import STATEMENT_COLUMNS
from manilla.payouts.beneficiaries.settlement import settlement_account
from manilla.platform.settings import WEEKDAYS
from manilla.settlements import plans, store
from manilla.settlements import statement as statements
from manilla.settlements.plans import DAYS, SettlementMode, SettlementPlan
from manilla.settlements.settling import NotSettled
from manilla.settlements.store import (
    SETTLEMENT_FIELDS,
    Settlement,
    SettlementFilter,
    SettlementState,
)
from manilla.web import cells, record_list
from manilla.web.columns import statement as wallet_statement
from manilla.web.display import badge
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
    SettlementState.OPEN: ("pending", "Under way"),
    SettlementState.PAID: ("completed", "Paid"),
    SettlementState.FAILED: ("failed", "Failed"),
}


def _number(request: PageRequest, row: Settlement) -> Markup:
    return cells.link(request, f"~/settlements/{row.id}", f"Statement {row.id}")


def _payout(request: PageRequest, row: Settlement) -> Markup | str:
    return cells.id_link(request, f"~/payouts/{row.trx_id}", row.trx_id) if row.trx_id else "—"


LIST = RecordList(
    "settlements",
    "settlement",
    (
        time_column("Created", "created_at"),
        ListColumn("statement", "Statement", _number, place=Place.NAME),
        ListColumn("payout", "Payout", _payout),
        ListColumn(
            "ordered", "Ordered by", lambda _, row: cells.text(row.ordered_by), place=Place.ASIDE
        ),
        ListColumn(
            "state",
            "State",
            lambda _, row: badge(*STATES[row.state]),
            sorts=(SortOrder.STATUS,),
            place=Place.STATUS,
        ),
        ListColumn("remark", "Remark", lambda _, row: cells.text(row.remark), place=Place.DETAIL),
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
        Outcome("Under way", SettlementState.OPEN, "yellow"),
        Outcome("Failed", SettlementState.FAILED, "red"),
    ),
    status_field="state",
)


async def show(request: PageRequest) -> PageResponse:
    caller = await request.caller()
    currencies = sorted(caller.currencies & caller.active_wallets)
    wanted = record_list.read_amounts(request, SettlementFilter, "state", "currency")
    filters = [
        ListFilter("state", "State", [(state.value, STATES[state][1]) for state in STATES]),
        *record_list.currency_filter(currencies),
    ]
    return await LIST.show(
        *(request, "settlements.html", COLUMNS, [request.tenant], wanted, filters),
        cards=[await _card(request, currency) for currency in currencies],
        modes=SettlementMode,
        weekdays=list(zip(WEEKDAYS, DAYS, strict=True)),
        hour=request.services.platform.now.settlement_hour,
    )


async def _card(request: PageRequest, currency: str) -> dict[str, object]:
    """Returns what the page says about one currency."""
    plan = await plans.find(request.db, request.tenant, currency)
    about = request.merchant_id, request.environment
    try:
        amount = await request.services.settling.amount(plan)
    except NotSettled:
        amount = None
    return {
        "plan": plan,
        "text": plans.describe(plan),
        "account": await settlement_account(request.db, *about, currency),
        "amount": amount,
    }


async def set_plan(request: PageRequest) -> PageResponse:
    try:
        plan = _plan(request)
        await plans.change(request.db, plan)
    except Refusal as refusal:
        return request.redirect_with_errors(
            PAGE, refusal, keep=("currency", "mode", "weekday", "above", "reserve")
        )
    return request.redirect(PAGE, done="Settlement plan saved. It applies from tomorrow.")


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


async def settle_now(request: PageRequest) -> PageResponse:
    currency = request.form.required("currency", at_most=3)
    try:
        started = await request.services.settling.settle_now(
            request.tenant, currency, request.visitor.email
        )
    except Refusal as refusal:
        return request.redirect(PAGE, failed=refusal.text)
    return request.redirect(PAGE, done=f"Settlement of {started.amount} started.")


async def statement(request: PageRequest) -> PageResponse:
    """Shows the wallet's entries since the settlement before this one."""
    text = request.parameter("settlement")
    number = int(text) if text.isdecimal() and len(text) <= NUMBER_DIGITS_MAX else 0
    found = await store.find(request.db, request.tenant, number)
    if found is None:
        raise PageNotFound
    before = await store.before(request.db, found)
    wanted = statements.entries_of(found, before)
    return await wallet_statement.LIST.show(
        *(request, "settlement_statement.html", STATEMENT_COLUMNS),
        *([request.tenant, found.currency], wanted),
        file_name=f"settlement-{found.id}",
        settlement=found,
        before=before,
    )
