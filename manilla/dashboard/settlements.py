"""Settlement pages: the plan of each currency, past settlements, and their statements."""

from functools import partial

from manilla.kit.errors import Refusal
from manilla.ledger.listing import STATEMENT_COLUMNS
from manilla.payouts.beneficiaries.settlement import settlement_account
from manilla.platform.settings import WEEKDAYS
from manilla.settlements import plans, store
from manilla.settlements import statement as statements
from manilla.settlements.plans import DAYS, SettlementMode, SettlementPlan
from manilla.settlements.settling import NotSettled
from manilla.settlements.store import SETTLEMENT_FIELDS
from manilla.web import lists
from manilla.web.page_request import PageNotFound, PageRequest, PageResponse

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


async def show(request: PageRequest) -> PageResponse:
    caller = await request.caller()
    currencies = sorted(caller.currencies & caller.active_wallets)
    return await lists.show(
        request,
        "settlements.html",
        "settlements",
        COLUMNS,
        partial(store.page, request.db, request.tenant),
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
    return await lists.show(
        request,
        "settlement_statement.html",
        f"settlement-{found.id}",
        STATEMENT_COLUMNS,
        statements.pages(request.db, found, before),
        settlement=found,
        before=before,
    )
